import type { Database } from '../../db/client.ts';
import { isUnavailable } from '../../db/errors.ts';
import { AccountTurns, type TurnLimits } from '../../pace/account-turns.ts';
import { Batcher } from '../../pace/batcher.ts';
import type { Queue } from '../../queue.ts';
import type { Sender } from '../accounts/keys.ts';
import { isCounted } from '../accounts/plans.ts';
import { answerAll, type SendAnswer, type SendCall } from './emails.ts';
import type { FreshBodies } from './fresh-bodies.ts';

interface Waiting {
  sender: Sender;
  call: SendCall;
  /** When it came, in ms; never goes back. */
  since: number;
}

type Line = Batcher<Waiting, SendAnswer>;
type Commit = (waiting: Waiting[]) => Promise<SendAnswer[]>;

/** The most calls that are committed together, and the most bytes of their content. */
const mostCalls = 100;
const mostBytes = 4 * 1024 * 1024;
/** A call with more bytes waits for its account's turn, because it holds a connection for long. */
const mostBytesOfLight = 1024 * 1024;
/** If the plan counts emails, the commits of an account take turns here: in the database each would hold a connection. */
const countedLimits: TurnLimits = { most: 1_000, mostOfAccount: 1, mostWaiting: 1_000, patienceMs: 10_000 };
/** How long a call may have waited for a commit before its own that fails, so that both end within the 15 s of a 503. */
const patienceMs = 4_000;
/** Assumed for the bodies that a template will make, whose size is not known before: usually a few kilobytes. */
const bytesOfTemplate = 100 * 1024;

/**
 * Accepts the emails of many calls at once. Calls that one API key makes while a commit of it is under way are committed
 * together, so that a thousand calls do not cost a thousand writes to the disk; a call that comes alone does not wait.
 * Heavy calls have a line of their own, and wait for their account's turn there.
 */
export class Acceptance {
  readonly #db: Database;
  readonly #queue: Queue;
  readonly #turns: AccountTurns;
  readonly #fresh: FreshBodies;
  readonly #patienceMs: number;
  readonly #countedTurns = new AccountTurns(countedLimits);
  readonly #light = new Map<string, Line>();
  readonly #heavy = new Map<string, Line>();
  /** The answer to all calls of the last commit, of whatever account, if the database was away. */
  #away: SendAnswer | undefined;

  /** @param fresh keeps accepted bodies for this process, which sends them soon */
  constructor(db: Database, queue: Queue, turns: AccountTurns, fresh: FreshBodies, patience = patienceMs) {
    this.#db = db;
    this.#queue = queue;
    this.#turns = turns;
    this.#fresh = fresh;
    this.#patienceMs = patience;
  }

  /**
   * Accepts the emails of this call, which are committed when this returns.
   *
   * @throws what `respond` throws; ApiError 409 if its idempotency key was used with another request; 503 if too much of the
   *   account waits to be committed
   */
  async answer(sender: Sender, call: SendCall): Promise<{ response: unknown; replayed: boolean }> {
    const answer = await this.#answer({ sender, call, since: performance.now() });
    if ('error' in answer) throw answer.error;
    return answer;
  }

