import type { Connection } from './connection.ts';
import type { MxHost } from './mx.ts';
import type { ConnectionPool } from './pool.ts';
import type { SiteLimits } from './site-connections.ts';
import type { DestinationTls } from './tls-policies.ts';
import type { TlsPolicy } from './tls-policy.ts';

/** Of the connections that wait for a message, those that this one may go over. */
export class KeptConnections {
  readonly #pool: ConnectionPool;
  readonly #sendingIps: readonly string[];
  readonly #site: SiteLimits | undefined;

  /** @param sendingIps what the message may leave from; empty: from anything */
  constructor(pool: ConnectionPool, sendingIps: readonly string[], site: SiteLimits | undefined) {
    this.#pool = pool;
    this.#sendingIps = sendingIps;
    this.#site = site;
  }

  /** One to this host, now the caller's; null when there is none. */
  take(host: string, policy: TlsPolicy): Connection | null {
    return this.#pool.take(host, this.#fits(host, policy), this.#site);
  }

  /**
   * The host to try next: of those with the first one's preference one to which a connection is open that has taken mail,
   * else the first. What is opened is spread over them as RFC 5321 section 5.1 asks for, by the order in which they come.
   */
  async next(hosts: MxHost[], policies: DestinationTls): Promise<MxHost | undefined> {
    const [first] = hosts;
    const equal = hosts.filter(({ preference }) => preference === first?.preference);
    if (equal.length < 2) return first;
    for (const host of equal) {
      if (!this.#pool.has(host.name, hasTaken)) continue;
      const { policy } = await policies.forHost(host.name);
      const fits = this.#fits(host.name, policy);
      const isOne = (kept: Connection) => hasTaken(kept) && fits(kept);
      if (policy.mayUseHost(host.name) === null && this.#pool.has(host.name, isOne)) return host;
    }
    return first;
  }

  #fits(host: string, policy: TlsPolicy): (kept: Connection) => boolean {
    const from = this.#sendingIps;
    const isOurs = ({ target }: Connection) => from.length === 0 || from.includes(target.localAddress ?? '');
    // Whether a certificate is trusted was found out for the name that the server was asked for.
    const isNamed = ({ target }: Connection) => !policy.needsTls || target.serverName === (policy.serverName ?? host);
    // It may have carried mail of a site that gets more of them.
    const isFresh = (kept: Connection) => this.#pool.mayCarry(kept, this.#site?.perConnection ?? undefined);
    return (kept) => isOurs(kept) && isNamed(kept) && isFresh(kept) && policy.mayUseConnection(kept) === null;
  }
}

/** Those to a host that puts mail off wait far longer than those that are in use: all would come to them. */
const hasTaken = ({ tookMail }: Connection) => tookMail;
