import type { MxHost } from './mx.ts';

/** What one attempt asks DNS about the hosts that it tries, each in its turn. */
export class HostLookUps<Found> {
  readonly #lookUp: (host: string) => Promise<Found>;
  readonly #isUnanswered: (found: Found, host: string) => boolean;
  readonly #ahead = new Map<string, Promise<Found>>();
  #someUnanswered = false;

  /** @param lookUp caches what it finds, except when DNS did not answer */
  constructor(lookUp: (host: string) => Promise<Found>, isUnanswered: (found: Found, host: string) => boolean) {
    this.#lookUp = lookUp;
    this.#isUnanswered = isUnanswered;
  }

  async of(host: string): Promise<Found> {
    const ahead = await this.#ahead.get(host);
    // Whatever else was found is in the cache, which knows how long it counts.
    const found = ahead !== undefined && this.#isUnanswered(ahead, host) ? ahead : await this.#lookUp(host);
    const isUnanswered = this.#isUnanswered(found, host);
    // An attempt does not wait for the same silence twice.
    if (isUnanswered) this.#ahead.set(host, Promise.resolve(found));
    else this.#ahead.delete(host);
    this.#someUnanswered ||= isUnanswered;
    return found;
  }

  /**
   * Looks up the hosts whose turn may come later beside each other, if DNS has not answered for one before: if its server is
   * dead, thirty hosts in turn would take minutes.
   */
  lookAhead(hosts: MxHost[]): void {
    if (!this.#someUnanswered) return;
    for (const { name } of hosts) {
      if (this.#ahead.has(name)) continue;
      const found = this.#lookUp(name);
      // A defect is met when it is the host's turn.
      found.catch(() => undefined);
      this.#ahead.set(name, found);
    }
  }
}
