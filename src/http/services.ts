import type { AccountTurns } from '../account-turns.ts';
import type { PlanName } from '../core/accounts/plans.ts';
import type { Surroundings } from '../core/domains/record-checks.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { ProviderOf } from '../core/log/stats.ts';
import type { Installation } from '../core/operations/doctor.ts';
import type { TokenKeys } from '../core/secrets/service-secrets.ts';
import type { Database } from '../db/client.ts';
import type { PrivateNetworks } from '../ip.ts';
import type { Logger } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Queue } from '../queue.ts';
import type { Keyring } from '../seal.ts';
import type { SendingPools } from '../sending-pools.ts';
import type { LookUpOptions } from '../smtp/mx.ts';
import type { TlsPolicies } from '../smtp/tls-policies.ts';
import type { DashboardFiles } from './dashboard-files.ts';
import type { Exports } from './exports.ts';
import type { RateLimiter } from './rate-limit.ts';

/** What the routes work with. */
export interface Services {
  db: Database;
  queue: Queue;
  /** Has the bodies of what is accepted, for those who send it soon. */
  fresh: FreshBodies;
  log: Logger;
  metrics: Metrics;
  jwtSecret: string;
  keyring: Keyring;
  mailHostname: string;
  baseUrl: string;
  /** How many of the last addresses in `X-Forwarded-For` are from proxies that can be trusted. */
  proxies: number;
  /** How domains are verified: live DNS and our sending addresses. */
  surroundings: Surroundings;
  sandbox: boolean;
  /** What the doctor looks at beside DNS and the database. */
  installation: Installation;
  /** Who runs the mail servers of a destination, as deliveries are limited by. */
  providerOf: ProviderOf;
  /** How MX hosts are found, as the transport does it. */
  lookUp: LookUpOptions;
  /** What TLS is held to, as the transport does it. */
  tlsPolicies: TlsPolicies;
  tokenKeys: TokenKeys;
  /** What mail leaves from. */
  sendingPools: SendingPools;
  /** How long after it was due a recipient is tried, in ms. */
  retryForMs: number;
  /** The addresses outside the public internet that webhook endpoints may have. */
  allowPrivateNetworks: PrivateNetworks;
  /** The plan of accounts that are created without one. */
  defaultPlan: PlanName;
  /** The pages for browsers; null: they were not built, or are not wanted. */
  dashboard: DashboardFiles | null;
  /** Counts the requests of each API key. */
  limiter: RateLimiter;
  /** Decide in which order what accounts read, and what they have committed at length, reaches the database. */
  readTurns: AccountTurns;
  commitTurns: AccountTurns;
  exports: Exports;
}
