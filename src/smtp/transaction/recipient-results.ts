import { lostAt } from '../connections/connect.ts';
import { type Connection, isLost, type Lost } from '../connections/connection.ts';
import { isRefusal, isTemporary, type ParsedReply, type Reply } from '../replies/reply.ts';
import { answered, failed, localFailure, type Phase, type RecipientResult } from '../replies/result.ts';
import { classify, saysEnough, saysTooManyRecipients, slowDown } from '../rules/classify.ts';

/** What a transaction came to for its recipients. */
export interface RecipientsEnd {
  /** One for each recipient. */
  results: RecipientResult[];
  /**
   * Recipients that the server decided nothing about before the dot: another host may take them now. A 421 or a lost
   * connection cut their turn short, or MAIL or DATA was deferred.
   */
  elsewhere: string[];
  /** Those of them that are best sent alone, the last ones: the connection ended before each was accepted. */
  alone: string[];
  /** True if the connection ended because of one recipient: over another one, this host may take the message for the others. */
  again: boolean;
  /**
   * Recipients refused as too many for this message, which others got: send the next message to them. If the others were
   * refused it because of them, they come first.
   */
  crowdedOut: string[];
  /** How many recipients the server takes for a message, if it refused this one because there were more. */
  room: number | null;
  /**
   * True if the server may only have had enough of this connection: it deferred MAIL or DATA, took no further recipient,
   * or says so.
   */
  limited: boolean;
}

/** What the replies of one transaction mean for its recipients. Each is open until something is decided about it. */
export class RecipientResults {
  readonly #connection: Connection;
  readonly #recipients: string[];
  readonly #results = new Map<string, RecipientResult>();
  readonly #elsewhere = new Set<string>();
  readonly #crowdedOut: string[] = [];
  #alone: string[] = [];
  #accepted = false;
  #room: number | null = null;
  #limited = false;
  #again = false;

  constructor(connection: Connection, recipients: string[]) {
    this.#connection = connection;
    this.#recipients = recipients;
  }

  /** The recipients that are still undecided. */
  get open(): string[] {
    return this.#recipients.filter((recipient) => !this.#results.has(recipient));
  }

