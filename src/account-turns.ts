import { unavailable } from './errors.ts';

interface Account {
  running: number;
  waiting: (() => void)[];
}

/** How much is done at once. */
export interface TurnLimits {
  /** Of all accounts. */
  most: number;
  mostOfAccount: number;
  /** Of an account, beyond those that run. */
  mostWaiting: number;
  /** For a turn, in ms. */
  patienceMs: number;
}

/**
 * Lets an account have the database do so much for it at once on this node, and accounts that wait in turn: a search through a
 * long list may take seconds, and whoever asks for it two hundred times would have all connections. A turn is one connection:
 * what is done in it asks the database one after the other.
 */
export class AccountTurns {
  readonly #limits: TurnLimits;
  #running = 0;
  /** Only those of which something runs or waits; whoever was let in last comes last. */
  readonly #accounts = new Map<string, Account>();

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** @throws ApiError 503 when too much of this account waits, or none of it had a turn in time */
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

  /** Until it is this one's turn, which `#end` of another has begun for it. */
  async #wait(accountId: string, account: Account): Promise<void> {
    const { waiting } = account;
    if (waiting.length >= this.#limits.mostWaiting) throw unavailable();
    await new Promise<void>((resolve, reject) => {
      const turn = () => {
        clearTimeout(patience);
        resolve();
      };
      const patience = setTimeout(() => {
        waiting.splice(waiting.indexOf(turn), 1);
        this.#forget(accountId, account);
        reject(unavailable());
      }, this.#limits.patienceMs);
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
