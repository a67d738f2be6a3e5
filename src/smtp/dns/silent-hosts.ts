import { BoundedMap } from '../../bounded-map.ts';
import type { MxHost } from './mx.ts';

/** How long a host that said nothing comes after the others, in milliseconds. */
const passedOverMs = 60_000;
const mostHosts = 10_000;

/**
 * Hosts that were waited for in vain. While they come last, not every message to their domain waits as long for them; once a
 * minute one has them in their turn.
 */
export class SilentHosts {
  readonly #until = new BoundedMap<string, number>(mostHosts);
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  note(host: string): void {
    this.#until.set(host, this.#now() + passedOverMs);
  }

  answered(host: string): void {
    this.#until.delete(host);
  }

  /** Splits the hosts of a domain into those to try now, and those to try after them; both keep their order. */
  split(hosts: MxHost[]): { first: MxHost[]; last: MxHost[] } {
    const last = hosts.filter(({ name }) => this.#isPassedOver(name));
    return { first: hosts.filter((host) => !last.includes(host)), last };
  }

  #isPassedOver(host: string): boolean {
    const until = this.#until.get(host);
    if (until === undefined) return false;
    if (until > this.#now()) return true;
    // The others go on without it until this attempt has met it.
    this.note(host);
    return false;
  }
}
