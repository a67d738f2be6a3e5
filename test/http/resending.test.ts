import t from 'tap';
import { eventually, startTestNode } from '../support/node.ts';
import { encryptionKey, startMailer } from './scene.ts';

t.test('the content of an email can be read, and sent again', async (t) => {
  const { node, key, send } = await startMailer();
  const { id } = (
    await send({
      to: ['Ann <a@b.test>'],
      cc: ['c@d.test'],
      html: '<p>Hello</p>',
      headers: { 'X-Order': '7' },
      tags: ['first'],
      attachments: [
        { filename: 'b.txt', content: 'YmVl', content_type: 'text/plain' },
        { filename: 'a.png', content: 'aGk=', content_type: 'image/png', content_id: 'logo' },
      ],
    })
  ).body.email;
  const said = {
    html: '<p>Hello</p>',
    text: 't',
    headers: [{ name: 'X-Order', value: '7' }],
    attachments: [
      { filename: 'b.txt', content_type: 'text/plain', content_id: null, size: 3 },
      { filename: 'a.png', content_type: 'image/png', content_id: 'logo', size: 2 },
    ],
  };
  t.strictSame((await node.call('GET', `/api/v1/emails/${id}/content`, { key })).body, said);

  const once = { key, headers: { 'Idempotency-Key': 'again' } };
  const { status, body } = await node.call('POST', `/api/v1/emails/${id}/resend`, once);
  t.equal(status, 200);
  t.not(body.email.id, id);
  t.match(body.email, { status: 'queued', to: 'Ann <a@b.test>', cc: ['c@d.test'], tags: ['first'], subject: 's' });
  t.strictSame((await node.call('GET', `/api/v1/emails/${body.email.id}/content`, { key })).body, said);
  const replayed = await node.call('POST', `/api/v1/emails/${id}/resend`, once);
  t.equal(replayed.body.email.id, body.email.id, 'pressing the button twice sends it once');
  const capital = await node.call('POST', `/api/v1/emails/${id.toUpperCase()}/resend`, once);
  t.equal(capital.body.email?.id, body.email.id, 'however its id is written');
});

t.test('it can be sent again to some of its recipients', async (t) => {
  const { node, key, send } = await startMailer();
  const sent = { to: ['Ann <Ann@b.test>', 'bob@b.test'], cc: ['c@d.test'], bcc: ['d@d.test', 'e@d.test'] };
  const { id } = (await send(sent)).body.email;
  const resend = (recipients: unknown, headers = {}) =>
    node.call('POST', `/api/v1/emails/${id}/resend`, { key, body: { recipients }, headers });
  const sentTo = async (recipients: unknown) => {
    const { status, body } = await resend(recipients);
    t.equal(status, 200, JSON.stringify(body));
    const read = (await node.call('GET', `/api/v1/emails/${body.email.id}`, { key })).body.email;
    const all = read.recipients.map(({ kind, address }: { kind: string; address: string }) => `${kind} ${address}`);
    return [all, read.to, read.cc, read.bcc];
  };
  t.strictSame(await sentTo(['ann@B.test', 'E@d.test']), [
    ['to Ann@b.test', 'bcc e@d.test'],
    'Ann <Ann@b.test>',
    [],
    ['e@d.test'],
  ]);
  t.strictSame(await sentTo('c@d.test'), [['cc c@d.test'], 'c@d.test', ['c@d.test'], []]);
  for (const [named, detail] of [
    [[], 'recipients: must name at least one recipient'],
    [['bob@b.test', 'x@b.test'], 'recipients[1]: is not a recipient of this email'],
    [['x@b.test', 'bob@b.test'], 'recipients[0]: is not a recipient of this email'],
    [['bob'], /^recipients\[0\]: not an email address/],
    [7, 'recipients: must be a string or an array of strings'],
  ] as const)
    t.match(await resend(named), { status: 400, body: { error: 'invalid request', detail } });
  const long = `${'ü'.repeat(900)} <bob@b.test>`;
  t.equal((await resend(Array(100).fill(long))).status, 200, 'a hundred, with long names');
  const once = { 'Idempotency-Key': 'some' };
  t.equal((await resend(['bob@b.test'], once)).status, 200);
  t.equal((await resend(['c@d.test'], once)).status, 409, 'with other recipients it is another call');
});

t.test(
  'two resends of an account are under way at once, and three of all: each holds its files in memory',
  async (t) => {
    const own = await startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api' });
    const mailers = [await startMailer('api', own), await startMailer('api', own)];
    const ids = await Promise.all(mailers.map(async ({ send }) => (await send({})).body.email.id as string));
    const resends = (mailer: 0 | 1, times: number) =>
      Array.from({ length: times }, () =>
        own.call('POST', `/api/v1/emails/${ids[mailer]}/resend`, { key: mailers[mailer]?.key ?? '' }),
      );
    const reading = async () => {
      const [row] = await own.db.query<{ n: number }>({
        // Not whatever waits for the table: the node's chores may look at it too.
        text: `SELECT count(*)::int AS n FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM email_contents c WHERE c.email_id = $1'`,
      });
      return row?.n ?? 0;
    };
    const under = await own.db.transaction(async (tx) => {
      await tx.query({ text: 'LOCK TABLE email_contents' });
      const first = resends(0, 5);
      await eventually(async () => (await reading()) >= 2);
      // Those that came later would have begun by the time that this is answered.
      await own.call('GET', `/api/v1/emails/${ids[0]}`, { key: mailers[0]?.key ?? '' });
      t.equal(await reading(), 2);
      const second = resends(1, 3);
      await eventually(async () => (await reading()) >= 3);
      await own.call('GET', `/api/v1/emails/${ids[1]}`, { key: mailers[1]?.key ?? '' });
      t.equal(await reading(), 3);
      return [...first, ...second];
    });
    for (const { status } of await Promise.all(under)) t.equal(status, 200);
  },
);

t.test('a user sends, moves and cancels as a key does', async (t) => {
  const { node, account, fields } = await startMailer();
  const login = { body: { email: account.email, password: account.password } };
  const { token } = (await node.call('POST', '/api/v1/auth/login', login)).body;
  const scheduled = { ...fields, scheduled_at: new Date(Date.now() + 3_600_000).toISOString() };
  const { email } = (await node.call('POST', '/api/v1/emails', { token, body: scheduled })).body;
  const later = { scheduled_at: new Date(Date.now() + 7_200_000).toISOString() };
  t.match((await node.call('PATCH', `/api/v1/emails/${email.id}`, { token, body: later })).body.email, later);
  t.match((await node.call('DELETE', `/api/v1/emails/${email.id}`, { token })).body.email, { status: 'canceled' });
  t.match((await node.call('GET', `/api/v1/emails/${email.id}`, { token })).body.email.recipients, { length: 1 });
});
