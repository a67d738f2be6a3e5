import { setTimeout as sleep } from 'node:timers/promises';
import PostalMime from 'postal-mime';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import { type Arrival, store, wasTried } from '../core/operations/sandbox-messages.ts';
import { selfSignedCertificate } from '../crypto/certificate.ts';
import type { Database } from '../db/client.ts';
import { isUnavailable } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import { withALabels } from '../mail/address/address.ts';
import { parseReturnPath } from '../mail/links/token.ts';
import { oneLine } from '../process/start-error.ts';
import type { Resolve } from '../smtp/dns/resolver.ts';
import { Trouble } from '../trouble.ts';
import type { ReturnKind, Returns } from './returns.ts';
import { mailboxHost, noTlsHost } from './zone.ts';

const slowMs = 5_000;
const largestMessage = 64 * 1024 * 1024;

export interface MailboxOptions {
  db: Database;
  log: Logger;
  returns: Returns;
  /** To find the email that a message belongs to. */
  returnPath: { key: Buffer; host: string };
  /** Looks up the keys of DKIM signatures. */
  resolve: Resolve;
}

export interface Mailbox {
  port: number;
  /** The address of the server without STARTTLS, on the same port; null: this machine has no second loopback address. */
  noTlsAddress: string | null;
  close(): Promise<void>;
}

interface Place {
  /** The server's name; `noTlsHost` offers no STARTTLS. */
  name: typeof mailboxHost | typeof noTlsHost;
  host: string;
  port: number;
}

// macOS has no 127.0.0.2, and some containers have no IPv6.
const secondAddresses = ['127.0.0.2', '::1'];
const portsToTry = 5;

/**
 * The sandbox's mailbox: two real SMTP servers on loopback that accept mail for any address, in place of MX hosts on the
 * internet. One offers STARTTLS and the other does not; otherwise they are the same.
 */
export async function startMailbox(options: MailboxOptions): Promise<Mailbox> {
  for (let left = portsToTry; ; left -= 1) {
    const server = await serve({ name: mailboxHost, host: '127.0.0.1', port: 0 }, options);
    const second = await serveWithoutTls(server.port, options);
    if (second === null && left > 1) {
      await server.close();
      continue;
    }
    if (second === null) options.log.warn('the sandbox has no second loopback address: no-tls.test does not answer');
    return {
      port: server.port,
      noTlsAddress: second?.host ?? null,
      close: async () => {
        await Promise.all([server.close(), second?.close()]);
      },
    };
  }
}

/** Null when no second address has this port free. */
async function serveWithoutTls(port: number, options: MailboxOptions): Promise<Listening | null> {
  for (const host of secondAddresses) {
    const server = await serve({ name: noTlsHost, host, port }, options).catch(() => null);
    if (server !== null) return server;
  }
  return null;
}

interface Listening {
  host: string;
  port: number;
  close(): Promise<void>;
}

