import { isIPv6 } from 'node:net';
import { type HostAddresses, type LookUpOptions, type MxHost, resolveHost } from './mx.ts';

/** The addresses of the hosts that one attempt tries. */
export class HostLookUps {
  readonly #options: LookUpOptions;
  readonly #sendingIps: readonly string[];
  readonly #ahead = new Map<string, Promise<HostAddresses>>();
  #someUnanswered = false;

  /** @param sendingIps addresses that the message may leave from; empty: any */
  constructor(options: LookUpOptions, sendingIps: readonly string[]) {
    this.#options = options;
    this.#sendingIps = sendingIps;
  }

  async of(host: string): Promise<HostAddresses> {
    const ahead = await this.#ahead.get(host);
    this.#ahead.delete(host);
    // Whatever else was found is in the cache, which knows how long it counts.
    const found = ahead?.kind === 'temporary' ? ahead : await this.#resolve(host);
    this.#someUnanswered ||= found.kind === 'temporary';
    return found;
  }

  /**
   * Looks up the hosts whose turn may come later beside each other, if DNS has not answered for one before: if its server is
   * dead, ten hosts in turn would take minutes.
   */
  lookAhead(hosts: MxHost[]): void {
    if (!this.#someUnanswered) return;
    for (const { name } of hosts) {
      if (this.#ahead.has(name)) continue;
      const found = this.#resolve(name);
      // A defect is met when it is the host's turn.
      found.catch(() => undefined);
      this.#ahead.set(name, found);
    }
  }

  #resolve(host: string): Promise<HostAddresses> {
    const ips = this.#sendingIps;
    return resolveHost(host, { ...this.#options, onlyIpv6: ips.length > 0 && ips.every((ip) => isIPv6(ip)) });
  }
}
