import type { Decision } from '../../src/core/recipients/settlement.ts';

/** What becomes of a recipient that gets this status; a deferred one is due again at `at`. */
export const decided = (status: Decision['status'], at: Date = new Date()): Decision =>
  status === 'deferred' ? { status, nextAttemptAt: at } : { status, nextAttemptAt: null };
