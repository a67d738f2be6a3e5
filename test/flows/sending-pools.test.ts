import t, { type Test } from 'tap';
import { directEnv, startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { dayLasting } from '../support/midnight.ts';
import { longPauses, type Sink, startSink } from '../support/mx.ts';
import { eventually, startTestNode, type TestNode } from '../support/node.ts';

type Node = Awaited<ReturnType<typeof startDirectNode>>;

const dayFromNow = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
const from = (sink: Sink) => sink.messages.map(({ client }) => client);
const many = (node: Node, count: number, fields: object = {}): Promise<{ id: string }[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => node.send({ to: `r${n}@pools.test`, ...fields })));

async function start(t: Test, env: Record<string, string>) {
  const sink = await startSink({ host: '127.0.0.2' });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'pools.test': { A: ['127.0.0.2'] } }, mxPort: sink.port, env });
  const login = async (body: object) => (await node.call('POST', '/api/v1/auth/login', { body })).body.token;
  const token = await login(node.account);
  const operator = await login({ email: 'admin@example.test', password: node.adminPassword });
  const use = (pool: unknown) => node.call('PATCH', `/api/v1/domains/${node.domainId}`, { token, body: { pool } });
  const explain = async (id: string) =>
    (await node.call('GET', `/api/v1/emails/${id}/explain`, { key: node.key })).body;
  const destinations = async () => (await node.call('GET', '/api/v1/admin/destinations', { token: operator })).body;
  return { sink, node, use, explain, destinations };
}

const waiting = async (node: TestNode, pool: string) =>
  node.db.query<{ email_id: string; waiting_for: string }>({
    text: `SELECT email_id, waiting_for FROM recipients WHERE job_id IS NULL AND waiting_for LIKE $1`,
    values: [`warm-up of pool ${pool}:%`],
  });

const environment = () => ({
  SENDING_IPS: '127.0.0.1,marketing=127.0.0.6,bulk=127.0.0.7,dual=127.0.0.8,dual=::1',
  EHLO_NAMES: '127.0.0.6=marketing.sender.test',
  WARM_UP: `127.0.0.7=${dayFromNow(0)},127.0.0.8=${dayFromNow(9)}`,
  WARM_UP_PLAN: '5,20',
  RETRY_SCHEDULE: '1h',
});