  /** The results of these recipients, without those that are still open. */
  of(recipients: string[]): RecipientResult[] {
    return recipients.flatMap((recipient) => this.#results.get(recipient) ?? []);
  }

  /** To be called when nobody is open any more. */
  all(): RecipientsEnd {
    if (this.open.length > 0) throw new Error('a transaction ended without a result for one of its recipients');
    return {
      results: this.of(this.#recipients),
      elsewhere: [...this.#elsewhere],
      alone: this.#alone,
      again: this.#again,
      crowdedOut: this.#accepted || this.#room !== null ? this.#crowdedOut : [],
      room: this.#room,
      limited: this.#limited,
    };
  }

  /** The message was accepted for all open recipients. */
  accept(reply: Reply): void {
    this.#accepted = true;
    const reason = answered(this.#connection.target.host, reply, 'dot');
    const { enhanced } = reply;
    for (const recipient of this.open) {
      const result = { recipient, outcome: 'delivered', phase: 'dot', reply, reason, enhanced, class: null } as const;
      this.#results.set(recipient, { ...result, uncertain: false });
    }
  }

  /** Fails all open recipients with an answer that is no success. */
  failAll(phase: Phase, answer: ParsedReply | Lost): void {
    if (isLost(answer)) {
      this.lose(phase, answer);
      return;
    }
    const { reply } = answer;
    if (this.#isBecauseOfOthers(phase, reply)) {
      this.#crowdOutAll(reply);
      return;
    }
    const isDeferral = reply.code === 421 ? phase !== 'dot' : isForNobody(phase) && isTemporary(reply);
    this.#limited ||= isDeferral || this.#mayMeanConnection(phase, reply);
    if (isNoVerdict(reply)) {
      this.leave(phase, reply);
      return;
    }
    if (isAboutThisHost(phase, reply)) for (const recipient of this.open) this.#elsewhere.add(recipient);
    this.refuseAll(phase, reply);
  }

  /** True if DATA is refused because there were more recipients than the server took. */
  #isBecauseOfOthers(phase: Phase, reply: Reply): boolean {
    return (
      phase === 'data' && this.#crowdedOut.length > 0 && !isNoVerdict(reply) && saysTooManyRecipients(phase, reply)
    );
  }

  /** The next message is for those that had room in this one. */
  #crowdOutAll(reply: Reply): void {
    const { open } = this;
    this.#room = open.length;
    this.#crowdedOut.unshift(...open);
    for (const recipient of open)
      this.#results.set(recipient, { ...this.#refused(recipient, 'data', reply), outcome: 'deferred', class: 'rate' });
  }

  /**
   * Fails all open recipients because the connection ended with one of them or with DATA. If it ended because of a recipient,
   * the server may take the message for the others: for those that it had accepted, and for each of the rest alone. If the
   * replies are out of step, what seemed to refuse a recipient may have been about another one, and counts for nobody.
   *
   * @param at the recipient; null: DATA
   */
  endAt(at: string | null, answer: ParsedReply | Lost): void {
    const { open } = this;
    const phase = at === null ? 'data' : 'rcpt';
    const accepted = at === null ? open : open.slice(0, open.indexOf(at));
    if (!isLost(answer) && isOutOfStep(answer.reply)) {
      this.#reopenRefused();
      this.leave(phase, answer.reply);
      return;
    }
    this.failAll(phase, answer);
    const isOfOne = (at !== null && open.length > 1) || this.#someDeferred(open);
    if (!isOfOne || wantsLess(phase, answer, accepted.length > 0)) return;
    this.#again = isLost(answer) ? answer.lost === 'closed' : answer.reply.code === 421;
    if (at === null) return;
    this.#alone = [...open.slice(accepted.length + 1), at];
    this.#elsewhere.clear();
    for (const recipient of [...accepted, ...this.#alone]) this.#elsewhere.add(recipient);
  }

  #reopenRefused(): void {
    for (const [recipient, { outcome }] of this.#results) if (outcome === 'bounced') this.#results.delete(recipient);
  }

  /** True if the server had deferred any but these recipients. */
  #someDeferred(others: string[]): boolean {
    return this.#recipients.some(
      (recipient) => !others.includes(recipient) && this.#results.get(recipient)?.outcome === 'deferred',
    );
  }

  /** The connection was lost. @param uncertain the final dot was written, and the message may have been accepted */
  lose(phase: Phase, lost: Lost, uncertain = false): void {
    const failure = lostAt(this.#connection, phase, lost);
    const reason = uncertain ? `${failure.reason} It may have accepted the message.` : failure.reason;
    for (const recipient of this.open) {
      this.#results.set(recipient, failed(recipient, { ...failure, reason }, uncertain));
      if (!uncertain) this.#elsewhere.add(recipient);
    }
  }

  /** After 421 or an unexpected code, for which the connection is left: defers all open recipients. */
  leave(phase: Phase, reply: Reply): void {
    const kind = reply.code === 421 ? classify(phase, reply) : 'protocol';
    for (const recipient of this.open) {
      this.#results.set(recipient, { ...this.#refused(recipient, phase, reply), outcome: 'deferred', class: kind });
      if (phase !== 'dot') this.#elsewhere.add(recipient);
    }
  }

  /** This server must not write the final dot. */
  giveUp(): void {
    const reason =
      'This server stopped before the end of the message: it had lost its claim, could not record the attempt, or was shutting down.';
    for (const recipient of this.open) this.#results.set(recipient, failed(recipient, localFailure(reason, 'other')));
  }

  /** Applies one reply to every open recipient. */
  refuseAll(phase: Phase, reply: Reply): void {
    const { open } = this;
    for (const recipient of open) this.#results.set(recipient, this.#refused(recipient, phase, reply, open.length));
  }

  /** Applies a reply to RCPT. */
  refuseOne(recipient: string, reply: Reply): void {
    const saysTooMany = saysTooManyRecipients('rcpt', reply);
    const othersAccepted = this.open[0] !== recipient;
    const isFull = saysTooMany && ((!othersAccepted && isTemporary(reply)) || /connection|session/i.test(reply.text));
    // Postfix's postscreen takes no mail over the connection with which it tests a client.
    const isHostClosed = reply.enhanced === '4.3.2';
    this.#limited ||= isFull || isHostClosed || this.#mayMeanConnection('rcpt', reply);
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

/** True if the server does not want this much mail now: the same again over another connection is no help. */
function wantsLess(phase: Phase, answer: ParsedReply | Lost, someAccepted: boolean): boolean {
  if (isLost(answer)) return false;
  const { reply } = answer;
  if (someAccepted && saysTooManyRecipients(phase, reply)) return false;
  return classify(phase, reply) === 'rate' || slowDown(phase, reply) !== null;
}

/** True for 421 and for codes that make no sense here: the connection is left. */
export const isNoVerdict = (reply: Reply) => reply.code === 421 || isOutOfStep(reply);

/** True if the reply, which is no success here, refuses nothing: the server has said more, or less, than it was asked. */
const isOutOfStep = (reply: Reply) => !isRefusal(reply);

/** True if the reply says nothing about any one recipient. */
const isForNobody = (phase: Phase) => phase === 'mail' || phase === 'data';
