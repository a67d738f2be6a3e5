import t from 'tap';
import { pause } from '../../src/core/destinations/destination-orders.ts';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import { cancel, move } from '../../src/core/orders/scheduling.ts';
import { claim, parkForPause } from '../../src/core/recipients/recipients.ts';
import { heldNote } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

t.test('mail that was due once cannot be canceled or moved, whatever it waits for now', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(5));
  const holder = holderOf(sender.account);
  const request = requestOf(sender.from, ['ann@x.test'], { scheduledAt: new Date(Date.now() + 3_600_000) });
  const [accepted] = await accept(db, queue, holder, [request]);
  if (!accepted || !('email' in accepted)) throw new Error('not accepted');
  const { id } = accepted.email;
  const due = await move(db, holder, id, new Date(Date.now() + 300));
  t.ok(due.scheduledAt);
  const nodeId = newId();
  await nodes.register(db, { id: nodeId, hostname: 'test', roles: [] }, false);
  await pause(db, 'x.test');
  const take = () => db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  let claims = await take();
  for (; claims.length === 0; claims = await take()) await wakeDue(db, queue);
  await parkForPause(db, claims, 'x.test');
  const read = () => db.prisma.recipient.findFirstOrThrow({ where: { emailId: id } });
  const before = await read();
  t.match(before, { status: 'queued', attempts: 0, jobId: null, waitingFor: 'paused: x.test' });

  const detail = 'the email is not waiting for a scheduled time any more: it is on its way';
  const refused = { status: 409, message: 'conflict', detail };
  await t.rejects(move(db, holder, id, new Date(Date.now() + 3_600_000)), refused);
  await t.rejects(cancel(db, holder, id), refused);
  t.strictSame(await read(), before);
});

t.test('what cannot be canceled or moved says why', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(5));
  const holder = holderOf(sender.account);
  const send = async (scheduledAt: Date | null) => {
    const request = requestOf(sender.from, ['ann@x.test'], { scheduledAt });
    const [accepted] = await accept(db, queue, holder, [request]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    return accepted.email.id;
  };
  const inAnHour = () => new Date(Date.now() + 3_600_000);
  const refuses = async (id: string, detail: string) => {
    const refused = { status: 409, message: 'conflict', detail };
    await t.rejects(cancel(db, holder, id), refused);
    await t.rejects(move(db, holder, id, inAnHour()), refused);
  };
  const once = await send(null);
  await refuses(once, 'the email was never scheduled, and is on its way');
  await db.prisma.recipient.updateMany({ where: { emailId: once }, data: { waitingFor: heldNote } });
  await refuses(once, 'the email is held until somebody decides about it with POST /api/v1/emails/:id/release');
  await db.prisma.recipient.updateMany({ where: { emailId: once }, data: { waitingFor: null } });
  await db.prisma.email.update({ where: { id: once }, data: { status: 'sent', pending: 0 } });
  await refuses(once, 'the email was never scheduled, and is sent already');

  const later = await send(inAnHour());
  t.equal((await cancel(db, holder, later)).status, 'canceled');
  await refuses(later, 'the email is canceled already');
  const failed = await send(inAnHour());
  await db.prisma.email.update({ where: { id: failed }, data: { status: 'failed', pending: 0 } });
  await refuses(failed, 'the email is not waiting for a scheduled time any more: it failed already');
});
