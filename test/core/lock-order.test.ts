import t from 'tap';
import { move } from '../../src/core/orders/scheduling.ts';
import { type Release, release } from '../../src/core/orders/uncertainty.ts';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import type { Database } from '../../src/db/client.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { untilOneWaits } from '../support/locks.ts';

const hourMs = 3_600_000;

/** Makes the email's recipients wait as given, the last one first: an index has those of one time in the order of the updates. */
async function setBackwards(db: Database, emailId: string, until: Date, waitingFor: string | null): Promise<void> {
  for (const position of [1, 0])
    await db.query({
      text: 'UPDATE recipients SET next_attempt_at = $3, waiting_for = $4, job_id = NULL WHERE email_id = $1 AND position = $2',
      values: [emailId, position, until, waitingFor],
    });
}

const lock = (position: number, how = '') =>
  `SELECT FROM recipients WHERE email_id = $1 AND position = ${position} FOR NO KEY UPDATE ${how}`;

for (const order of ['retry', 'delivered', 'failed', 'move'] as const)
  t.test(`recipients are locked in the order in which nodes settle them by an order: ${order}`, async (t) => {
    const { db, queue } = await openQueue(t);
    const { account, from } = await buildSender(db, Buffer.alloc(32));
    const sender = holderOf(account);
    const later = new Date(Date.now() + hourMs);
    const scheduledAt = order === 'move' ? later : null;
    const [accepted] = await accept(db, queue, sender, [requestOf(from, ['a@a.test', 'b@b.test'], { scheduledAt })]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    const { id } = accepted.email;
    // Among few recipients the planner takes the index that has them in order.
    const others = Array.from({ length: 50 }, (_, at) => `r${at}@c.test`);
    await accept(
      db,
      queue,
      sender,
      Array.from({ length: 100 }, () => requestOf(from, others, { scheduledAt })),
    );
    if (order === 'move') await setBackwards(db, id, new Date(later.getTime() + 1_000), null);
    else await setBackwards(db, id, pausedUntil, heldNote);
    const give = () =>
      order === 'move'
        ? move(db, sender, id, new Date(later.getTime() + hourMs))
        : release(db, queue, sender, id, order satisfies Release);
    let given: Promise<unknown> | undefined;
    await db.transaction(async (tx) => {
      await tx.query({ text: lock(0), values: [id] });
      given = give();
      await untilOneWaits(db);
      const free = await tx.query({ text: lock(1, 'SKIP LOCKED'), values: [id] });
      t.equal(free.length, 1, 'otherwise the two would deadlock');
    });
    await given;
  });
