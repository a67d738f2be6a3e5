import type { PlanName } from '../core/plans.ts';
import type { Surroundings } from '../core/verification.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';
import type { RateLimiter } from './rate-limit.ts';

/** What the routes work with. */
export interface Services {
  db: Database;
  queue: Queue;
  log: Logger;
  jwtSecret: string;
  encryptionKey: Buffer;
  mailHostname: string;
  baseUrl: string;
  /** How domains are verified: live DNS and our sending addresses. */
  surroundings: Surroundings;
  sandbox: boolean;
  /** The plan of accounts that are created without one. */
  defaultPlan: PlanName;
  /** Counts the requests of each API key. */
  limiter: RateLimiter;
}
