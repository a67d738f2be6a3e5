import { createHash } from 'node:crypto';
import t from 'tap';
import { pause } from '../../src/core/destinations/destination-orders.ts';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import { cancel, move } from '../../src/core/orders/scheduling.ts';
import { claim, parkForPause } from '../../src/core/recipients/recipients.ts';
import { heldNote } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildNode, buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { untilOneWaits } from '../support/locks.ts';

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
  await buildNode(db, nodeId);
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
  const [once, another] = [await send(null), await send(null)];
  await db.prisma.recipient.updateMany({ where: { emailId: another }, data: { waitingFor: heldNote } });
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

t.test('mail that becomes due and goes to a node while a call changes it is on its way', async (t) => {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(5));
  const holder = holderOf(sender.account);
  const changes = [
    (id: string) => cancel(db, holder, id),
    (id: string) => move(db, holder, id, new Date(Date.now() + 3_600_000)),
  ];
  for (const change of changes) {
    const request = requestOf(sender.from, ['ann@x.test'], { scheduledAt: new Date(Date.now() + 3_600_000) });
    const [accepted] = await accept(db, queue, holder, [request]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    const { id } = accepted.email;
    let changing: Promise<unknown> = Promise.resolve();
    await db.transaction(async (tx) => {
      await tx.query({ text: 'SELECT FROM recipients WHERE email_id = $1 FOR UPDATE', values: [id] });
      changing = change(id).catch((error: unknown) => error);
      await untilOneWaits(db);
      // To the call, which began before, it is not due yet.
      await tx.query({
        text: `UPDATE recipients SET claimed_by = gen_random_uuid(), job_id = gen_random_uuid() WHERE email_id = $1`,
        values: [id],
      });
    });
    t.match(await changing, { status: 409 });
    t.match(await db.prisma.recipient.findFirst({ where: { emailId: id } }), { status: 'queued', claimedBy: String });
    t.match(await db.prisma.email.findUnique({ where: { id } }), {
      status: 'queued',
      scheduledAt: accepted.email.scheduledAt?.toISOString(),
    });
  }
});

t.test('another time changes how long its own files are kept, and no others', async (t) => {
  const { db, queue } = await openQueue(t);
  const files = (names: string[]) =>
    names.map((name) => {
      const content = Buffer.from(name);
      const sha256 = createHash('sha256').update(content).digest('hex');
      return { filename: name, content, sha256, contentType: 'text/plain', contentId: null };
    });
  const scheduledAt = new Date(Date.now() + 3_600_000);
  const send = async (names: string[]) => {
    const sender = await buildSender(db, testKey(5));
    const holder = holderOf(sender.account);
    const ids: string[] = [];
    for (const name of names) {
      const request = requestOf(sender.from, ['ann@x.test'], { scheduledAt, attachments: files([name]) });
      const [accepted] = await accept(db, queue, holder, [request]);
      if (!accepted || !('email' in accepted)) throw new Error('not accepted');
      ids.push(accepted.email.id);
    }
    return { holder, ids };
  };
  const own = await send(['a', 'b']);
  const other = await send(['a']);
  const changed = async () => {
    const rows = await db.query<{ account: string; file: string; at: Date }>({
      text: `SELECT account_id AS account, convert_from(content, 'UTF8') AS file, last_used_at AS at FROM attachments ORDER BY 1, 2`,
    });
    return rows.flatMap(({ account, file, at }) =>
      at.getTime() === scheduledAt.getTime() ? [] : [{ account, file, at }],
    );
  };
  t.strictSame(await changed(), []);
  const later = new Date(Date.now() + 7_200_000);
  await move(db, own.holder, own.ids[0] ?? '', later);
  t.strictSame(await changed(), [{ account: own.holder.accountId, file: 'a', at: later }]);
  await cancel(db, other.holder, other.ids[0] ?? '');
  const both = await changed();
  t.match(both, [{ account: own.holder.accountId, at: later.toISOString() }, { account: other.holder.accountId }]);
  t.equal(both.length, 2);
  t.ok((both[1]?.at ?? later) < scheduledAt);
});
