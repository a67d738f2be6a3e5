import t from 'tap';
import { addUp } from '../../src/core/log/email-counts.ts';
import { buildSender } from '../support/build.ts';
import { startHook } from '../support/hook.ts';
import { testKey } from '../support/keys.ts';
import { type CallOptions, eventually, startTestNode, type TestNode } from '../support/node.ts';
import { freePort } from '../support/ports.ts';

const encryptionKey = testKey(9);
/** Its mail is accepted, and reported as spam a second later. */
const person = 'complained+canary@customers.test';
const spellings = [person, 'Complained+Canary@Customers.test', 'COMPLAINED+CANARY@customers.test'];
const at = (ms: number) => new Date(Date.now() + ms).toISOString();

/** All rows of the database, in any table, with one of these texts in any column, in any case or as bytes. */
async function rowsWith({ db }: TestNode, ...texts: string[]): Promise<{ table: string; row: string }[]> {
  const tables = await db.query<{ name: string }>({
    text: `SELECT oid::regclass::text AS name FROM pg_class
            WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'pgboss')`,
  });
  const patterns = texts.flatMap((text) => [text.toLowerCase(), Buffer.from(text).toString('hex')]);
  const found = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await db.query<{ row: string }>({
        text: `SELECT r::text AS row FROM ${name} r WHERE EXISTS (SELECT FROM unnest($1::text[]) p WHERE strpos(lower(r::text), p) > 0)`,
        values: [patterns],
      });
      return rows.map(({ row }) => ({ table: name.replace(/_\d{8}$/, ''), row }));
    }),
  );
  return found.flat();
}

