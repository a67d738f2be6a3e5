import type { Socket, TcpNetConnectOpts } from 'node:net';
import { type Clock, systemClock } from '../clock.ts';
import type { PrivateNetworks } from '../ip.ts';
import { type Logger, silentLog } from '../log.ts';
import { type Deadlines, defaultDeadlines } from './connections/deadlines.ts';
import { ConnectionPool, type PoolOptions } from './connections/pool.ts';
import { TlsTerms, usualTerms } from './connections/tls-socket.ts';
import { createResolver, DnsCache, type Resolver } from './dns/resolver.ts';
import { SilentHosts } from './dns/silent-hosts.ts';
import { TlsPolicies } from './policies/tls-policies.ts';
import { TlsResults } from './reports/tls-results.ts';

export interface TransportOptions {
  /** The EHLO name; it should resolve to the sending address and back. */
  ehloName: string;
  /** By sending address, where it is another. */
  ehloNames?: ReadonlyMap<string, string>;
  /** Default: the system's name servers. */
  resolver?: Resolver;
  /** The port of every MX; 25 by default. */
  mxPort?: number;
  /** Allows addresses outside the public internet. */
  allowPrivate?: PrivateNetworks;
  /** Local addresses to send from; an envelope sender always gets the same one. If empty, the system chooses. */
  sendingIps?: string[];
  /** Our own public addresses, besides `sendingIps`; no MX host may have them unless `allowPrivate` is true. */
  ownAddresses?: string[];
  /** Which TLS to require; by default only what the sender asks for. */
  tlsPolicies?: TlsPolicies;
  /** Counts the sessions for TLS reports. */
  tlsResults?: TlsResults;
  /** Certification authorities to trust instead of the usual ones, in PEM. */
  ca?: string;
  deadlines?: Partial<Deadlines>;
  pool?: PoolOptions;
  clock?: Clock;
  random?: () => number;
  connect?: (options: TcpNetConnectOpts) => Socket;
  log?: Logger;
}

/** What all deliveries of a process share: settings, DNS answers, idle connections, and which hosts say nothing. */
export interface Transport {
  /** What a session from this address says with EHLO; undefined: the system chooses the address. */
  readonly ehloNameOf: (localAddress: string | undefined) => string;
  readonly resolver: Resolver;
  readonly mxPort: number;
  readonly allowPrivate: PrivateNetworks;
  readonly sendingIps: string[];
  readonly ownHosts: string[];
  readonly ownAddresses: string[];
  readonly tlsPolicies: TlsPolicies;
  readonly tlsResults: TlsResults;
  readonly terms: TlsTerms;
  readonly deadlines: Deadlines;
  readonly pool: ConnectionPool;
  readonly cache: DnsCache;
  readonly silentHosts: SilentHosts;
  readonly clock: Clock;
  readonly random: () => number;
  readonly connect: ((options: TcpNetConnectOpts) => Socket) | undefined;
  readonly log: Logger;
  /** Closes idle connections. Deliveries under way finish, and their connections are not kept. */
  close(): Promise<void>;
}

/** @throws Error if an EHLO name is neither a host name nor an address literal */
export function createTransport(options: TransportOptions): Transport {
  const { ehloName, ehloNames = new Map(), sendingIps = [], ownAddresses = [] } = options;
  const ownHosts = [ehloName, ...ehloNames.values()];
  if (!ownHosts.every((name) => /^(?:[A-Za-z0-9_.-]{1,253}|\[[A-Fa-f0-9.:IPv]{1,60}\])$/.test(name))) {
    throw new Error('the EHLO name is not a host name');
  }
  const pool = new ConnectionPool(options.pool);
  return {
    ehloNameOf: (localAddress) => ehloNames.get(localAddress ?? '') ?? ehloName,
    resolver: options.resolver ?? createResolver(null),
    mxPort: options.mxPort ?? 25,
    allowPrivate: options.allowPrivate ?? false,
    sendingIps,
    ownHosts,
    ownAddresses: [...sendingIps, ...ownAddresses],
    tlsPolicies: options.tlsPolicies ?? new TlsPolicies(),
    tlsResults: options.tlsResults ?? new TlsResults(),
    terms: options.ca === undefined ? usualTerms : new TlsTerms(options.ca),
    deadlines: { ...defaultDeadlines, ...options.deadlines },
    pool,
    cache: new DnsCache(),
    silentHosts: new SilentHosts(),
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    connect: options.connect,
    log: options.log ?? silentLog,
    close: () => pool.close(),
  };
}
