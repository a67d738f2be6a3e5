import { constants, X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  createSecureContext,
  DEFAULT_CIPHERS,
  type DetailedPeerCertificate,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import { cleanRemoteText } from '../replies/reply.ts';
import type { TlsInfo } from '../replies/result.ts';

const maxCertificates = 10;

/** Whom to trust, and what to speak with them. */
export class TlsTerms {
  readonly #ca: { ca?: string };
  #modern: SecureContext | null = null;
  #any: SecureContext | null = null;

  /** @param ca certification authorities to trust instead of the usual ones, in PEM */
  constructor(ca?: string) {
    this.#ca = ca === undefined ? {} : { ca };
  }

  /** Created once: creating a context reads all root certificates. */
  get modern(): SecureContext {
    this.#modern ??= createSecureContext(this.#ca);
    return this.#modern;
  }

  /** Takes what old servers speak, too: TLS 1.0, keys and signatures that are weak today, renegotiation as of old. */
  get any(): SecureContext {
    this.#any ??= createSecureContext({
      ...this.#ca,
      minVersion: 'TLSv1',
      ciphers: `${DEFAULT_CIPHERS}:@SECLEVEL=0`,
      secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
    });
    return this.#any;
  }
}

/** Trusts the system's authorities. */
export const usualTerms = new TlsTerms();

/**
 * Starts TLS over an open connection. The certificate is judged (`tlsInfoOf`) but not required.
 *
 * @param serverName the name to ask the certificate for
 */
export function startTls(socket: Socket, serverName: string, secureContext: SecureContext): TLSSocket {
  return tlsConnect({
    socket,
    secureContext,
    rejectUnauthorized: false,
    ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
  });
}

/** What a finished handshake came to. */
export function tlsInfoOf(socket: TLSSocket): TlsInfo {
  const { authorized, authorizationError } = socket;
  return {
    version: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().standardName,
    authorized,
    problem: authorized ? null : cleanRemoteText(String(authorizationError ?? 'unknown'), 100),
  };
}

/** The certificates that the server showed: its own first, then its issuers. */
export function certificatesOf(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  // Not getPeerX509Certificate: it takes the certificates away from OpenSSL, so it works only once.
  let next: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  while (next?.raw !== undefined && chain.length < maxCertificates) {
    chain.push(new X509Certificate(next.raw));
    // A self-signed certificate is its own issuer.
    next = next.issuerCertificate === next ? undefined : next.issuerCertificate;
  }
  return chain;
}
