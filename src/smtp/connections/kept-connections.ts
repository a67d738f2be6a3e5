import type { MxHost } from '../dns/mx.ts';
import type { DestinationTls } from '../policies/tls-policies.ts';
import type { TlsPolicy } from '../policies/tls-policy.ts';
import type { Connection } from './connection.ts';
import type { ConnectionPool } from './pool.ts';
import type { SiteLimits } from './site-connections.ts';

/** The pool's idle connections, filtered by whether this message may use them. */
export class KeptConnections {
  readonly #pool: ConnectionPool;
  readonly #sendingIps: readonly string[];
  readonly #site: SiteLimits | undefined;

  /** @param sendingIps addresses that the message may leave from; empty: any */
  constructor(pool: ConnectionPool, sendingIps: readonly string[], site: SiteLimits | undefined) {
    this.#pool = pool;
    this.#sendingIps = sendingIps;
    this.#site = site;
  }

  /** Takes a connection to this host out of the pool; null if none fits. */
  take(host: string, policy: TlsPolicy): Connection | null {
    return this.#pool.take(host, this.#fits(host, policy), this.#site);
  }

  /**
   * The host to try next: one with the first host's preference that has an open connection which attracts mail, else the
   * first host. New connections still spread over equal hosts as RFC 5321 section 5.1 asks, because `hosts` is shuffled.
   */
  async next(hosts: MxHost[], policies: DestinationTls): Promise<MxHost | undefined> {
    const [first] = hosts;
    const equal = hosts.filter(({ preference }) => preference === first?.preference);
    if (equal.length < 2) return first;
    const kept = equal.filter(({ name }) => this.#pool.has(name, attracts));
    for (const host of kept) {
      policies.lookAhead(kept);
      const { policy } = await policies.forHost(host.name);
      const fits = this.#fits(host.name, policy);
      const isOne = (kept: Connection) => attracts(kept) && fits(kept);
      if (policy.mayUseHost(host.name) === null && this.#pool.has(host.name, isOne)) return host;
    }
    return first;
  }

  #fits(host: string, policy: TlsPolicy): (kept: Connection) => boolean {
    const from = this.#sendingIps;
    const isOurs = ({ target }: Connection) => from.length === 0 || from.includes(target.localAddress ?? '');
    // The certificate was validated for the server name asked for at the handshake, and by what was accepted then.
    const isSecure = ({ target: { serverName, anyTls } }: Connection) =>
      !policy.needsTls || (serverName === (policy.serverName ?? host) && !anyTls);
    // It may have carried mail of another site with a higher limit per connection.
    const isFresh = (kept: Connection) => this.#pool.mayCarry(kept, this.#site);
    return (kept) => isOurs(kept) && isSecure(kept) && isFresh(kept) && policy.mayUseConnection(kept) === null;
  }
}

/**
 * A host that defers mail leaves more connections idle than one that takes it, and would attract all mail. One whose TLS fails would
 * have it in clear, though at an equal host TLS may work.
 */
const attracts = ({ tookMail, lacksTls }: Connection) => tookMail && !lacksTls;
