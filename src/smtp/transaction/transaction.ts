import { type Connection, isLost, type Lost } from '../connections/connection.ts';
import type { Deadlines } from '../connections/deadlines.ts';
import { isRefusal, isSuccess, type ParsedReply, type Reply } from '../replies/reply.ts';
import type { Phase, RecipientResult } from '../replies/result.ts';
import { type Content, finalDot } from './content.ts';
import { type Envelope, needsUtf8 } from './envelope.ts';
import { refuseLocally } from './local-refusal.ts';
import { isNoVerdict, RecipientResults, type RecipientsEnd } from './recipient-results.ts';

/** One message for one connection, and whom to ask and to tell around its final dot. */
export interface TransactionRequest {
  envelope: Envelope;
  content: Content;
  /** Asked for these recipients just before the end of the message is written; false gives the message up. */
  beforeDot: (recipients: string[]) => boolean | Promise<boolean>;
  /** Told these recipients' results as soon as they are known, also if the end was not written after all. */
  afterDot: (results: RecipientResult[]) => void;
  deadlines: Deadlines;
}

/** What a transaction came to: for its recipients, for the connection and for the message. */
export interface TransactionEnd extends RecipientsEnd {
  /** False if the connection ended, or said 421, before it answered anything: it was dead when the transaction began. */
  alive: boolean;
  /** True if sending the content has begun. */
  begun: boolean;
  /** True if `beforeDot` returned false. */
  givenUp: boolean;
}

/** How many bytes at most are written together with the final dot, once the server has everything before them. */
const tailBytes = 16_384;

/**
 * Sends one message on a greeted connection, to the recipients that the server is able to take it for. Afterwards the
 * connection can take another message unless it is lost. Never throws for anything the server does.
 */
export async function transact(connection: Connection, request: TransactionRequest): Promise<TransactionEnd> {
  const { envelope, content, deadlines } = request;
  const refusals = refuseLocally(connection, envelope, content);
  const recipients = envelope.recipients.filter((recipient) => !refusals.has(recipient));
  if (recipients.length === 0) {
    return {
      results: [...refusals.values()],
      elsewhere: [],
      alone: [],
      again: false,
      crowdedOut: [],
      room: null,
      alive: true,
      limited: false,
      begun: false,
      givenUp: false,
    };
  }
  connection.limit(deadlines.transaction + sendingTime(request));
  const end = await new Transaction(connection, { ...request, envelope: { ...envelope, recipients } }).run();
  return { ...end, results: [...end.results, ...refusals.values()] };
}

/** The dialog of one message: what is said in which order, and when the connection is left. */
class Transaction {
  readonly #connection: Connection;
  readonly #request: TransactionRequest;
  readonly #results: RecipientResults;
  #alive = false;
  #begun = false;
  #givenUp = false;

  constructor(connection: Connection, request: TransactionRequest) {
    this.#connection = connection;
    this.#request = request;
    this.#results = new RecipientResults(connection, request.envelope.recipients);
  }

  async run(): Promise<TransactionEnd> {
    await this.#steps();
    return { ...this.#results.all(), alive: this.#alive, begun: this.#begun, givenUp: this.#givenUp };
  }

  async #steps(): Promise<void> {
    const { deadlines, envelope } = this.#request;
    const pipelining = this.#connection.capabilities.pipelining;
    const reset = this.#connection.needsReset ? ['RSET'] : [];
    const recipients = envelope.recipients.map((recipient) => `RCPT TO:<${recipient}>`);
    const mail = this.#mailCommand();
    this.#connection.transactions += 1;
    this.#connection.needsReset = true;
    if (pipelining) this.#connection.send(...reset, mail, ...recipients, 'DATA');
    const ask = (command: string, ms: number) => {
      if (!pipelining) this.#connection.send(command);
      return this.#connection.read(ms);
    };

    if (reset.length > 0) {
      const answer = await ask('RSET', deadlines.mail);
      if (isLost(answer)) return this.#results.lose('mail', answer);
      // A connection that cannot be reset is useless, but that says nothing about this message.
      if (!isSuccess(answer.reply)) return this.#leave('mail', answer.reply);
    }
    const mailReply = await ask(mail, deadlines.mail);
    this.#alive = !isLost(mailReply) && mailReply.reply.code !== 421;
    if (isLost(mailReply) || !isSuccess(mailReply.reply)) {
      this.#failAll('mail', mailReply);
      if (pipelining) await this.#skip(recipients.length);
      return;
    }
    for (const [at, recipient] of envelope.recipients.entries()) {
      const answer = await ask(recipients[at] ?? '', deadlines.rcpt);
      if (!isLost(answer) && isSuccess(answer.reply)) continue;
      if (isLost(answer) || isNoVerdict(answer.reply)) return this.#endAt(recipient, answer);
      this.#results.refuseOne(recipient, answer.reply);
    }
    if (this.#results.open.length === 0) {
      if (pipelining) await this.#withdraw();
      return;
    }
    const go = await ask('DATA', deadlines.data);
    if (!isLost(go) && go.reply.code === 354) await this.#content();
    else if (isLost(go) || isNoVerdict(go.reply)) this.#endAt(null, go);
    else this.#failAll('data', go);
  }

