import * as lines from '../core/webhooks/webhook-lines.ts';
import { forgetOldSecrets } from '../core/webhooks/webhooks.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Rounds } from '../pace/rounds.ts';
import type { Queue } from '../queue.ts';

const wakeEveryMs = 1_000;
const sweepEveryMs = 5_000;
const sweepBatch = 10_000;
const minuteMs = 60_000;

/** Keeps rows and jobs consistent: wakes deliveries whose time has come, and finds those whose job was lost. */
export function addUpkeep(rounds: Rounds, db: Database, queue: Queue, log: Logger): void {
  rounds.every(wakeEveryMs, 'wake webhooks', async (stop) => {
    while ((await lines.wakeDue(db, queue)).more && !stop.aborted);
  });

  let sweptTo: lines.Place | null = null;
  rounds.every(sweepEveryMs, 'sweep webhooks', async () => {
    const { freed, next } = await lines.sweep(db, sweptTo, sweepBatch);
    sweptTo = next;
    if (freed > 0) log.warn({ deliveries: freed }, 'webhook deliveries had lost their job or their node; they are due');
  });

  rounds.every(minuteMs, 'old webhook secrets', () => forgetOldSecrets(db));
}