t.test('pools and warm-up', async (t) => {
  await dayLasting(120_000);
  const env = environment();
  const { sink, node, use, explain, destinations } = await start(t, env);
  const sent = async (count: number) => {
    await eventually(async () => sink.messages.length === count);
    return from(sink).at(-1);
  };

  await t.test('a domain or type of mail has its own pool, and pools do not share connections', async (t) => {
    const attempts = async (id: string) =>
      (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body.attempts;
    const attemptOf = ({ id }: { id: string }) => eventually(async () => (await attempts(id))[0]);
    const said = async (email: { id: string }): Promise<string[]> =>
      (await attemptOf(email)).conversation.map(({ text }: { text: string }) => text);
    const first = await node.send({ to: 'a@pools.test' });
    t.equal(await sent(1), '127.0.0.1');
    t.ok((await said(first)).includes('EHLO out.sender.test'));
    const other = await node.send({ to: 'a@pools.test', type: 'marketing' });
    t.equal(await sent(2), '127.0.0.6');
    t.ok((await said(other)).includes('EHLO marketing.sender.test'), 'each address says its own name');
    await node.send({ to: 'a@pools.test' });
    t.equal(await sent(3), '127.0.0.1');
    await node.send({ to: 'a@pools.test', type: 'marketing' });
    t.equal(await sent(4), '127.0.0.6');
    // A slow machine may leave one idle for too long.
    const fewest = () =>
      [...Map.groupBy(sink.messages, ({ client }) => client).values()].reduce(
        (sum, messages) => sum + 1 + longPauses(messages),
        0,
      );
    t.ok(sink.connections <= fewest(), 'each returned to a connection of its own pool');
    t.match(await use('marketing'), { status: 200, body: { domain: { pool: 'marketing', tls: 'opportunistic' } } });
    const last = await node.send({ to: 'a@pools.test' });
    t.equal(await sent(5), '127.0.0.6');
    t.match(await attemptOf(last), { local_address: '127.0.0.6' });
    t.ok((await said(last)).includes('pool marketing: from 127.0.0.6'));
    t.ok(sink.connections <= fewest(), `${sink.connections} connections`);
  });

  await t.test('an unknown pool is refused, and a pool that was removed is ignored', async (t) => {
    for (const [pool, detail] of [
      ['gone', 'pool: gone is not configured on this node; configured pools: default, marketing, bulk, dual'],
      ['Bulk', 'pool: must have 1 to 32 characters: a-z, 0-9 and -'],
      [7, 'pool: must be a string or null'],
    ])
      t.match(await use(pool), { status: 400, body: { error: 'invalid request', detail } });
    await node.db.prisma.domain.update({ where: { id: node.domainId }, data: { pool: 'gone' } });
    const notes = ['The pool gone of the domain is not configured on this node.'];
    const body = { from: node.from, to: 'a@pools.test', subject: 's', text: 't', type: 'marketing' };
    const dry = await node.call('POST', '/api/v1/emails?dry_run=true', { key: node.key, body });
    t.same(dry.body.source, { pool: 'marketing', ips: ['127.0.0.6'], notes });
    await node.send({ to: 'a@pools.test' });
    t.equal(await sent(6), '127.0.0.1');
    t.match(await use(null), { status: 200, body: { domain: { pool: null } } });
  });

  await t.test('mail that only a full address family could deliver waits too, without using up attempts', async (t) => {
    await use('dual');
    const { id } = await node.send({ to: 'a@pools.test' });
    const [recipient] = await eventually(async () => {
      const { recipients } = await explain(id);
      return recipients[0].cause === 'held_back' && recipients;
    });
    t.match(recipient, { attempts: 0, sentence: new RegExp(`127\\.0\\.0\\.8 begins on ${dayFromNow(9)}`) });
    // It may not wait beyond its time limit.
    t.equal(recipient.next_attempt_at, recipient.gives_up_at);
    t.equal(sink.messages.length, 6);
    await use(null);
    t.equal(await sent(7), '127.0.0.1', 'another pool releases it at once');

    await use('dual');
    const late = await node.send({ to: 'a@pools.test' });
    await eventually(async () => (await explain(late.id)).recipients[0].cause === 'held_back');
    await node.db.query({
      text: `UPDATE emails SET created_at = now() - interval '4 days' WHERE id = $1`,
      values: [late.id],
    });
    await node.db.query({
      text: 'UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE email_id = $1',
      values: [late.id],
    });
    const given = await eventually(async () => {
      const email = await node.read(late.id);
      return email.status === 'failed' && email;
    });
    t.match(given.error, /^given up after 72 hours; the last answer was: /);
    t.equal(sink.messages.length, 7, 'at its end it fails, and is not put off again');
    await use(null);
  });

  await t.test('each copy of marketing mail counts as a message', async (t) => {
    await use('bulk');
    await node.send({ to: ['a@pools.test', 'b@pools.test'], type: 'marketing' });
    t.equal(await sent(9), '127.0.0.7');
    t.match(await node.db.query({ text: 'SELECT messages FROM warm_up_days' }), [{ messages: 2 }]);
  });

  await t.test("the first day's cap is sent, and the other emails say what they wait for", async (t) => {
    const emails = await many(node, 10);
    await eventually(async () => (await waiting(node, 'bulk')).length === 7);
    await eventually(async () => (await node.db.prisma.email.count({ where: { status: 'sent' } })) === 11);
    t.equal(sink.messages.length, 12);
    t.same(from(sink).slice(7), Array(5).fill('127.0.0.7'));
    const waits = await waiting(node, 'bulk');
    const reason = `warm-up of pool bulk: 127.0.0.7 has had 5 of the 5 messages of day 1; more on ${dayFromNow(1)} (UTC)`;
    t.same(new Set(waits.map((row) => row.waiting_for)), new Set([reason]));
    const [one] = waits;
    const { source, recipients } = await explain(one?.email_id ?? '');
    t.same(source, {
      pool: 'bulk',
      ips: ['127.0.0.7'],
      notes: ['127.0.0.7 is on day 1 of its warm-up: at most 5 messages today.'],
    });
    t.match(recipients, [
      {
        cause: 'held_back',
        status: 'queued',
        attempts: 0,
        last_attempt: null,
        sentence: `Waits without using up an attempt: ${reason}.`,
        advice: /WARM_UP_PLAN/,
      },
    ]);
    const minutes = (Date.parse(recipients[0].next_attempt_at) - Date.parse(`${dayFromNow(1)}T00:00:00Z`)) / 60_000;
    t.ok(minutes > 0 && minutes < 11, `${minutes} minutes after midnight`);
    const { destinations: sites, sending_ips: addresses } = await eventually(async () => {
      const answer = await destinations();
      return answer.sending_ips.length === 5 && answer;
    });
    t.match(sites, [{ site: 'pools.test', deferred: 7, waiting_for: reason }]);
    t.same(addresses, [
      {
        ip: '127.0.0.7',
        pool: 'bulk',
        warm_up: {
          day: 1,
          cap: 5,
          sent_today: 5,
          begins_at: `${dayFromNow(0)}T00:00:00.000Z`,
          ends_at: `${dayFromNow(2)}T00:00:00.000Z`,
        },
      },
      { ip: '127.0.0.1', pool: 'default', warm_up: null },
      { ip: '127.0.0.8', pool: 'dual', warm_up: addresses[2].warm_up },
      { ip: '::1', pool: 'dual', warm_up: null },
      { ip: '127.0.0.6', pool: 'marketing', warm_up: null },
    ]);
    t.match(addresses[2].warm_up, { day: 0, cap: 0, sent_today: 0, begins_at: `${dayFromNow(9)}T00:00:00.000Z` });
    const left = emails.find(({ id }) => !waits.some((row) => row.email_id === id));
    const { body } = await node.call('GET', `/api/v1/emails/${left?.id}/attempts`, { key: node.key });
    t.match(
      body.attempts[0].conversation.map((line: { text: string }) => line.text).join('\n'),
      /pool bulk: from 127\.0\.0\.7, day 1 of its warm-up, message [345] of 5 today/,
    );
    // It is known to be full now: it is put back without being read.
    const statements: (string | undefined)[] = [];
    const query = node.db.query.bind(node.db);
    node.db.query = (statement) => {
      statements.push(statement.name);
      return query(statement);
    };
    const { id } = await node.send({ to: 'late@pools.test' });
    await eventually(async () => (await explain(id)).recipients[0].cause === 'held_back');
    t.ok(statements.includes('outgoing-streams'));
    t.notOk(statements.includes('outgoing-load'));
    t.equal(sink.messages.length, 12);
  });

  await t.test("the next day two nodes send exactly that day's plan", async (t) => {
    await many(node, 30);
    await eventually(async () => (await waiting(node, 'bulk')).length === 38);
    await node.stop();
    const next = {
      ...directEnv(node.zone, sink.port),
      ...env,
      DATABASE_URL: node.databaseUrl,
      ENCRYPTION_KEY: testKey(7).toString('hex'),
      WARM_UP: `127.0.0.7=${dayFromNow(-1)},127.0.0.8=${dayFromNow(9)}`,
    };
    const both = await Promise.all([startTestNode(t, next), startTestNode(t, next)]);
    const { db } = both[0];
    const [late] = await waiting(both[0], 'bulk');
    // The night is over, and so is the time limit of one of them.
    await db.query({ text: `UPDATE warm_up_days SET day = day - 1` });
    await db.query({
      text: `UPDATE emails SET created_at = now() - interval '4 days' WHERE id = $1`,
      values: [late?.email_id],
    });
    await db.query({
      text: `UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE waiting_for IS NOT NULL AND email_id <> $1`,
      values: [late?.email_id],
    });
    await eventually(async () => (await waiting(both[0], 'bulk')).length === 18);
    await eventually(async () => (await db.prisma.email.count({ where: { status: 'sent' } })) === 31);
    t.equal(sink.messages.length, 32);
    t.match(await db.query({ text: 'SELECT day::text, messages FROM warm_up_days ORDER BY day DESC LIMIT 1' }), [
      { day: dayFromNow(0), messages: 20 },
    ]);

    await db.query({
      text: 'UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE waiting_for IS NOT NULL',
    });
    const over = await eventually(() =>
      db.prisma.email.findFirst({ where: { id: late?.email_id ?? '', status: 'failed' } }),
    );
    t.match(over.error, /^given up after 72 hours; the last answer was: warm-up of pool bulk: 127\.0\.0\.7 has had 20/);
    await eventually(async () => (await waiting(both[0], 'bulk')).length === 17);
    t.equal(sink.messages.length, 32, 'nor for this one');
  });
});

t.test('a message of a new address that no server was offered can be sent to another', async (t) => {
  await dayLasting(60_000);
  const env = {
    SENDING_IPS: '127.0.0.7',
    WARM_UP: `127.0.0.7=${dayFromNow(0)}`,
    WARM_UP_PLAN: '1,5',
    RETRY_SCHEDULE: '1h',
  };
  const { sink, node } = await start(t, env);
  node.zone.set('gone.test', { A: ['127.0.0.3'] });
  const { id } = await node.send({ to: 'a@gone.test' });
  await eventually(async () => (await node.read(id)).recipients[0].attempts === 1);
  await eventually(async () => {
    const [day] = await node.db.query<{ messages: number }>({ text: 'SELECT messages FROM warm_up_days' });
    return day?.messages === 0;
  });
  await node.send({ to: 'a@pools.test' });
  await eventually(async () => sink.messages.length === 1);
  t.same(from(sink), ['127.0.0.7']);
});
