import { unavailable } from '../errors.ts';

interface Account {
  running: number;
  waiting: (() => void)[];
}

/** How much runs at once, and how much waits. */
export interface TurnLimits {
  /** Of all accounts together. */
  most: number;
  mostOfAccount: number;
  /** Of one account, beyond those that run. */
  mostWaiting: number;
  /** How long to wait for a turn, in ms. */
  patienceMs: number;
}

/**
 * Limits how much an account has the database do at once on this node, and lets waiting accounts take turns: a search through
 * a long list may take seconds, and two hundred requests for it would take all connections. A turn is one connection: the
 * work in it runs its statements one after the other.
 */
export class AccountTurns {
  readonly #limits: TurnLimits;
  #running = 0;
  /** Only accounts with something running or waiting; the one that was let in last comes last. */
  readonly #accounts = new Map<string, Account>();

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** @throws ApiError 503 if too much of this account waits, or its turn did not come in time */
  async take<T>(accountId: string, work: () => Promise<T>): Promise<T> {
    const account = this.#accounts.get(accountId) ?? { running: 0, waiting: [] };
    this.#accounts.set(accountId, account);
    if (this.#mayRun(account)) this.#begin(account);
    else await this.#wait(accountId, account);
    try {
      return await work();
    } finally {
      this.#end(accountId, account);
    }
  }

  #mayRun({ running }: Account): boolean {
    return running < this.#limits.mostOfAccount && this.#running < this.#limits.most;
  }

  #begin(account: Account): void {
    account.running += 1;
    this.#running += 1;
  }

  /** Waits for the turn of this call, which `#end` of another has begun for it. */
  async #wait(accountId: string, account: Account): Promise<void> {
    const { waiting } = account;
    const { mostWaiting, patienceMs } = this.#limits;
    if (waiting.length >= mostWaiting) throw unavailable(`${mostWaiting} such calls of one account wait already`);
    await new Promise<void>((resolve, reject) => {
      const turn = () => {
        clearTimeout(patience);
        resolve();
      };
      const patience = setTimeout(() => {
        waiting.splice(waiting.indexOf(turn), 1);
        this.#forget(accountId, account);
        reject(unavailable(`no turn among the calls that wait for the database within ${patienceMs / 1_000} s`));
      }, patienceMs);
      waiting.push(turn);
    });
  }

  #end(accountId: string, account: Account): void {
    account.running -= 1;
    this.#running -= 1;
    this.#forget(accountId, account);
    for (const [id, next] of this.#accounts) {
      if (!this.#mayRun(next)) continue;
      const turn = next.waiting.shift();
      if (!turn) continue;
      this.#accounts.delete(id);
      this.#accounts.set(id, next);
      this.#begin(next);
      turn();
      return;
    }
  }

  #forget(accountId: string, { running, waiting }: Account): void {
    if (running === 0 && waiting.length === 0) this.#accounts.delete(accountId);
  }
}
