import { randomBytes } from 'node:crypto';
import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

t.test('a file that cannot be read holds up only its own email, which says so and continues once it can', async (t) => {
  const arrived: string[] = [];
  const sink = await startSink({
    host: '127.0.0.1',
    onMessage: ({ raw }) => {
      arrived.push(raw.toString('latin1'));
      return null;
    },
  });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'b.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const lines = (bytes: number) => randomBytes(bytes).toString('base64');
  const withFile = (content: string) => ({ attachments: [{ filename: 'f.bin', content }] });
  const files = [lines(1_000), lines(400_000), lines(3_000_000)];
  const sendAll = (all: Record<string, unknown>[]) =>
    Promise.all(all.map((fields) => node.send({ to: 'a@b.test', scheduled_at, ...fields })));
  const fine = await sendAll([{}, {}, {}, ...files.map(withFile)]);
  const broken = await sendAll([1_000, 400_000, 3_000_000].map((bytes) => withFile(lines(bytes))));
  const ids = broken.map(({ id }) => id);
  await node.db.query({
    text: `UPDATE attachments a SET account_id = gen_random_uuid() FROM email_contents c
            WHERE c.email_id = ANY($1::uuid[]) AND encode(a.sha256, 'hex') = c.attachments -> 0 ->> 'sha256'`,
    values: [ids],
  });
  const makeDue = (emails: { id: string }[]) =>
    node.db.query({
      text: 'UPDATE recipients SET next_attempt_at = now() WHERE email_id = ANY($1::uuid[])',
      values: [emails.map(({ id }) => id)],
    });
  await makeDue([...fine, ...broken]);

  for (const { id } of fine) await eventually(async () => (await node.read(id)).status === 'sent');
  for (const content of files) {
    const start = content.slice(0, 60);
    const whole = arrived.find((raw) => raw.includes(start))?.replaceAll('\r\n', '');
    t.ok(whole?.includes(content), `${content.length} characters of base64 arrive unchanged`);
  }
  for (const { id } of broken) {
    const waiting_for = 'its content could not be read from the database';
    const recipient = await eventually(async () => {
      const { recipients } = await node.read(id);
      return recipients[0].waiting_for !== null && recipients[0];
    });
    t.match(recipient, { status: 'queued', attempts: 0, waiting_for });
  }

  await node.db.query({
    text: `UPDATE attachments SET account_id = $1`,
    values: [node.account.id],
  });
  await makeDue(broken);
  for (const { id } of broken) await eventually(async () => (await node.read(id)).status === 'sent');
  t.equal(arrived.length, 9);
});