t.test("nothing of an erased recipient is left in any table, and other recipients' data is", async (t) => {
  const hook = await startHook(t, ({ body }) => ({ status: 200, body }));
  const node = await startTestNode(t, {
    ENCRYPTION_KEY: encryptionKey.toString('hex'),
    ALLOW_PRIVATE_NETWORKS: 'true',
    INBOUND_SMTP_PORT: String(await freePort()),
  });
  const ours = await buildSender(node.db, encryptionKey);
  const theirs = await buildSender(node.db, encryptionKey);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: ours.account })).body;
  const call = (method: string, path: string, options: CallOptions = {}) =>
    node.call(method, `/api/v1${path}`, { key: ours.key, ...options });
  const events = ['email.queued', 'email.sent', 'email.delivered', 'email.complained'];
  await node.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events } });

  const send = async (fields: object, options: CallOptions = {}) => {
    const body = { from: ours.from, subject: 's', text: 't', ...fields };
    const answer = await call('POST', '/emails', { body, ...options });
    t.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.email.id as string;
  };
  const files = (text: string, filename = 'a.txt') => [{ filename, content: Buffer.from(text).toString('base64') }];
  const secrets = ['secret subject 7731', 'secret text 7731', 'secret file 7731', 'secret later 7731'];
  const [subject, text, file, later] = secrets as [string, string, string, string];
  const alone = await send(
    { to: `Ann <${spellings[1]}>`, subject, text, attachments: files(file), tags: [`for-${person}`, 'kept'] },
    { headers: { 'Idempotency-Key': 'plain' } },
  );
  const joint = await send({
    to: [`"Canary, Ann" <${spellings[2]}>`, 'bob@customers.test'],
    reply_to: person,
    subject: `For ${person} and Bob`,
    html: `<a href="https://x.test/?e=${encodeURIComponent(person)}">joint text 5521</a> &lt;${spellings[1]}&gt;`,
    text: `joint text 5521 for ${person}`,
    headers: { 'X-For': `<${person}>` },
    attachments: files('joint file 5521', `${spellings[1]}.txt`).map((one) => ({
      ...one,
      content_type: `text/plain; name="${person}.txt"`,
    })),
  });
  const blind = await send(
    { to: 'bob@customers.test', bcc: person, text: 'joint text 5521' },
    { headers: { 'Idempotency-Key': `for-${person}` } },
  );
  const scheduled = await send({ to: person, text: later, scheduled_at: at(3_600_000) });
  const both = await send({ to: [`Ann <${person}>`, 'bob@customers.test'], scheduled_at: at(3_600_000) });
  const bobs = await send({ to: 'bob@customers.test', text: 'of Bob alone', attachments: files('joint file 5521') });
  const foreign = (
    await node.call('POST', '/api/v1/emails', {
      key: theirs.key,
      headers: { 'Idempotency-Key': 'theirs' },
      body: { from: theirs.from, to: person, subject: 'their subject', text },
    })
  ).body.email.id as string;

  await eventually(async () => {
    const { deliveries, count } = (await call('GET', '/webhook-deliveries?limit=100', { token })).body;
    const complaints = await node.db.prisma.return.count();
    const over = deliveries.every(({ status }: { status: string }) => status === 'succeeded');
    // Six were queued, six copies and four emails delivered, and one reported as spam; theirs as well, which identifies
    // nobody.
    return complaints === 2 && over && count === 17;
  });
  // What the triggers counted is added up now and then, which is no change.
  await eventually(async () => {
    await addUp(node.db);
    return (await node.db.query({ text: 'SELECT FROM email_count_changes LIMIT 1' })).length === 0;
  });
  const tablesBefore = new Set((await rowsWith(node, ...spellings)).map(({ table }) => table));
  t.strictSame(
    [...tablesBefore].sort(),
    [
      'attempts',
      'email_contents',
      'email_counts',
      'emails',
      'idempotency_keys',
      'recipients',
      'returns',
      'sandbox_messages',
      'suppressions',
      'webhook_deliveries',
    ],
    'it is everywhere before',
  );
  const ofOthers = async () => (await rowsWith(node, bobs, foreign, theirs.account.id)).map(({ row }) => row).sort();
  const before = await ofOthers();
  const stats = async () => (await call('GET', '/stats?group_by=destination')).body.buckets;
  const statsBefore = await stats();

  const asked = await call('POST', '/recipients/erase', { body: { address: `Ann <${spellings[1]}>` } });
  t.match(asked.body.erasure, {
    status: 'pending',
    suppression: 'keep',
    done_at: null,
    address_hash: /^[0-9a-f]{64}$/,
  });
  const { id } = asked.body.erasure;
  const done = await eventually(async () => {
    const { erasure } = (await call('GET', `/recipients/erasures/${id}`)).body;
    return erasure.status === 'done' && erasure;
  });
  t.match(done.counts, {
    emails: 5,
    contents: 2,
    attachments: 1,
    recipients: 5,
    canceled: 2,
    attempts: 4,
    returns: 1,
    idempotency_keys: 2,
    suppressions: 0,
  });
  t.ok(done.counts.webhook_deliveries >= 10 && done.counts.sandbox_messages >= 3, JSON.stringify(done.counts));

  const left = (await rowsWith(node, ...spellings, encodeURIComponent(person), ...secrets)).filter(
    // Other accounts' mail to the same address is not touched.
    ({ row }) => !row.includes(theirs.account.id) && !row.includes(foreign),
  );
  t.strictSame(
    left.map(({ table, row }) => [table, row.includes(`${ours.account.id},${person},complaint,,`)]),
    [['suppressions', true]],
    'and nowhere afterwards, except where it blocks mail',
  );
  t.strictSame(await ofOthers(), before);
  t.strictSame(await stats(), [{ ...statsBefore[0], pending: 1 }]);

  const shown = async (emailId: string) => (await call('GET', `/emails/${emailId}`)).body.email;
  t.match(await shown(alone), { to: 'erased-1', subject: '', status: 'sent', tags: ['for-erased', 'kept'] });
  const calls = await node.db.prisma.webhookDelivery.findMany({ where: { emailId: alone } });
  t.ok(calls.length >= 3);
  for (const { payload } of calls) t.strictSame(JSON.parse(payload).data.tags, ['for-erased', 'kept']);
  t.match(await shown(alone), { recipients: [{ address: 'erased-1', status: 'delivered', attempts: 1 }] });
  t.match(await shown(alone), { returns: [{ recipient: 'erased-1', kind: 'complaint', diagnostic: null }] });
  t.match(await shown(joint), { to: 'erased-1', reply_to: ['erased-1'], subject: 'For erased-1 and Bob' });
  t.match(await shown(joint), { recipients: [{ address: 'erased-1' }, { address: 'bob@customers.test' }] });
  t.match(await shown(blind), { bcc: ['erased-2'], status: 'sent' });
  t.match(await shown(scheduled), { status: 'canceled', recipients: [{ status: 'canceled', next_attempt_at: null }] });
  const content = async (emailId: string) => (await call('GET', `/emails/${emailId}/content`)).body;
  t.match(await content(joint), {
    text: `joint text 5521 for erased-1`,
    html: '<a href="https://x.test/?e=erased-1">joint text 5521</a> &lt;erased-1&gt;',
    headers: [{ name: 'X-For', value: '<erased-1>' }],
    attachments: [{ filename: 'erased-1.txt', content_type: 'text/plain; name="erased-1.txt"', size: 15 }],
  });
  t.strictSame(await content(alone), {
    error: 'gone',
    detail: 'the content was erased, with the data of its recipient',
  });
  t.equal((await call('POST', `/emails/${joint}/resend`)).status, 409);
  t.equal((await call('POST', `/emails/${alone}/resend`)).status, 410);
  const said = (await call('GET', `/emails/${joint}/attempts`)).body.attempts[0].conversation;
  t.match(JSON.stringify(said), /RCPT TO:<erased-1>.*RCPT TO:<bob@customers.test>/);
  for (const [query, count] of [
    [`to=${encodeURIComponent(person)}`, 0],
    [`tag=${encodeURIComponent(`for-${person}`)}`, 0],
    ['tag=for-erased', 1],
    ['tag=kept', 1],
    ['status=canceled', 1],
    ['to=bob@customers.test', 4],
  ])
    t.match((await call('GET', `/emails?${query}`)).body, { count, emails: { length: count } }, String(query));
  const replayed = await call('POST', '/emails', {
    headers: { 'Idempotency-Key': 'plain' },
    body: {
      from: ours.from,
      to: `Ann <${spellings[1]}>`,
      subject,
      text,
      attachments: files(file),
      tags: [`for-${person}`, 'kept'],
    },
  });
  t.match(
    [replayed.headers.get('idempotent-replayed'), replayed.body.email],
    ['true', { id: alone, to: 'erased', subject: '' }],
  );

  t.test('mail that still waits for others reaches them, without a trace of the erased recipient', async (t) => {
    await call('PATCH', `/emails/${both}`, { body: { scheduled_at: at(0) } });
    await eventually(async () => (await shown(both)).status === 'sent');
    const { messages } = (await call('GET', '/sandbox/messages', { token })).body;
    const source = messages.find(({ email_id: of }: { email_id: string }) => of === both);
    t.match(source, { rcpt_to: ['bob@customers.test'], raw: /^To: bob@customers\.test\r$/m });
    t.notMatch(source.raw, /erased|canary/i);
  });

  t.test('the suppression lasts until it is erased as well', async (t) => {
    t.match(await shown(await send({ to: person })), { status: 'suppressed' });
    const body = { address: person.toUpperCase(), suppression: 'remove' };
    const again = (await call('POST', '/recipients/erase', { token, body })).body.erasure;
    t.equal(again.address_hash, done.address_hash);
    await eventually(async () => (await call('GET', `/recipients/erasures/${again.id}`)).body.erasure.done_at);
    t.strictSame(
      (await rowsWith(node, ...spellings)).filter(
        ({ row }) => !row.includes(theirs.account.id) && !row.includes(foreign),
      ),
      [],
    );
    const { erasures, count } = (await call('GET', `/recipients/erasures?address=${encodeURIComponent(person)}`)).body;
    t.match([count, erasures], [2, [{ id: again.id, counts: { suppressions: 1, emails: 1 } }, { id }]]);
    t.equal((await call('GET', '/recipients/erasures?address=bob@customers.test')).body.count, 0);
    t.equal((await node.call('GET', `/api/v1/recipients/erasures/${id}`, { key: theirs.key })).status, 404);
  });
});

