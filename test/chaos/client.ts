import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer } from '../support/node.ts';
import type { SendwrightProcess } from '../support/process.ts';
import type { AskedMail, Ledger } from './ledger.ts';
import type { Member } from './member.ts';
import type { Random } from './random.ts';
import { type Submitted, submit } from './submission.ts';

/** The maximum time of a request, whatever is wrong: after that it counts as hanging. */
const patienceMs = 20_000;

/** One request: an email, or a batch of them, under an idempotency key. */
export interface Order {
  key: string;
  mails: (AskedMail & { body: Record<string, unknown> })[];
  batch: boolean;
  /** Submitted by SMTP, if the node has a port for that. */
  bySmtp?: boolean;
}

/**
 * A well-behaved client: it repeats a request with the same key until it has a final answer. Its requests, and all
 * answers, are in the ledger.
 */
export class Client {
  readonly #members: readonly Member[];
  readonly #ledger: Ledger;
  readonly #random: Random;
  /** What is broken at the moment, for interpreting response times. */
  phase: string | null = null;
  /** Orders that have not had their 200 yet. */
  waiting = 0;
  apiKey = '';
  /** The nodes' submission port, with STARTTLS. */
  submissionPort = 0;
  /**
   * Forbidden answers: neither 200 nor 503, or contradicting openapi.json; or none at all, from a node that is not
   * frozen.
   */
  readonly wrong = new Map<string, string[]>();

  constructor(members: readonly Member[], ledger: Ledger, random: Random) {
    this.#members = members;
    this.#ledger = ledger;
    this.#random = random;
  }

  /**
   * Asks once.
   *
   * @returns true if it had its 200. @throws Error if asking again would not help
   */
  async ask(order: Order, member?: Member): Promise<boolean> {
    const { key } = order;
    const target = member ?? this.#pick();
    const app = target?.app;
    if (!app) return false;
    this.#ledger.write({ is: 'asked', key, mails: order.mails.map(({ tag, to }) => ({ tag, to })) });
    const began = performance.now();
    const phase = this.phase;
    const { status, ids, said } = order.bySmtp
      ? await submit(order, this.submissionPort, this.apiKey, patienceMs)
      : await this.#post(order, target, app);
    this.#ledger.write({
      is: 'answered',
      key,
      status,
      ids,
      tookMs: Math.round(performance.now() - began),
      while: phase,
    });
    if (status >= 500 && status !== 503) this.#object(`${status}: ${said}`, key);
    if (status >= 400 && status < 500) throw new Error(`${key} was refused: ${said}`);
    return status === 200;
  }

  async #post(order: Order, target: Member, app: SendwrightProcess): Promise<Submitted> {
    const { key, batch } = order;
    const bodies = order.mails.map(({ body }) => body);
    const [path, body] = batch ? ['/api/v1/emails/batch', { emails: bodies }] : ['/api/v1/emails', bodies[0]];
    const answer = await this.#inTime(
      app.call('POST', path, { key: this.apiKey, body, headers: { 'Idempotency-Key': key } }),
      () => target.app === app && this.#object('none within 20 s', key),
      path,
    );
    const status = answer?.status ?? 0;
    return { status, ids: status === 200 ? idsOf(order, answer) : {}, said: JSON.stringify(answer?.body) };
  }

  /** Asks until it has its 200. @throws Error if it has none within the time */
  async insist(order: Order, withinMs = 120_000): Promise<void> {
    this.waiting += 1;
    try {
      for (const end = Date.now() + withinMs; Date.now() < end; await sleep(100 + 200 * this.#random.next())) {
        if (await this.ask(order)) return;
      }
    } finally {
      this.waiting -= 1;
    }
    throw new Error(`${order.key} has had no 200 within ${withinMs} ms`);
  }

  #object(what: string, where: string): void {
    this.wrong.set(what, [...(this.wrong.get(what) ?? []), where]);
  }

  #pick(): Member | undefined {
    const living = this.#members.filter(({ app }) => app !== null);
    return living.length > 0 ? this.#random.pick(living) : undefined;
  }

  async #inTime(call: Promise<Answer>, onLate: () => unknown, path: string): Promise<Answer | null> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => {
        onLate();
        resolve(null);
      }, patienceMs);
    });
    const answer = call.catch((error: NodeJS.ErrnoException) => {
      // An answer that never came is no answer; an undocumented one is a defect.
      if (!error.code) this.#object(error.message, path);
      return null;
    });
    return Promise.race([answer, late]).finally(() => clearTimeout(timer));
  }
}

function idsOf({ mails, batch }: Order, answer: Answer | null): Record<string, string> {
  const emails: { id: string; subject: string }[] = batch ? (answer?.body.emails ?? []) : [answer?.body.email];
  const ids = Object.fromEntries(emails.map(({ id, subject }) => [subject, id]));
  for (const { tag } of mails) if (!ids[tag]) throw new Error(`a 200 does not name ${tag}`);
  return ids;
}
