import t from 'tap';
import { at, type Fields, startMailer } from './scene.ts';

/** A mailer, and calls below `/api/v1` by the member of its account. */
async function startMember() {
  const mailer = await startMailer();
  const { email, password } = mailer.account;
  const { token } = (await mailer.node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  const call = (method: string, path: string, body?: unknown) =>
    mailer.node.call(method, `/api/v1${path}`, { token, body });
  return { ...mailer, call };
}

t.test('only the time of an email can be changed, and other changes are refused by name', async (t) => {
  const { call, node, send, domain, from } = await startMember();
  const content = { html: `<p>${'Hi '.repeat(20_000)}`, text: 't', headers: { 'X-A': 'b', 'X-C': 'd' } };
  const sent = await send({
    ...content,
    scheduled_at: at(3_600_000),
    to: ['a@b.test', 'c@d.test'],
    cc: 'e@f.test',
    tags: ['x'],
    on_uncertain: 'hold',
  });
  const path = `/emails/${sent.body.email.id}`;
  const later = () => ({ scheduled_at: at(7_200_000) });
  const before = (await call('GET', path)).body.email;
  const wrong: Fields[] = [
    { subject: 'new' },
    { html: '<p>new' },
    { text: 'new' },
    { from: `other@${domain}` },
    { to: 'new@b.test' },
    { to: ['c@d.test', 'a@b.test'] },
    { cc: [] },
    { bcc: ['new@b.test'] },
    { reply_to: 'new@b.test' },
    { headers: { 'X-A': 'new' } },
    { attachments: [{ filename: 'a.txt', content: 'aGk=' }] },
    { template: { alias: 'new' } },
    { to: 7 },
    { tags: [] },
    { type: 'marketing' },
    { tls: 'required' },
    { on_uncertain: 'retry' },
  ];
  for (const fields of wrong)
    for (const body of [fields, { ...later(), ...fields }]) {
      const { status, body: answer } = await call('PATCH', path, body);
      const [name] = Object.keys(fields);
      t.match(
        [status, answer.detail],
        [400, `${name}: cannot be changed: only scheduled_at can`],
        JSON.stringify(body),
      );
    }
  t.strictSame((await call('GET', path)).body.email, before, 'nothing was changed');

  const listed = (await call('GET', '/emails')).body.emails.find(({ id }: { id: string }) => id === before.id);
  for (const same of [
    before,
    listed,
    sent.body.email,
    { to: ['a@b.test', 'c@d.test'], cc: 'e@f.test', bcc: [], from, subject: 's', type: 'transactional' },
    { text: null, html: '', headers: {}, attachments: [], template: null, subject: null },
    { status: 'scheduled', own: 'x' },
    { ...content, subject: 's' },
  ]) {
    const body = { ...same, ...later() };
    const answer = await call('PATCH', path, body);
    t.match(answer, { status: 200, body: { email: { scheduled_at: body.scheduled_at } } }, JSON.stringify(same));
  }
  const file = { filename: 'a.txt', content: 'aGk=' };
  const withFile = (await send({ attachments: [file], scheduled_at: at(3_600_000) })).body.email.id;
  for (const attachments of [[], [file], [{ ...file, content: 'eW8=' }]])
    t.match(
      await call('PATCH', `/emails/${withFile}`, { ...later(), attachments }),
      { status: 400, body: { detail: 'attachments: cannot be changed: only scheduled_at can' } },
      'files cannot be compared, and none are not the same as some',
    );
  t.equal((await call('PATCH', '/emails/01a2001a-7976-7081-b3d3-f5117420f571', before)).status, 404);
  await node.db.query({ text: 'DELETE FROM email_contents WHERE email_id = $1', values: [before.id] });
  const gone = await call('PATCH', path, { ...content, ...later() });
  t.match(
    gone,
    { status: 400, body: { detail: /^html: cannot be changed/ } },
    'without its content nobody can tell whether it is the same',
  );
});
