import type { Claim } from '../core/webhooks/webhook-calls.ts';

type Endpoint = Pick<Claim, 'accountId' | 'webhookId'>;

/**
 * Calls that wait for room, in a line for each endpoint. Accounts take turns, with one call to one of their endpoints each: if
 * there is no room for all, an account with twenty endpoints gets no more calls than an account with one.
 */
export class Lines {
  /** By account and endpoint, the next to come first. No map or line is empty. */
  readonly #ofAccounts = new Map<string, Map<string, Claim[]>>();

  get endpoints(): string[] {
    return [...this.#ofAccounts.values()].flatMap((lines) => [...lines.keys()]);
  }

  has({ accountId, webhookId }: Endpoint): boolean {
    return this.#ofAccounts.get(accountId)?.has(webhookId) ?? false;
  }

  add(claim: Claim): void {
    this.#lineOf(claim).push(claim);
  }

  /** Puts it before all others to its endpoint. */
  addFirst(claim: Claim): void {
    this.#lineOf(claim).unshift(claim);
  }

  /** The line that a claim is added to. */
  #lineOf({ accountId, webhookId }: Endpoint): Claim[] {
    const lines = this.#ofAccounts.get(accountId) ?? new Map<string, Claim[]>();
    const line = lines.get(webhookId) ?? [];
    lines.set(webhookId, line);
    this.#ofAccounts.set(accountId, lines);
    return line;
  }

  /** Takes out the calls that may begin, one at a time, for as long as the caller asks for more. */
  *inTurn(mayBegin: (claim: Claim) => boolean): Generator<Claim> {
    // An account that is set again comes once more in this loop, behind the others.
    for (const [accountId, lines] of this.#ofAccounts) {
      const line = firstWhoseNext(lines.values(), mayBegin);
      const claim = line?.shift();
      if (!line || !claim) continue;
      this.#ofAccounts.delete(accountId);
      lines.delete(claim.webhookId);
      if (line.length > 0) lines.set(claim.webhookId, line);
      if (lines.size > 0) this.#ofAccounts.set(accountId, lines);
      yield claim;
    }
  }

  /** Takes out all calls that wait for this endpoint. */
  cut({ accountId, webhookId }: Endpoint): Claim[] {
    const lines = this.#ofAccounts.get(accountId);
    const line = lines?.get(webhookId) ?? [];
    lines?.delete(webhookId);
    if (lines?.size === 0) this.#ofAccounts.delete(accountId);
    return line;
  }

  /** Takes out everything. */
  empty(): Claim[] {
    const all = [...this.#ofAccounts.values()].flatMap((lines) => [...lines.values()].flat());
    this.#ofAccounts.clear();
    return all;
  }
}

/** A loop without an array in between: it runs over all lines whenever a call ends. */
function firstWhoseNext(lines: Iterable<Claim[]>, mayBegin: (claim: Claim) => boolean): Claim[] | undefined {
  for (const line of lines) if (line[0] !== undefined && mayBegin(line[0])) return line;
  return undefined;
}
