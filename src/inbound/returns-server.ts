import {
  SMTPServer,
  type SMTPServerDataStream,
  type SMTPServerEnvelope,
  type SMTPServerOptions,
  type SMTPServerSession,
} from 'smtp-server';
import type { TlsCertificate } from '../crypto/certificate.ts';
import { connectionsWithin } from '../process/open-files.ts';
import { limitConnections } from './connection-limit.ts';
import { keepAddressesAsWritten, keepOurCodes, limitReplies } from './connection-rules.ts';
import { close, hangUpAfter, listen, sharedOptions, unknownCommands } from './listening.ts';
import { asRefusal, tooManyConnections } from './refusal.ts';
import { mailboxOf, type ReturnTools, receive } from './returns.ts';
import { largestReturn, readBeginning } from './returns-content.ts';
import type { CertificateUser } from './served-certificate.ts';

export interface ReturnsServerOptions extends ReturnTools {
  /** The address to listen on; null: all. */
  listenOn: string | null;
  /** 0: any free port. */
  port: number;
  tls: TlsCertificate;
  /** The addresses, in their canonical spelling, whose connections begin with the PROXY protocol; none: no connection does. */
  proxies?: readonly string[];
  patience?: Patience;
}

export interface ReturnsServer extends CertificateUser {
  port: number;
  /** Takes no new messages, and finishes those being stored. Takes at most `graceMs`, and until the last transaction ends. */
  close(graceMs: number): Promise<void>;
}

/** How long the server waits, in ms. */
export interface Patience {
  /** For the next bytes. */
  idleMs: number;
  /** From DATA to the final dot, however slowly the bytes arrive. */
  contentMs: number;
  /** For the whole connection; a server with something to report needs only seconds. */
  visitMs: number;
}

const usualPatience: Patience = { idleMs: 2 * 60_000, contentMs: 10 * 60_000, visitMs: 15 * 60_000 };
const mostConnections = 200;
/** From one network. */
const mostConnectionsOfOne = 20;
/** A message with ten recipients takes some 20 replies, STARTTLS included. */
const mostReplies = { errors: 20, replies: 100 };
const mostRecipients = 10;

const fixedOptions: SMTPServerOptions = {
  ...sharedOptions,
  banner: 'Sendwright inbound',
  size: largestReturn,
  maxRecipients: mostRecipients,
  authOptional: true,
  disabledCommands: ['AUTH', ...unknownCommands],
};

/**
 * The server for what comes back: bounces, complaints and unsubscribe requests by mail. It accepts mail for addresses with one
 * of our tokens, and feedback reports; it relays nothing and sends nothing. A 250 to the final dot means that it is committed.
 *
 * @throws StartError when the port cannot be listened on
 */
export async function startReturnsServer(options: ReturnsServerOptions): Promise<ReturnsServer> {
  const { patience = usualPatience, proxies = [], log } = options;
  const underWay = new Map<SMTPServerSession, Promise<unknown>>();
  const visitTimers = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  const replyFor = (error: unknown) => asRefusal(error, log, 'a returned message could not be stored');
  const server = new SMTPServer({
    ...fixedOptions,
    ...options.tls,
    name: options.host,
    socketTimeout: patience.idleMs,
    onConnect(session, callback) {
      keepOurCodes(server, session);
      if (!connections.admits(session)) return callback(tooManyConnections());
      visitTimers.set(session, hangUpAfter(patience.visitMs, server, session, '4.4.2 the session took too long'));
      keepAddressesAsWritten(server, session);
      limitReplies(server, session, mostReplies);
      callback();
    },
    onRcptTo(address, _session, callback) {
      try {
        mailboxOf(options, address.address);
        callback();
      } catch (error) {
        callback(replyFor(error));
      }
    },
    onData(stream, session, callback) {
      const timer = hangUpAfter(patience.contentMs, server, session, '4.4.2 the message took too long');
      const work = take(options, stream, session.envelope).finally(() => clearTimeout(timer));
      underWay.set(session, work);
      work
        .then(
          (reply) => callback(null, reply),
          (error: unknown) => callback(replyFor(error)),
        )
        .finally(() => underWay.delete(session));
    },
    onClose: (session) => clearTimeout(visitTimers.get(session)),
  });
  server.on('error', (error) => log.debug({ error: error.message }, 'an inbound connection failed'));
  const connections = limitConnections(server, {
    mostInAll: connectionsWithin(mostConnections, 'returns'),
    mostOfOne: mostConnectionsOfOne,
    busy: `421 ${options.host} 4.7.0 too many connections, try again later\r\n`,
    beginMs: patience.idleMs,
    proxies,
    log,
  });
  const port = await listen(server, 'INBOUND_SMTP_PORT', options.listenOn, options.port);
  return {
    port,
    showCertificate: (tls) => server.updateSecureContext(tls),
    async close(graceMs) {
      await close(server, graceMs, (session) => underWay.has(session));
      await Promise.allSettled(underWay.values());
    },
  };
}

/** @returns the reply to the final dot */
async function take(
  tools: ReturnTools,
  stream: SMTPServerDataStream,
  { rcptTo, mailFrom }: SMTPServerEnvelope,
): Promise<string> {
  const mailboxes = rcptTo.map(({ address }) => mailboxOf(tools, address));
  const nullSender = mailFrom === false || mailFrom.address === '';
  return receive(tools, mailboxes, await readBeginning(stream), nullSender);
}