  #mailCommand(): string {
    const { envelope, content } = this.#request;
    const { size, eightBitMime } = this.#connection.capabilities;
    const parameters = [
      ...(size === null ? [] : [`SIZE=${content.size}`]),
      ...(content.eightBit && eightBitMime ? ['BODY=8BITMIME'] : []),
      ...(envelope.smtpUtf8 || envelope.recipients.some(needsUtf8) ? ['SMTPUTF8'] : []),
    ];
    return [`MAIL FROM:<${envelope.from}>`, ...parameters].join(' ');
  }

  /** The answer is no success, and decides for all open recipients. */
  #failAll(phase: Phase, answer: ParsedReply | Lost): void {
    this.#results.failAll(phase, answer);
    if (!isLost(answer) && isNoVerdict(answer.reply)) this.#connection.destroy();
  }

  /** The connection ends with this recipient, or with DATA. */
  #endAt(recipient: string | null, answer: ParsedReply | Lost): void {
    this.#results.endAt(recipient, answer);
    this.#connection.destroy();
  }

  /** Defers all open recipients and closes the connection. */
  #leave(phase: Phase, reply: Reply): void {
    this.#results.leave(phase, reply);
    this.#connection.destroy();
  }

  /** Reads the replies to what was pipelined after a refused MAIL. */
  async #skip(recipients: number): Promise<void> {
    for (let left = recipients; left > 0; left--) {
      if (isLost(await this.#connection.read(this.#request.deadlines.rcpt))) return;
    }
    const go = await this.#connection.read(this.#request.deadlines.data);
    // The server would take a message without a sender, and might deliver an empty one.
    if (!isLost(go) && !isRefusal(go.reply)) this.#connection.destroy();
  }

  /** All recipients were refused, but DATA is under way: if it is accepted, a lone dot ends it (RFC 2920 section 3.1). */
  async #withdraw(): Promise<void> {
    const go = await this.#connection.read(this.#request.deadlines.data);
    if (isLost(go) || isRefusal(go.reply)) return;
    if (go.reply.code !== 354) return this.#endAt(null, go);
    this.#connection.finish(finalDot);
    await this.#connection.read(this.#request.deadlines.mail);
  }

  async #content(): Promise<void> {
    const { content, deadlines, beforeDot, afterDot } = this.#request;
    const [most, tail] = split(content.wire);
    this.#begun = true;
    this.#connection.conversation?.note(`message of ${content.size} bytes`);
    if (most.length > 0) {
      const broken = await this.#connection.write(most, deadlines.content + sendingTime(this.#request));
      if (broken !== null && !this.#connection.pending) return this.#results.lose('data', broken);
    }
    const concerned = this.#results.open;
    // Not asked if the server has spoken or is gone: whoever is asked notes that the dot is about to be written.
    if (this.#isInterrupted) return this.#interrupted();
    const allowed = await beforeDot(concerned);
    // A reply now is a refusal in the middle of the message; taken for the reply to the dot, it could pass for success.
    if (this.#isInterrupted) await this.#interrupted();
    else if (allowed) await this.#finish(tail);
    else this.#giveUp();
    afterDot(this.#results.of(concerned));
  }

  /** True if the server has spoken in the middle of the message, or is gone. */
  get #isInterrupted(): boolean {
    return this.#connection.pending || this.#connection.lost !== null;
  }

  async #finish(tail: Buffer[]): Promise<void> {
    const { deadlines } = this.#request;
    this.#connection.conversation?.said(['.']);
    // Restart the limit, however long it took so far: giving up on the reply to the dot may cause a duplicate.
    this.#connection.limit(deadlines.dot);
    this.#connection.finish(...tail, finalDot);
    const end = await this.#connection.read(deadlines.dot);
    if (isLost(end)) this.#results.lose('dot', end, true);
    else if (isSuccess(end.reply)) this.#accept(end.reply);
    else this.#failAll('dot', end);
  }

  async #interrupted(): Promise<void> {
    const { lost, pending } = this.#connection;
    if (lost !== null && !pending) return this.#results.lose('data', lost);
    const answer = await this.#connection.read(this.#request.deadlines.data);
    if (isLost(answer)) this.#results.lose('data', answer);
    else if (answer.reply.code === 421) this.#results.leave('data', answer.reply);
    else if (isRefusal(answer.reply)) this.#results.refuseAll('data', answer.reply);
    else this.#results.lose('data', { lost: 'protocol', reason: 'replied before the message ended' });
    this.#connection.destroy(`${this.#connection.target.host} interrupted a message`);
  }

  #accept(reply: Reply): void {
    this.#results.accept(reply);
    this.#connection.needsReset = false;
    this.#connection.tookMail = true;
  }

  #giveUp(): void {
    this.#givenUp = true;
    this.#results.giveUp();
    this.#connection.destroy();
  }
}

/** Splits off the tail that is sent together with the final dot. */
function split(wire: Buffer[]): [most: Buffer[], tail: Buffer[]] {
  const most: Buffer[] = [];
  const tail: Buffer[] = [];
  let left = wire.reduce((sum, { length }) => sum + length, 0) - tailBytes;
  for (const piece of wire) {
    if (left > 0) most.push(piece.subarray(0, left));
    if (left < piece.length) tail.push(piece.subarray(Math.max(0, left)));
    left -= piece.length;
  }
  return [most, tail];
}

/** How long the slowest tolerated link needs to carry the message, in milliseconds. */
const sendingTime = ({ content, deadlines }: TransactionRequest) =>
  (content.size / deadlines.minBytesPerSecond) * 1_000;
