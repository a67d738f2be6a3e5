import t from 'tap';
import { startMailer } from './scene.ts';

t.test('DOS-13: the number of recipients of a call is limited', async (t) => {
  const { node, key, send, fields } = await startMailer();
  const many = (count: number) => Array.from({ length: count }, (_, n) => `r${n}@b.test`);
  const recipientsOf = async (id: string) => node.db.prisma.recipient.count({ where: { emailId: id } });
  const hundred = await send({ to: many(50), cc: many(100).slice(50, 80), bcc: many(100).slice(80) });
  t.equal(hundred.status, 200);
  t.equal(await recipientsOf(hundred.body.email.id), 100);
  for (const more of [
    { to: many(101) },
    { to: many(50), cc: many(51) },
    { to: ['a@b.test'], bcc: many(100) },
    { to: many(10_000) },
  ]) {
    const { status, body } = await send(more);
    t.match(
      [status, body.error, body.detail],
      [400, 'invalid request', / 100 | 10,000 /],
      JSON.stringify(more).slice(0, 60),
    );
  }
  const same = await send({ to: Array(100).fill('One@B.test'), headers: {} });
  t.equal(same.status, 200, same.body.detail);
  t.equal(await recipientsOf(same.body.email.id), 1, 'an address that is named many times gets it once');
  t.equal((await send({ to: Array(10_000).fill('one@b.test') })).status, 400);
  t.equal(
    (await send({ to: Array(30).fill('a@b.test'), cc: Array(30).fill('A@b.test'), bcc: Array(30).fill('a@B.TEST') }))
      .status,
    200,
  );

  const batch = (count: number, each: object) =>
    node.call('POST', '/api/v1/emails/batch', { key, body: { emails: Array(count).fill({ ...fields, ...each }) } });
  t.match(await batch(1_001, {}), { status: 400, body: { detail: /1,000/ } });
  const heavy = { attachments: [{ filename: 'a', content: 'YQ=='.repeat(18_000) }] };
  t.match(await batch(1_000, heavy), { status: 413 }, 'a thousand files of 54 kB exceed the limit of a batch');
  const before = await node.db.prisma.attachment.count();
  const light = { attachments: [{ filename: 'a', content: Buffer.from(`one file of ${key}`).toString('base64') }] };
  t.match(await batch(200, light), { status: 200, body: { count: 200 } });
  t.equal(await node.db.prisma.attachment.count(), before + 1, 'a shared file is stored once');
});