async function serve({ name, host, port }: Place, options: MailboxOptions): Promise<Listening> {
  const offersTls = name === mailboxHost;
  const { log } = options;
  const away = new Trouble(log, { failing: 'the sandbox refuses mail for now, because the database is away' });
  const failed = (error: Error, doing: string) => {
    const { message } = error;
    if (isUnavailable(error)) away.failed({ ...error, message: oneLine(message) });
    else log.error({ error: message }, `the sandbox could not ${doing}`);
  };
  const server = new SMTPServer({
    name,
    banner: 'Sendwright sandbox',
    ...(offersTls ? selfSignedCertificate(name) : {}),
    size: largestMessage,
    authOptional: true,
    disabledCommands: offersTls ? ['AUTH'] : ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    // smtp-server would put its own codes in front of ours.
    hideENHANCEDSTATUSCODES: true,
    closeTimeout: 1_000,
    onRcptTo: (address, session, callback) => {
      refuse(address.address, offersTls, session, options).then(callback, (error: Error) => {
        failed(error, 'decide about a recipient');
        callback(refusal(451, '4.3.0 the sandbox could not decide'));
      });
    },
    onData: (stream, session, callback) => {
      const hangUp = () => {
        for (const connection of server.connections) if (connection.id === session.id) connection.close();
      };
      receive(stream, session, options, hangUp).then(
        (reply) => {
          if (reply !== null) callback(null, reply);
        },
        (error: Error) => {
          failed(error, 'store a message');
          callback(refusal(451, '4.3.0 the sandbox could not store the message'));
        },
      );
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  server.on('error', (error) => log.warn({ error: error.message }, 'a connection to the sandbox failed'));
  const address = server.server.address();
  if (address === null || typeof address === 'string') throw new Error('the sandbox listens on no port');
  return { host, port: address.port, close: () => new Promise((resolve) => server.close(() => resolve())) };
}

/** The refusal of a recipient, null if it is accepted; its local part says how its server behaves. */
async function refuse(
  recipient: string,
  offersTls: boolean,
  session: SMTPServerSession,
  options: MailboxOptions,
): Promise<Error | null> {
  const actor = actorOf(recipient);
  // Accepting it over TLS would look as if delivery without TLS had been tested.
  if (actor === 'no-tls' && offersTls)
    return refusal(554, '5.3.0 no-tls@ works only at no-tls.test and other no-tls domains');
  if (actor === 'slow') await sleep(slowMs);
  const refused = refusals[actor];
  if (refused) return refusal(...refused);
  if (actor !== 'deferred' && actor !== 'greylisted') return null;
  if (await isKnown(recipient, session, options)) return null;
  return refusal(451, '4.7.1 greylisted, please try again');
}

const refusals: Record<string, [code: number, message: string] | undefined> = {
  bounced: [550, '5.1.1 the mailbox does not exist'],
  full: [552, '5.2.2 the mailbox is full'],
  blocked: [554, '5.7.1 blocked: the sending address is listed at dnsbl.example.test'],
};

/** Looks in the log rather than in memory, so that a message is still known after a restart. */
async function isKnown(recipient: string, session: SMTPServerSession, options: MailboxOptions): Promise<boolean> {
  const emailId = emailOf(senderOf(session), options);
  return emailId !== null && (await wasTried(options.db, emailId, recipient));
}

/** Empty in a bounce. */
const senderOf = ({ envelope: { mailFrom } }: SMTPServerSession) => (mailFrom === false ? '' : mailFrom.address);

/** The email that went out with this envelope sender; null if it was none of ours. */
const emailOf = (sender: string, { returnPath: { key, host } }: MailboxOptions) =>
  parseReturnPath(key, sender, host)?.emailId ?? null;

const actorOf = (recipient: string) => recipient.split('@')[0]?.split('+')[0]?.toLowerCase() ?? '';

/** Local parts that accept a message and report something about it afterwards. */
const afterwards: Record<string, ReturnKind | undefined> = { 'late-bounce': 'late bounce', complained: 'complaint' };

const refusal = (responseCode: number, message: string) => Object.assign(new Error(message), { responseCode });

/** @returns the reply; null when the connection was closed instead */
async function receive(
  stream: AsyncIterable<Buffer>,
  session: SMTPServerSession,
  options: MailboxOptions,
  hangUp: () => void,
): Promise<string | null> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  const raw = Buffer.concat(chunks);
  // The server library decodes domains, and everywhere else they are A-labels.
  const rcptTo = session.envelope.rcptTo.map(({ address }) => withALabels(address));
  for (const address of rcptTo) {
    if (actorOf(address) !== 'disconnects' || (await isKnown(address, session, options))) continue;
    hangUp();
    return null;
  }
  const sender = senderOf(session);
  const tls =
    session.secure && session.tlsOptions && typeof session.tlsOptions === 'object' ? session.tlsOptions : null;
  const parsed = await PostalMime.parse(headerOf(raw));
  const arrival: Arrival = {
    emailId: emailOf(sender, options),
    mailFrom: sender,
    rcptTo,
    subject: storable(parsed.subject),
    headerFrom: storable(parsed.from?.address),
    tlsVersion: tls?.version ?? null,
    dkim: await verdicts(raw, options),
    raw,
  };
  await store(options.db, arrival);
  for (const recipient of rcptTo) {
    const kind = afterwards[actorOf(recipient)];
    if (kind) options.returns.send(kind, { returnPath: sender, recipient, raw });
  }
  return '2.0.0 accepted by the sandbox';
}

/** Without the body: PostalMime never gives way, and takes minutes and gigabytes for millions of short lines. */
function headerOf(raw: Buffer): Buffer {
  const end = raw.indexOf('\r\n\r\n');
  return end === -1 ? raw : raw.subarray(0, end + 4);
}

async function verdicts(raw: Buffer, options: MailboxOptions): Promise<Arrival['dkim']> {
  // When it is first needed: loading it would be a fifth of each start.
  const { dkimVerify } = await import('mailauth/lib/dkim/verify.js');
  const { results } = await dkimVerify(raw, { resolver: options.resolve });
  return results.map(({ signingDomain, selector, status, info }) => ({
    domain: signingDomain ?? '',
    selector: selector ?? '',
    result: status.result,
    info: info ?? '',
  }));
}

/** PostgreSQL stores neither NUL nor lone surrogates in a text. */
const storable = (text: string | undefined) => (text ?? '').replaceAll('\0', '').toWellFormed();
