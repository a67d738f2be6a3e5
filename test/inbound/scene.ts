import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { createTransport, type SentMessageInfo } from 'nodemailer';
import MailComposer from 'nodemailer/lib/mail-composer';
import type { Test } from 'tap';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { type SubmissionOptions, startSubmission } from '../../src/inbound/submission.ts';
import { silentLog } from '../../src/log.ts';
import { TokenBuckets } from '../../src/pace/rate-limit.ts';
import { createQueue } from '../../src/queue.ts';
import { buildSender } from '../support/build.ts';
import type { TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { newTurns } from '../support/turns.ts';

export { encryptionKey };

export const serverName = 'mail.submission.test';
export const certificate = selfSignedCertificate(serverName);

/** What a mail client is told: the server's reply to the final dot, or to what it refused. */
export type Outcome = { accepted: string } | { refused: string };

/** A node and its two submission ports. Without the role `mta` nothing is delivered. */
export async function startSubmitter(t: Test, options: Partial<SubmissionOptions> & { roles?: string } = {}) {
  const { roles = 'api', ...rest } = options;
  const node = await sharedNode(roles);
  const queue = createQueue(node.databaseUrl, silentLog);
  await queue.start();
  const server = await startSubmission({
    db: node.db,
    queue,
    fresh: new FreshBodies({ room: 0 }),
    commitTurns: newTurns(),
    log: silentLog,
    host: '127.0.0.1',
    ports: { submission: 0, submissions: 0 },
    name: serverName,
    tls: certificate,
    limiter: new TokenBuckets({ perSecond: 1_000, burst: 1_000 }),
    ...rest,
  });
  t.teardown(async () => {
    await server.close(100);
    await queue.stop();
  });
  const ports = { submission: server.ports.submission ?? 0, submissions: server.ports.submissions ?? 0 };
  const dial = (port: keyof typeof ports) => Dialog.open(t, ports[port], port === 'submissions');
  const logIn = async (key: string) => {
    const dialog = await dial('submissions');
    await dialog.ask('EHLO client.test');
    await dialog.ask(`AUTH PLAIN ${plain(key)}`);
    return dialog;
  };
  return { node, queue, server, ports, dial, logIn, sender: () => buildSubmitter(node, ports, logIn) };
}

/** An account of its own that can send. */
async function buildSubmitter(
  node: TestNode,
  ports: { submission: number; submissions: number },
  logIn: (key: string) => Promise<Dialog>,
) {
  const sender = await buildSender(node.db, encryptionKey);
  const plainMessage = { from: sender.from, to: 'a@b.test', subject: 's', text: 't' };
  /** Sends through one of the ports, as a program with nodemailer does. */
  const mail = async (
    message: Record<string, unknown>,
    { key = sender.key, port = 'submissions' as keyof typeof ports } = {},
  ): Promise<Outcome> => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: ports[port],
      secure: port === 'submissions',
      requireTLS: true,
      tls: { ca: certificate.cert, servername: serverName },
      auth: { user: 'anybody', pass: key },
    });
    try {
      const info: SentMessageInfo = await transport.sendMail({ ...plainMessage, ...message });
      return { accepted: String(info.response) };
    } catch (error) {
      const { response, message: own } = error as Error & { response?: string };
      return { refused: response ?? own };
    } finally {
      transport.close();
    }
  };
  return {
    ...sender,
    mail,
    /** Logs in once; the returned function sends what nodemailer makes of a message, and returns the reply. */
    offers: async () => {
      const dialog = await logIn(sender.key);
      return async (message: Record<string, unknown>, to?: string[]) => {
        const bytes = await new MailComposer({ ...plainMessage, ...message, newline: 'windows' }).compile().build();
        return dialog.message(
          sender.from,
          bytes.toString('latin1').replaceAll('\r\n.', '\r\n..').replace(/\r\n$/, ''),
          to,
        );
      };
    },
    logIn: () => logIn(sender.key),
    /** The stored email that a 250 names. */
    read: async (outcome: Outcome | string) => {
      const reply = typeof outcome === 'string' ? outcome : 'accepted' in outcome ? outcome.accepted : outcome.refused;
      const id = /queued as (\S+)/.exec(reply)?.[1];
      if (!id) throw new Error(`not accepted: ${reply}`);
      return (await node.call('GET', `/api/v1/emails/${id}`, { key: sender.key })).body.email;
    },
    /** How many emails the account has. */
    count: async () => (await node.call('GET', '/api/v1/emails', { key: sender.key })).body.count,
  };
}

