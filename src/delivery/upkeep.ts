import { wakeRest } from '../core/destinations/wakings.ts';
import * as lines from '../core/emails/mail-lines.ts';
import * as recipients from '../core/recipients/recipients.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Rounds } from '../pace/rounds.ts';
import type { Queue } from '../queue.ts';

const wakeEveryMs = 250;
const ordersEveryMs = 1_000;
const sweepEveryMs = 5_000;
const pastEveryMs = 3_000;
/** Recipients that one sweep looks at. */
const sweepBatch = 10_000;

/**
 * Keeps rows and jobs consistent: wakes recipients whose time has come or whom an order released, and finds those whose job
 * was lost.
 *
 * @param supplied destinations whose jobs stay in the queue, as claims for them are in hand
 */
export function addUpkeep(
  rounds: Rounds,
  db: Database,
  queue: Queue,
  log: Logger,
  supplied: () => Iterable<string>,
): void {
  rounds.every(wakeEveryMs, 'wake', async (stop) => {
    while ((await lines.wakeDue(db, queue)).more && !stop.aborted);
  });

  const wakePast = lines.wakingPast(db, queue);
  rounds.every(pastEveryMs, 'wake past full lines', async () => {
    await wakePast([...supplied()]);
  });

  rounds.every(ordersEveryMs, 'rest of orders', (stop) => wakeRest(db, log, stop));

  let sweptTo: recipients.Place | null = null;
  rounds.every(sweepEveryMs, 'sweep', async () => {
    const { freed, next } = await recipients.sweep(db, sweptTo, sweepBatch);
    sweptTo = next;
    if (freed > 0) log.warn({ recipients: freed }, 'recipients had lost their job or their node; they are due again');
  });
}