  async #answer(one: Waiting): Promise<SendAnswer> {
    // A batch is worth a commit of its own.
    if (one.call.requests.length > 1) return (await this.#commitInTurn([one]))[0] as SendAnswer;
    return isHeavy(one.call)
      ? this.#inLine(this.#heavy, one, (waiting) => this.#commitInTurn(waiting))
      : this.#inLine(this.#light, one, (waiting) =>
          isCounted(senderOf(waiting).plan) ? this.#commitInTurn(waiting, this.#countedTurns) : this.#commit(waiting),
        );
  }

  /** Commits a call together with those of its key that come while another commit of this line is under way. */
  async #inLine(lines: Map<string, Line>, one: Waiting, commit: Commit): Promise<SendAnswer> {
    // All users of an account share one line.
    const keyId = one.sender.keyId ?? one.sender.accountId;
    const line = lines.get(keyId) ?? this.#newLine(commit);
    lines.set(keyId, line);
    const answer = await line.add(one);
    // A line that was removed while it was idle may have been replaced by another one, which others use.
    if (line.idle && lines.get(keyId) === line) lines.delete(keyId);
    return answer;
  }

  #newLine(commit: Commit): Line {
    return new Batcher((waiting) => eachKeyOnce(waiting, commit), {
      most: mostCalls,
      weigh: ({ call }) => bytesOf(call),
      heaviest: mostBytes,
      instead: ({ since }) => this.#insteadOfCommit(since),
    });
  }

  /**
   * A database may answer reads and no COMMIT, as while its synchronous standby is away. Then a commit takes as long as an
   * answer is waited for, and a call that has waited for it would wait as long again for its own: it is answered with the same
   * error. One that has just come tries again.
   *
   * @param since when the call came
   */
  #insteadOfCommit(since: number): SendAnswer | undefined {
    return performance.now() - since < this.#patienceMs ? undefined : this.#away;
  }

  async #commitInTurn(waiting: Waiting[], turns = this.#turns): Promise<SendAnswer[]> {
    const since = Math.min(...waiting.map((one) => one.since));
    const commit = async () => {
      const away = this.#insteadOfCommit(since);
      return away ? waiting.map(() => away) : this.#commit(waiting);
    };
    return turns.take(senderOf(waiting).accountId, commit).catch((error: unknown) => waiting.map(() => ({ error })));
  }

  async #commit(waiting: Waiting[]): Promise<SendAnswer[]> {
    const sender = senderOf(waiting);
    const calls = waiting.map(({ call }) => call);
    try {
      const answers = await answerAll(this.#db, this.#queue, sender, calls, this.#fresh);
      this.#away = undefined;
      return answers;
    } catch (error) {
      this.#away = isUnavailable(error) ? { error } : undefined;
      if (waiting.length === 1 || this.#away) return waiting.map(() => ({ error }));
    }
    // One of them cannot be committed; the others must not fail because of it.
    const answers: SendAnswer[] = [];
    for (const one of waiting) answers.push(...(await this.#commit([one])));
    return answers;
  }
}

/** The sender of calls that are committed together: all have one key, and the last call read it and the plan most recently. */
const senderOf = (waiting: Waiting[]) => (waiting.at(-1) as Waiting).sender;

const isAwayIn = (answer: SendAnswer | undefined): boolean =>
  answer !== undefined && 'error' in answer && isUnavailable(answer.error);

/** Commits calls with the same idempotency key one after the other. */
async function eachKeyOnce(waiting: Waiting[], commit: Commit): Promise<SendAnswer[]> {
  const keys = new Set<string>();
  const first: Waiting[] = [];
  const repeated: Waiting[] = [];
  for (const one of waiting) {
    const key = one.call.idempotency?.key;
    if (key !== undefined && keys.has(key)) repeated.push(one);
    else first.push(one);
    if (key !== undefined) keys.add(key);
  }
  const answers = new Map<Waiting, SendAnswer>();
  const settled = await commit(first);
  for (const [index, answer] of settled.entries()) answers.set(first[index] as Waiting, answer);
  const away = settled.find(isAwayIn);
  // Each gets the answer that was kept for the first call with its key.
  for (const one of repeated) answers.set(one, away ?? ((await commit([one]))[0] as SendAnswer));
  return waiting.map((one) => answers.get(one) as SendAnswer);
}

/** Templates and files may make a call large: many such calls at once would take all connections. */
const isHeavy = (call: SendCall) =>
  call.requests.some((request) => 'template' in request) || bytesOf(call) > mostBytesOfLight;

function bytesOf({ requests }: SendCall): number {
  return requests.reduce((sum, request) => {
    const texts = 'template' in request ? bytesOfTemplate : (request.html?.length ?? 0) + (request.text?.length ?? 0);
    return sum + texts + request.attachments.reduce((bytes, { content }) => bytes + content.length, 0);
  }, 0);
}
