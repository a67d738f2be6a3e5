import { X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { TlsCertificate } from '../crypto/certificate.ts';
import type { Logger } from '../log.ts';
import { type CertificateSource, lastsLong, readCertificate } from './certificate.ts';

/** A server that shows a certificate. */
export interface CertificateUser {
  /** Shows this one from now on; connections that are encrypted already stay as they are. */
  showCertificate(tls: TlsCertificate): void;
}

/**
 * The certificate that the SMTP servers of a process show: that of the start and, without a restart, each that follows: an
 * operator's files are replaced every few weeks by automatic renewals, and one of ours before its year is over.
 */
export class ServedCertificate {
  readonly #source: CertificateSource;
  readonly #log: Logger;
  readonly #users: CertificateUser[] = [];
  #first: Promise<TlsCertificate> | undefined;
  /** The files that the shown certificate was read from; null: they cannot be read again. */
  #seen: string | null = null;
  #shown: TlsCertificate | undefined;

  constructor(source: CertificateSource, log: Logger) {
    this.#source = source;
    this.#log = log;
  }

  /** The certificate to start a server with. @throws StartError, as `readCertificate` does */
  ofStart(): Promise<TlsCertificate> {
    this.#first ??= this.#readFirst();
    return this.#first;
  }

  /** Also shows this server, started with the first one, each that follows. */
  use(user: CertificateUser): void {
    this.#users.push(user);
  }

  /**
   * Looks whether the files have been replaced, or whether it is time to replace our own.
   *
   * @throws StartError if they have, and cannot be used, or if ours cannot be replaced: the servers keep what they have. One file
   * may be replaced before the other, so the next look may find both.
   */
  async look(): Promise<void> {
    if (!this.#source.files) return this.#renewOwn();
    if (this.#seen === null) return;
    const found = await lookAt(this.#source);
    if (found === null || found === this.#seen) return;
    const certificate = await readCertificate(this.#source);
    const shown = this.#shown;
    if (certificate.cert !== shown?.cert || certificate.key !== shown.key) this.#show(certificate);
    this.#seen = found;
  }

  async #renewOwn(): Promise<void> {
    if (this.#shown && !lastsLong(this.#shown.cert)) this.#show(await readCertificate(this.#source));
  }

  #show(certificate: TlsCertificate): void {
    for (const user of this.#users) user.showCertificate(certificate);
    this.#shown = certificate;
    const until = new Date(new X509Certificate(certificate.cert).validTo);
    this.#log.info({ until }, 'the SMTP servers show the new certificate');
  }

  async #readFirst(): Promise<TlsCertificate> {
    // Before reading: what is replaced meanwhile is seen at the first look.
    this.#seen = await lookAt(this.#source);
    this.#shown = await readCertificate(this.#source);
    return this.#shown;
  }
}

/** Which files there are. Null without any, and for what is none, such as a pipe, or is gone: what was read once stays good. */
async function lookAt({ files }: CertificateSource): Promise<string | null> {
  if (!files) return null;
  const found = await Promise.all([files.cert, files.key].map((file) => stat(file).catch(() => null)));
  if (!found.every((one) => one?.isFile())) return null;
  return found.map((one) => `${one?.ino} ${one?.size} ${one?.mtimeMs}`).join();
}
