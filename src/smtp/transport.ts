import type { Socket, TcpNetConnectOpts } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type Clock, systemClock } from '../clock.ts';
import type { PrivateNetworks } from '../ip.ts';
import { type Logger, silentLog } from '../log.ts';
import { type Deadlines, defaultDeadlines } from './deadlines.ts';
import { ConnectionPool, type PoolOptions } from './pool.ts';
import { createResolver, DnsCache, type Resolver } from './resolver.ts';
import { TlsPolicies } from './tls-policies.ts';
import { TlsResults } from './tls-results.ts';

export interface TransportOptions {
  /** The name to say EHLO with; it should resolve to the sending address and back. */
  ehloName: string;
  /** The system's name servers unless given. */
  resolver?: Resolver;
  /** The port of every MX; 25 unless given. */
  mxPort?: number;
  /** Lets mail go to addresses outside the public internet. */
  allowPrivate?: PrivateNetworks;
  /** Local addresses to send from, for each envelope sender always the same. None leaves it to the system. */
  sendingIps?: string[];
  /** Our own MX host names, besides `ehloName`. */
  ownHosts?: string[];
  /** Our own public addresses, besides `sendingIps`; no MX host may have them unless `allowPrivate` is true. */
  ownAddresses?: string[];
  /** What TLS is held to; what the sender asks for unless given. */
  tlsPolicies?: TlsPolicies;
  /** Where the sessions are counted. */
  tlsResults?: TlsResults;
  /** Trusted instead of the usual certification authorities, in PEM. */
  ca?: string;
  deadlines?: Partial<Deadlines>;
  pool?: PoolOptions;
  clock?: Clock;
  random?: () => number;
  connect?: (options: TcpNetConnectOpts) => Socket;
  log?: Logger;
}

/** All that deliveries share: settings, DNS answers and idle connections. One for a process. */
export interface Transport {
  readonly ehloName: string;
  readonly resolver: Resolver;
  readonly mxPort: number;
  readonly allowPrivate: PrivateNetworks;
  readonly sendingIps: string[];
  readonly ownHosts: string[];
  readonly ownAddresses: string[];
  readonly tlsPolicies: TlsPolicies;
  readonly tlsResults: TlsResults;
  /** Undefined: the usual certification authorities. */
  readonly trust: SecureContext | undefined;
  readonly deadlines: Deadlines;
  readonly pool: ConnectionPool;
  readonly cache: DnsCache;
  readonly clock: Clock;
  readonly random: () => number;
  readonly connect: ((options: TcpNetConnectOpts) => Socket) | undefined;
  readonly log: Logger;
  /** Closes the idle connections. Deliveries under way finish; their connections are not kept. */
  close(): Promise<void>;
}

/** Throws when `ehloName` could not be said: it must be a host name or an address literal. */
export function createTransport(options: TransportOptions): Transport {
  const { ehloName, sendingIps = [], ownHosts = [], ownAddresses = [] } = options;
  if (!/^(?:[A-Za-z0-9_.-]{1,253}|\[[A-Fa-f0-9.:IPv]{1,60}\])$/.test(ehloName)) {
    throw new Error('the EHLO name is not a host name');
  }
  const pool = new ConnectionPool(options.pool);
  return {
    ehloName,
    resolver: options.resolver ?? createResolver(null),
    mxPort: options.mxPort ?? 25,
    allowPrivate: options.allowPrivate ?? false,
    sendingIps,
    ownHosts: [ehloName, ...ownHosts],
    ownAddresses: [...sendingIps, ...ownAddresses],
    tlsPolicies: options.tlsPolicies ?? new TlsPolicies(),
    tlsResults: options.tlsResults ?? new TlsResults(),
    trust: options.ca === undefined ? undefined : createSecureContext({ ca: options.ca }),
    deadlines: { ...defaultDeadlines, ...options.deadlines },
    pool,
    cache: new DnsCache(),
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    connect: options.connect,
    log: options.log ?? silentLog,
    close: () => pool.close(),
  };
}
