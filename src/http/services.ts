import type { Clock } from '../clock.ts';
import type { PlanName } from '../core/accounts/plans.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { Statistics } from '../core/log/stats.ts';
import type { Installation } from '../core/operations/doctor.ts';
import type { TokenKeys } from '../core/secrets/service-secrets.ts';
import type { Keyring } from '../crypto/seal.ts';
import type { Database } from '../db/client.ts';
import type { PrivateNetworks } from '../ip.ts';
import type { Logger } from '../log.ts';
import type { AccountTurns } from '../pace/account-turns.ts';
import type { Metrics } from '../process/metrics.ts';
import type { Queue } from '../queue.ts';
import type { SendingPools } from '../smtp/connections/sending-pools.ts';
import type { LookUpOptions } from '../smtp/dns/mx.ts';
import type { TlsPolicies } from '../smtp/policies/tls-policies.ts';
import type { DashboardFiles } from './dashboard-files.ts';
import type { Exports } from './exports.ts';
import type { RateLimiter } from './rate-limit.ts';

/** Where programs hand in mail by SMTP; null: this port is not open. */
export interface SubmissionAddress {
  host: string;
  starttlsPort: number | null;
  tlsPort: number | null;
  /** Nobody vouches for its certificate. */
  selfSigned: boolean;
}

/** The dependencies of the routes. */
export interface Services {
  db: Database;
  queue: Queue;
  /** Caches the bodies of accepted emails for their delivery soon after. */
  fresh: FreshBodies;
  log: Logger;
  metrics: Metrics;
  jwtSecret: string;
  keyring: Keyring;
  mailHostname: string;
  baseUrl: string;
  /** Null: this node takes no mail by SMTP. */
  submission: SubmissionAddress | null;
  /** How many of the last addresses in `X-Forwarded-For` come from trusted proxies. */
  proxies: number;
  /** How domains are verified: live DNS and our sending addresses. */
  surroundings: Surroundings;
  sandbox: boolean;
  /** What the doctor checks apart from DNS and the database. */
  installation: Installation;
  /** Its providers are the same as for delivery limits. */
  statistics: Statistics;
  /** How the transport looks up MX hosts. */
  lookUp: LookUpOptions;
  /** The TLS policies of the transport. */
  tlsPolicies: TlsPolicies;
  tokenKeys: TokenKeys;
  /** The database's. */
  clock: Clock;
  /** The addresses that mail is sent from. */
  sendingPools: SendingPools;
  /** How long a recipient is retried after it was due, in ms. */
  retryForMs: number;
  /** The addresses outside the public internet that webhook endpoints may have. */
  allowPrivateNetworks: PrivateNetworks;
  /** The plan of accounts that are created without one. */
  defaultPlan: PlanName;
  /** The pages for browsers; null: not built, or disabled. */
  dashboard: DashboardFiles | null;
  /** Counts the requests of each API key. */
  limiter: RateLimiter;
  /** The order in which reads, and long commits, of different accounts reach the database. */
  readTurns: AccountTurns;
  commitTurns: AccountTurns;
  exports: Exports;
  /** Whether this node has begun to stop. */
  isStopping: () => boolean;
}
