import t from 'tap';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import * as recipients from '../../src/core/recipients/recipients.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
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
    await nodes.register(db, { id, hostname: 'test', roles: [] }, false);
    await db.query({ text: `UPDATE recipients SET next_attempt_at = now() - interval '1 s' WHERE job_id IS NULL` });
    await wakeDue(db, queue);
    const claims = await db.transaction(async (tx) => recipients.claim(tx, id, await queue.take(tx, 100, [])));
    t.match(claims, [{ emailId }]);
    return { id, claims };
  };
  const crash = async () => {
    await nodes.removeCrashed(db, (await take()).id);
    return find();
  };

  const later = new Date(Date.now() + 60_000);
  const ways: Record<string, (held: Awaited<ReturnType<typeof take>>) => Promise<void>> = {
    'given back': ({ claims }) => recipients.release(db, claims),
    'put aside for a limit': ({ claims }) => recipients.park(db, claims, later, 'a limit'),
    'put aside for a pause': ({ claims }) => recipients.parkForPause(db, claims, 'slow.test'),
    'left by a node that stops': ({ id }) => nodes.unregister(db, id),
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
    await nodes.unregister(db, id);
  }
  t.match(await find(), { attempts: 0, waitingFor: null }, 'it is never held for that');
  for (let round = 1; round <= 20; round += 1) await crash();
  t.match(await find(), { crashes: 20, waitingFor: 'held: processes ended while they had it' });
});
