import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server';
import { limits } from '../core/accounts/send-limits.ts';
import type { TlsCertificate } from './certificate.ts';
import { limitConnections } from './connection-limit.ts';
import { close, common, hangUp, keepAddressesAsWritten, limitReplies, listen, unknownCommands } from './listening.ts';
import { notNow, Refusal, tooLarge } from './refusal.ts';
import { type Mailbox, mailboxOf, type ReturnTools, receive } from './returns.ts';

export interface ReturnsServerOptions extends ReturnTools {
  /** The address to listen on; null: all. */
  listenOn: string | null;
  /** 0: any free port. */
  port: number;
  tls: TlsCertificate;
  patience?: Patience;
}

export interface ReturnsServer {
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
const most = { mostInAll: 200, mostOfOne: 20 };
/** A message with ten recipients takes some 20 replies, STARTTLS included. */
const mostReplies = { errors: 20, replies: 100 };
const MB = 1024 * 1024;
/**
 * Many servers return the whole message. Ours has at most all files and both bodies at three octets per character, as base64 in
 * lines of 76, plus a megabyte each for our header and for the text of the bounce around it.
 */
export const largestMessage = Math.ceil((limits.attachmentsBytes + 2 * 3 * limits.body) / 57) * 78 + 2 * MB;
/** Only the beginning is kept, where reports are. The rest is counted and dropped, so 200 connections hold at most 200 MB. */
const mostKept = MB;
const mostRecipients = 10;

/**
 * The server for what comes back: bounces, complaints and unsubscribe requests by mail. It accepts mail for addresses with one
 * of our tokens, and feedback reports; it relays nothing and sends nothing. A 250 to the final dot means that it is committed.
 *
 * @throws StartError when the port cannot be listened on
 */
export async function startReturnsServer(options: ReturnsServerOptions): Promise<ReturnsServer> {
  const { patience = usualPatience, log } = options;
  const underWay = new Map<SMTPServerSession, Promise<unknown>>();
  const visits = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  const deadline = (session: SMTPServerSession, ms: number, sentence: string) =>
    setTimeout(() => hangUp(server, session, sentence), ms).unref();
  const replyFor = (error: unknown): Refusal => {
    if (error instanceof Refusal) return error;
    log.error({ error: (error as Error).stack }, 'a returned message could not be stored');
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
      visits.set(session, deadline(session, patience.visitMs, '4.4.2 the session took too long'));
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
  const beginning = new Beginning();
  let size = 0;
  try {
    // Read to the end even if it will be refused: the client reads no reply before that.
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      beginning.add(chunk);
      size += chunk.length;
    }
  } catch {
    throw new Refusal(421, '4.4.2', 'the connection was lost before the final dot');
  }
  if (size > largestMessage) throw tooLarge(`a message must have at most ${largestMessage} octets`);
  return receive(tools, mailboxes, beginning.octets, nullSender);
}

/** The first octets of a stream, copied: kept as chunks, a stream of one-octet chunks would take a hundred times the memory. */
class Beginning {
  #buffer = Buffer.alloc(0);
  #length = 0;

  add(chunk: Buffer): void {
    const length = Math.min(this.#length + chunk.length, mostKept);
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(length, 2 * this.#buffer.length), mostKept));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    this.#length += chunk.copy(this.#buffer, this.#length, 0, length - this.#length);
  }

  get octets(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }
}
