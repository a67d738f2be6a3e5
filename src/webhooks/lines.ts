import type { Claim } from '../core/webhook-calls.ts';

type Endpoint = Pick<Claim, 'accountId' | 'webhookId'>;

/**
 * Calls that wait for room, in a line for each endpoint. Accounts come in turn, with a call to one of their endpoints each, so that
 * one with twenty endpoints is called no more often than one with a single one where there is no room for all.
 */
export class Lines {
  /** By account and endpoint, the next to come first. None is empty. */
  readonly #ofAccounts = new Map<string, Map<string, Claim[]>>();

  get endpoints(): string[] {
    return [...this.#ofAccounts.values()].flatMap((lines) => [...lines.keys()]);
  }

  has({ accountId, webhookId }: Endpoint): boolean {
    return this.#ofAccounts.get(accountId)?.has(webhookId) ?? false;
  }

  add(claim: Claim): void {
    const { accountId, webhookId } = claim;
    const lines = this.#ofAccounts.get(accountId) ?? new Map<string, Claim[]>();
    const line = lines.get(webhookId) ?? [];
    line.push(claim);
    lines.set(webhookId, line);
    this.#ofAccounts.set(accountId, lines);
  }

  /** Takes those out that may begin, one after the other, for as long as more are asked for. */
  *inTurn(mayBegin: (claim: Claim) => boolean): Generator<Claim> {
    // What is set anew comes once more, behind the others.
    for (const [accountId, lines] of this.#ofAccounts) {
      const line = [...lines.values()].find(([next]) => next !== undefined && mayBegin(next));
      const claim = line?.shift();
      if (!line || !claim) continue;
      this.#ofAccounts.delete(accountId);
      lines.delete(claim.webhookId);
      if (line.length > 0) lines.set(claim.webhookId, line);
      if (lines.size > 0) this.#ofAccounts.set(accountId, lines);
      yield claim;
    }
  }

  /** Takes out all that wait for this endpoint. */
  cut({ accountId, webhookId }: Endpoint): Claim[] {
    const lines = this.#ofAccounts.get(accountId);
    const line = lines?.get(webhookId) ?? [];
    lines?.delete(webhookId);
    if (lines?.size === 0) this.#ofAccounts.delete(accountId);
    return line;
  }

  /** Takes out all. */
  empty(): Claim[] {
    const all = [...this.#ofAccounts.values()].flatMap((lines) => [...lines.values()].flat());
    this.#ofAccounts.clear();
    return all;
  }
}