export const plain = (key: string) => Buffer.from(`\0anybody\0${key}`).toString('base64');

/** A raw connection to an SMTP server: sends exact bytes, reads whole replies. */
export class Dialog {
  #socket: Socket;
  #received = '';
  /** One listener for all replies of a session, however long it is. */
  #gone: Promise<unknown> = Promise.resolve();

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen();
  }

  /**
   * Connected and, unless the caller wants to read it, greeted.
   *
   * @param through what a proxy at `from` sends before anything else
   */
  static async open(
    t: Test,
    port: number,
    tls: boolean,
    greeted = true,
    { from = '127.0.0.1', through = '' } = {},
  ): Promise<Dialog> {
    const plainSocket = connectTcp({ port, host: '127.0.0.1', localAddress: from });
    if (through) plainSocket.write(through);
    const socket = tls
      ? connectTls({ socket: plainSocket, ca: certificate.cert, servername: serverName })
      : plainSocket;
    plainSocket.setNoDelay(true);
    t.teardown(async () => {
      socket.destroy();
    });
    const dialog = new Dialog(socket);
    if (greeted) await dialog.reply();
    return dialog;
  }

  #listen(): void {
    const socket = this.#socket;
    this.#gone = new Promise((resolve) => socket.once('close', resolve));
    this.#socket.on('error', () => {});
    this.#socket.on('data', (chunk) => {
      this.#received += chunk.toString('latin1');
    });
  }

  /** Text is Latin-1, so that `\xff` is one byte. */
  send(bytes: string): void {
    this.#socket.write(Buffer.from(bytes, 'latin1'));
  }

  /** The next reply with all its lines; empty if the server hung up instead. */
  async reply(): Promise<string> {
    for (;;) {
      const whole = /^(?:\d{3}-.*\r\n)*\d{3}(?: .*)?\r\n/.exec(this.#received)?.[0];
      if (whole !== undefined) {
        this.#received = this.#received.slice(whole.length);
        return whole.trimEnd();
      }
      if (this.#socket.destroyed || this.#socket.readableEnded) return '';
      await Promise.race([once(this.#socket, 'data'), this.#gone]);
    }
  }

  async ask(line: string): Promise<string> {
    this.send(`${line}\r\n`);
    return this.reply();
  }

  /** A transaction up to DATA; returns the last reply, 354 if all went well. */
  async envelope(from: string, to: string[] = ['a@b.test']): Promise<string> {
    const reply = await this.ask(`MAIL FROM:<${from}>`);
    if (!reply.startsWith('250')) return reply;
    for (const address of to) {
      const answer = await this.ask(`RCPT TO:<${address}>`);
      if (!answer.startsWith('250')) return answer;
    }
    return this.ask('DATA');
  }

  /** A whole message, with its dots unchanged; returns the reply to it. */
  async message(from: string, content: string, to?: string[]): Promise<string> {
    const reply = await this.envelope(from, to);
    return reply.startsWith('354') ? this.ask(`${content}\r\n.`) : reply;
  }

  /** Continues inside TLS, whatever else was sent. */
  async startTls(behind = ''): Promise<void> {
    this.send(`STARTTLS\r\n${behind}`);
    await this.reply();
    const plainSocket = this.#socket;
    plainSocket.removeAllListeners('data');
    this.#received = '';
    this.#socket = connectTls({ socket: plainSocket, ca: certificate.cert, servername: serverName });
    this.#listen();
    await once(this.#socket, 'secureConnect');
  }

  end(): void {
    this.#socket.end();
  }

  /** Everything until the server hangs up. */
  async rest(): Promise<string> {
    if (!this.#socket.destroyed && !this.#socket.readableEnded) await once(this.#socket, 'close');
    return this.#received;
  }
}