t.test(
  'an erasure is not done before the statistics stop naming the address, even while another node adds them up',
  async (t) => {
    const node = await startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex') });
    const { key, from } = await buildSender(node.db, encryptionKey);
    const call = (method: string, path: string, body?: unknown) => node.call(method, `/api/v1${path}`, { key, body });
    const address = 'canary@customers.test';
    const fields = { from, to: address, subject: 's', text: 't', tags: [`for-${address}`] };
    t.equal((await call('POST', '/emails', fields)).status, 200);
    const counted = async () => (await rowsWith(node, address)).some(({ table }) => table === 'email_counts');
    await eventually(async () => (await node.db.prisma.email.count({ where: { status: 'sent' } })) === 1);
    await eventually(async () => addUp(node.db).then(counted));

    const other = Promise.withResolvers<void>();
    const adding = node.db.transaction(async (tx) => {
      await tx.query({ text: `SELECT pg_advisory_xact_lock(hashtext('sendwright email counts'))` });
      await other.promise;
    });
    const { id } = (await call('POST', '/recipients/erase', { address })).body.erasure;
    const status = async () => (await call('GET', `/recipients/erasures/${id}`)).body.erasure.status;
    const waits = async () => {
      const locks = {
        text: `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      };
      return (await node.db.query(locks)).length > 0;
    };
    await eventually(async () => (await waits()) || (await status()) === 'done');
    t.strictSame([await status(), await counted()], ['pending', true]);
    other.resolve();
    await adding;
    await eventually(async () => (await status()) === 'done');
    t.notOk(await counted());
  },
);
