import { classify, saysEnough, saysTooManyRecipients, slowDown } from './classify.ts';
import { lostAt } from './connect.ts';
import { type Connection, isLost, type Lost } from './connection.ts';
import { type Content, finalDot } from './content.ts';
import type { Deadlines } from './deadlines.ts';
import { type Envelope, needsUtf8 } from './envelope.ts';
import { refuseLocally } from './local-refusal.ts';
import type { ParsedReply, Reply } from './reply.ts';
import { answered, type Failure, failed, type Phase, type RecipientResult } from './result.ts';

export interface TransactionRequest {
  envelope: Envelope;
  content: Content;
  /** Asked for these recipients just before the end of the message is written; false gives the message up. */
  beforeDot: (recipients: string[]) => boolean | Promise<boolean>;
  /** Told the recipients' results as soon as they are known. */
  afterDot: (results: RecipientResult[]) => void;
  deadlines: Deadlines;
}

export interface TransactionEnd {
  /** One for each recipient. */
  results: RecipientResult[];
  /**
   * Recipients that the server decided nothing about before the dot: another host may take them now. A 421 or a lost
   * connection cut their turn short, or MAIL or DATA was deferred.
   */
  elsewhere: string[];
  /** Recipients refused as too many for this message, which others got: send the next message to them. */
  crowdedOut: string[];
  /** False if the connection ended, or said 421, before it answered anything: it was dead when the transaction began. */
  alive: boolean;
  /**
   * True if the server may only have had enough of this connection: it deferred MAIL or DATA, took no further recipient,
   * or says so.
   */
  limited: boolean;
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
  const { envelope, deadlines } = request;
  const refusals = refuseLocally(connection, request.envelope, request.content);
  const recipients = envelope.recipients.filter((recipient) => !refusals.has(recipient));
  if (recipients.length === 0) {
    return {
      results: [...refusals.values()],
      elsewhere: [],
      crowdedOut: [],
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

class Transaction {
  readonly #connection: Connection;
  readonly #request: TransactionRequest;
  readonly #results = new Map<string, RecipientResult>();
  readonly #elsewhere = new Set<string>();
  readonly #crowdedOut: string[] = [];
  #accepted = false;
  #alive = false;
  #limited = false;
  #begun = false;
  #givenUp = false;

  constructor(connection: Connection, request: TransactionRequest) {
    this.#connection = connection;
    this.#request = request;
  }

  async run(): Promise<TransactionEnd> {
    const { recipients } = this.#request.envelope;
    await this.#steps();
    const results = recipients.map((recipient) => {
      const result = this.#results.get(recipient);
      if (result === undefined) throw new Error('a transaction ended without a result for one of its recipients');
      return result;
    });
    const elsewhere = [...this.#elsewhere];
    return {
      ...{ results, elsewhere, crowdedOut: this.#accepted ? this.#crowdedOut : [] },
      ...{ alive: this.#alive, limited: this.#limited, begun: this.#begun, givenUp: this.#givenUp },
    };
  }

  /** The recipients that are still undecided. */
  get #open(): string[] {
    return this.#request.envelope.recipients.filter((recipient) => !this.#results.has(recipient));
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
      if (isLost(answer)) return this.#lose('mail', answer);
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
      if (isLost(answer) || isNoVerdict(answer.reply)) return this.#failAll('rcpt', answer);
      this.#refuseOne(recipient, answer.reply);
    }
    if (this.#open.length === 0) {
      if (pipelining) await this.#withdraw();
      return;
    }
    const go = await ask('DATA', deadlines.data);
    if (!isLost(go) && go.reply.code === 354) await this.#content();
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
    if (isLost(answer)) {
      this.#lose(phase, answer);
      return;
    }
    const { reply } = answer;
    const isDeferral = reply.code === 421 ? phase !== 'dot' : isForNobody(phase) && isTemporary(reply);
    this.#limited ||= isDeferral || this.#mayMeanConnection(phase, reply);
    if (isNoVerdict(reply)) {
      this.#leave(phase, reply);
      return;
    }
    if (isAboutThisHost(phase, reply)) for (const recipient of this.#open) this.#elsewhere.add(recipient);
    this.#refuseAll(phase, reply);
  }

  #refuseOne(recipient: string, reply: Reply): void {
    const saysTooMany = saysTooManyRecipients('rcpt', reply);
    const othersAccepted = this.#open[0] !== recipient;
    const isFull = saysTooMany && ((!othersAccepted && isTemporary(reply)) || /connection|session/i.test(reply.text));
    this.#limited ||= isFull || this.#mayMeanConnection('rcpt', reply);
    const result = this.#refused(recipient, 'rcpt', reply);
    // RFC 5321 section 4.5.3.1.10: a 552 after accepted recipients means "too many recipients" and is temporary. So is any
    // reply that plainly says so, whatever its code: that others were accepted before does not speak against this recipient.
    const isOneTooMany = othersAccepted && (saysTooMany || (reply.code === 552 && reply.enhanced === null));
    if (isOneTooMany) this.#crowdedOut.push(recipient);
    this.#results.set(recipient, isOneTooMany ? { ...result, outcome: 'deferred', class: 'rate' } : result);
  }

  /** True for a 5xx that is no verdict on the message: the connection has carried others, and may be all that is refused. */
  #mayMeanConnection(phase: Phase, reply: Reply): boolean {
    return reply.code >= 500 && this.#connection.transactions > 1 && saysEnough(phase, reply);
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
    if (go.reply.code !== 354) return this.#connection.destroy();
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
      if (broken !== null && !this.#connection.pending) return this.#lose('data', broken);
    }
    const concerned = this.#open;
    const allowed = await beforeDot(concerned);
    // A reply now is a refusal in the middle of the message; taken for the reply to the dot, it could pass for success.
    if (this.#connection.pending) return this.#interrupted(await this.#connection.read(deadlines.data));
    if (this.#connection.lost !== null) return this.#lose('data', this.#connection.lost);
    if (!allowed) return this.#giveUp();
    this.#connection.conversation?.said(['.']);
    // Restart the limit, however long it took so far: giving up on the reply to the dot may cause a duplicate.
    this.#connection.limit(deadlines.dot);
    this.#connection.finish(...tail, finalDot);
    const end = await this.#connection.read(deadlines.dot);
    if (isLost(end)) this.#lose('dot', end, true);
    else if (isSuccess(end.reply)) this.#accept(end.reply);
    else this.#failAll('dot', end);
    afterDot(concerned.flatMap((recipient) => this.#results.get(recipient) ?? []));
  }

  #interrupted(answer: ParsedReply | Lost): void {
    const { host } = this.#connection.target;
    if (!isLost(answer) && answer.reply.code === 421) {
      this.#leave('data', answer.reply);
    } else if (!isLost(answer) && isRefusal(answer.reply)) {
      this.#refuseAll('data', answer.reply);
    } else {
      const lost = isLost(answer)
        ? answer
        : ({ lost: 'protocol', reason: 'replied before the message ended' } as const);
      this.#lose('data', lost);
    }
    this.#connection.destroy(`${host} interrupted a message`);
  }

  #accept(reply: Reply): void {
    this.#accepted = true;
    this.#connection.needsReset = false;
    this.#connection.tookMail = true;
    const reason = answered(this.#connection.target.host, reply, 'dot');
    const { enhanced } = reply;
    for (const recipient of this.#open) {
      const result = { recipient, outcome: 'delivered', phase: 'dot', reply, reason, enhanced, class: null } as const;
      this.#results.set(recipient, { ...result, uncertain: false });
    }
  }

  #giveUp(): void {
    this.#givenUp = true;
    const reason =
      'This server stopped before the end of the message: it had lost its claim, could not record the attempt, or was shutting down.';
    const failure: Failure = { phase: 'local', reply: null, reason, enhanced: null, class: 'other', permanent: false };
    for (const recipient of this.#open) this.#results.set(recipient, failed(recipient, failure));
    this.#connection.destroy();
  }

  #lose(phase: Phase, lost: Lost, uncertain = false): void {
    const failure = lostAt(this.#connection, phase, lost);
    const reason = uncertain ? `${failure.reason} It may have accepted the message.` : failure.reason;
    for (const recipient of this.#open) {
      this.#results.set(recipient, failed(recipient, { ...failure, reason }, uncertain));
      if (!uncertain) this.#elsewhere.add(recipient);
    }
  }

  /** 421 or an unexpected code: defers all open recipients and closes the connection. */
  #leave(phase: Phase, reply: Reply): void {
    const kind = reply.code === 421 ? classify(phase, reply) : 'protocol';
    for (const recipient of this.#open) {
      this.#results.set(recipient, { ...this.#refused(recipient, phase, reply), outcome: 'deferred', class: kind });
      if (phase !== 'dot') this.#elsewhere.add(recipient);
    }
    this.#connection.destroy();
  }

  /** Applies one reply to every open recipient. */
  #refuseAll(phase: Phase, reply: Reply): void {
    const open = this.#open;
    for (const recipient of open) this.#results.set(recipient, this.#refused(recipient, phase, reply, open.length));
  }

  /** @param recipients how many recipients the reply is for */
  #refused(recipient: string, phase: Phase, reply: Reply, recipients = 1): RecipientResult {
    const reason = answered(this.#connection.target.host, reply, phase);
    const kind = classify(phase, reply, recipients);
    const permanent = reply.code >= 500 && !this.#mayMeanConnection(phase, reply);
    return failed(recipient, { phase, reply, reason, enhanced: reply.enhanced, class: kind, permanent });
  }
}

/**
 * True for a temporary refusal of MAIL or DATA. A reply that asks for less mail does not count: it holds for every host of
 * the same operator, so the mail is not taken to another one.
 */
function isAboutThisHost(phase: Phase, reply: Reply): boolean {
  return (
    isForNobody(phase) && isTemporary(reply) && classify(phase, reply) !== 'rate' && slowDown(phase, reply) === null
  );
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

const isSuccess = (reply: Reply) => reply.code >= 200 && reply.code < 300;
const isRefusal = (reply: Reply) => reply.code >= 400;
/** True for 421 and for codes that make no sense here: the connection is left. */
const isNoVerdict = (reply: Reply) => reply.code === 421 || !isRefusal(reply);
const isTemporary = (reply: Reply) => isRefusal(reply) && reply.code < 500;
/** True if the reply says nothing about any one recipient. */
const isForNobody = (phase: Phase) => phase === 'mail' || phase === 'data';
