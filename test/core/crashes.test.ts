import t from 'tap';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import * as recipients from '../../src/core/recipients/recipients.ts';
import { unansweredNote } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildNode, buildVerifiedDomain, holderOf, unheard } from '../support/build.ts';
import { openQueue } from '../support/db.ts';

t.test('mail that a process gives back properly starts with a new count of crashes', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  const [accepted] = await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@slow.test'])]);
  if (!accepted || !('email' in accepted)) throw new Error('not accepted');
  const emailId = accepted.email.id;
  const find = () => db.prisma.recipient.findFirstOrThrow({ where: { emailId } });

  /** Registers a node and lets it claim the email. */
  const take = async () => {
    const id = newId();
    await buildNode(db, id);
    await db.query({ text: `UPDATE recipients SET next_attempt_at = now() - interval '1 s' WHERE job_id IS NULL` });
    await wakeDue(db, queue);
    const claims = await db.transaction(async (tx) => recipients.claim(tx, id, await queue.take(tx, 100, [])));
    t.match(claims, [{ emailId }]);
    return { id, claims };
  };
  const crash = async () => {
    await nodes.removeCrashed(db, (await take()).id, unheard);
    return find();
  };

  const later = new Date(Date.now() + 60_000);
  const ways: Record<string, (held: Awaited<ReturnType<typeof take>>) => Promise<void>> = {
    'given back': ({ claims }) => recipients.release(db, claims),
    'put aside for a limit': ({ claims }) => recipients.park(db, claims, later, 'a limit'),
    'put aside for a pause': ({ claims }) => recipients.parkForPause(db, claims, 'slow.test'),
    'left by a node that stops': ({ id }) => nodes.unregister(db, id, unheard),
  };
  for (const [way, giveBack] of Object.entries(ways)) {
    t.match(await crash(), { crashes: 1 });
    t.match(await crash(), { crashes: 2 });
    await giveBack(await take());
    t.match(await find(), { crashes: 0, claimedBy: null, jobId: null }, way);
  }
  for (let round = 0; round < 20; round += 1) {
    await crash();
    const { id, claims } = await take();
    await recipients.release(db, claims);
    await nodes.unregister(db, id, unheard);
  }
  t.match(await find(), { attempts: 0, waitingFor: null }, 'it is never held for that');
  for (let round = 1; round <= 20; round += 1) await crash();
  t.match(await find(), { crashes: 20, waitingFor: 'held: processes ended while they had it' });
});

t.test('however a node ends, what others have in hand stays theirs', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32));
  /** A node that has a recipient and a webhook delivery in hand, and may have sent the final dot. */
  const start = async () => {
    const id = newId();
    await buildNode(db, id);
    await accept(db, queue, holderOf(account), [requestOf(`s@${domain}`, ['a@slow.test'])]);
    t.equal((await db.transaction(async (tx) => recipients.claim(tx, id, await queue.take(tx, 100, [])))).length, 1);
    await db.query({
      text: 'UPDATE recipients SET waiting_for = $2 WHERE claimed_by = $1',
      values: [id, unansweredNote],
    });
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, next_attempt_at, job_id, claimed_by)
             VALUES ($1, $1, $1, $1, 'email.sent', '{}', now(), $1, $2)`,
      values: [newId(), id],
    });
    return id;
  };
  const living = await start();
  const inHand = async () =>
    (
      await db.query<{ by: string }>({
        text: `SELECT claimed_by AS by FROM recipients WHERE claimed_by IS NOT NULL AND waiting_for IS NOT NULL
               UNION ALL SELECT claimed_by FROM webhook_deliveries WHERE claimed_by IS NOT NULL`,
      })
    ).map(({ by }) => by);
  const ways: Record<string, (id: string) => Promise<unknown>> = {
    'it stops': (id) => nodes.unregister(db, id, unheard),
    'it crashes': (id) => nodes.removeCrashed(db, id, unheard),
    'it is silent': async (id) => {
      await db.query({ text: `UPDATE nodes SET seen_at = now() - interval '1 hour' WHERE id = $1`, values: [id] });
      await nodes.removeDead(db, unheard);
    },
  };
  for (const [way, end] of Object.entries(ways)) {
    const id = await start();
    t.strictSame((await inHand()).sort(), [living, living, id, id].sort(), `before ${way}`);
    await end(id);
    t.strictSame(await inHand(), [living, living], way);
  }
});
