import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server';
import type { TlsCertificate } from './certificate.ts';
import { limitConnections } from './connection-limit.ts';
import { close, common, hangUp, limitReplies, listen, unknownCommands } from './listening.ts';
import { notNow, Refusal, tooLarge } from './refusal.ts';
import { type Mailbox, mailboxOf, type ReturnTools, receive } from './returns.ts';

export interface InboundOptions extends ReturnTools {
  /** The address to listen on; null: all. */
  listenOn: string | null;
  /** 0: any free port. */
  port: number;
  tls: TlsCertificate;
  patience?: Patience;
}

export interface InboundServer {
  port: number;
  /** Takes no new messages; what is being written down is brought to its end. Within `graceMs` and the end of a transaction. */
  close(graceMs: number): Promise<void>;
}

/** How long the server waits, in ms. */
export interface Patience {
  /** For the next bytes. */
  idleMs: number;
  /** From DATA to the final dot, however the bytes trickle. */
  contentMs: number;
  /** For all of a connection, which a server that has something to say needs for seconds. */
  visitMs: number;
}

const usualPatience: Patience = { idleMs: 2 * 60_000, contentMs: 5 * 60_000, visitMs: 15 * 60_000 };
const most = { mostInAll: 200, mostOfOne: 20 };
/** A message takes some 20 replies, with ten recipients and STARTTLS before it. */
const mostReplies = { errors: 20, replies: 100 };
const largestMessage = 10 * 1024 * 1024;
/** What is read of a message: reports stand at its beginning. */
const mostKept = 1024 * 1024;
const mostRecipients = 10;

/**
 * The server for what comes back: bounces, complaints and who unsubscribes by mail. It takes mail for addresses with a token of
 * ours, and feedback reports; it relays nothing and sends nothing. A 250 to the final dot says that it is written down.
 *
 * @throws StartError when the port cannot be listened on
 */
export async function startInbound(options: InboundOptions): Promise<InboundServer> {
  const { patience = usualPatience, log } = options;
  const underWay = new Map<SMTPServerSession, Promise<unknown>>();
  const visits = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  const deadline = (session: SMTPServerSession, ms: number, sentence: string) =>
    setTimeout(() => hangUp(server, session, sentence), ms).unref();
  const replyFor = (error: unknown): Refusal => {
    if (error instanceof Refusal) return error;
    log.error({ error: (error as Error).stack }, 'a message that came back could not be written down');
    return notNow('internal error, try again');
  };
  const server = new SMTPServer({
    ...common,
    ...options.tls,
    name: options.host,
    banner: 'Sendwright inbound',
    size: largestMessage,
    maxRecipients: mostRecipients,
    authOptional: true,
    disabledCommands: ['AUTH', ...unknownCommands],
    socketTimeout: patience.idleMs,
    onConnect(session, callback) {
      visits.set(session, deadline(session, patience.visitMs, '4.4.2 that took too long'));
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
      const timer = deadline(session, patience.contentMs, '4.4.2 the message took too long');
      const { rcptTo, mailFrom } = session.envelope;
      const mailboxes = rcptTo.map(({ address }) => mailboxOf(options, address));
      const nullSender = mailFrom === false || mailFrom.address === '';
      const work = accept(options, stream, mailboxes, nullSender).finally(() => clearTimeout(timer));
      underWay.set(session, work);
      work
        .then(
          (reply) => callback(null, reply),
          (error: unknown) => callback(replyFor(error)),
        )
        .finally(() => underWay.delete(session));
    },
    onClose: (session) => clearTimeout(visits.get(session)),
  });
  server.on('error', (error) => log.debug({ error: error.message }, 'an inbound connection failed'));
  limitConnections(server.server, {
    ...most,
    busy: `421 ${options.host} 4.7.0 too many connections, try again later\r\n`,
  });
  const port = await listen(server, 'INBOUND_SMTP_PORT', options.listenOn, options.port);
  return {
    port,
    async close(graceMs) {
      await close(server, graceMs, (session) => underWay.has(session));
      await Promise.allSettled(underWay.values());
    },
  };
}

async function accept(
  tools: ReturnTools,
  stream: SMTPServerDataStream,
  mailboxes: Mailbox[],
  nullSender: boolean,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // To its end, also when it is going to be refused: the client reads no reply before.
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (size < mostKept) chunks.push(chunk.subarray(0, mostKept - size));
      size += chunk.length;
    }
  } catch {
    throw new Refusal(421, '4.4.2', 'the connection broke off before the final dot');
  }
  if (size > largestMessage) throw tooLarge(`a message may have ${largestMessage} octets at the most`);
  return receive(tools, mailboxes, Buffer.concat(chunks), nullSender);
}
