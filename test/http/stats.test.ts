import t from 'tap';
import { newId } from '../../src/ids.ts';
import { buildSender } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { dayLasting } from '../support/midnight.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { startMailer } from './scene.ts';

t.test('statistics', async (t) => {
  await dayLasting(60_000);
  const sink = await startSink({
    onRecipient: (address) => {
      if (address.startsWith('gone')) return '550 5.1.1 no such user';
      if (address.startsWith('busy')) return '451 4.3.2 later';
      return null;
    },
  });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: { 'r.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { RETRY_SCHEDULE: '1h' },
  });
  const stats = (query: string, key = node.key) => node.call('GET', `/api/v1/stats?${query}`, { key });
  t.match((await stats('')).body, { interval: 'day', group_by: null, buckets: [] });

  const first = await node.send({ to: ['a@r.test', 'gone@r.test'], tags: ['one', 'two', 'one'] });
  const second = await node.send({ to: 'b@r.test', tags: ['one'], type: 'marketing' });
  await node.send({ to: 'busy@r.test' });
  await eventually(async () => {
    const [today] = (await stats('')).body.buckets;
    return today?.deferrals === 1 && today.delivered === 2 && today.failed === 1;
  });
  await node.send({ to: 'gone@r.test' });
  const stranger = await buildSender(node.db, testKey(7));
  const theirs = await node.call('POST', '/api/v1/emails', {
    key: stranger.key,
    body: { from: stranger.from, to: 'c@r.test', subject: 's', text: 't' },
  });
  // What became of the mail of others to the same address does not count.
  await node.db.query({
    text: `INSERT INTO attempts (id, email_id, recipient, number, at, duration_ms, outcome, phase, reason, classification)
           VALUES ($1, $2, 'gone@r.test', 9, now(), 1, 'bounced', 'rcpt', 'refused', 'spam')`,
    values: [newId(), theirs.body.email.id],
  });

  await node.db.prisma.return.createMany({
    data: [
      { accountId: node.account.id, emailId: first.id, recipient: 'a@r.test', kind: 'complaint' },
      { accountId: node.account.id, emailId: second.id, recipient: 'b@r.test', kind: 'bounce' },
    ],
  });
  await node.db.query({
    text: `UPDATE recipients SET settled_at = now() + interval '1 day' WHERE address = 'gone@r.test' AND status = 'failed'`,
  });

  const { body } = await stats('');
  t.equal(body.buckets.length, 1);
  const today = `${new Date().toISOString().slice(0, 10)}T00:00:00.000Z`;
  t.match(body.buckets[0], {
    start: today,
    group: null,
    accepted: 4,
    suppressed: 1,
    complaints: 1,
    delivered: 2,
    pending: 1,
    failed: 1,
    failed_by_class: { bad_mailbox: 1 },
    deferrals: 1,
    latency_ms: { p50: Number, p95: Number, p99: Number },
  });
  t.ok(body.buckets[0].latency_ms.p99 < 60_000, 'of what was delivered');

  const groups = async (by: string) =>
    (await stats(`group_by=${by}`)).body.buckets.map(
      (bucket: { group: string; accepted: number; delivered: number }) => [
        bucket.group,
        bucket.accepted,
        bucket.delivered,
      ],
    );
  t.same(await groups('tag'), [
    ['one', 2, 2],
    ['two', 1, 1],
  ]);
  // Of more groups than are listed, those with the fewest emails are left out, whatever their names.
  await node.db.query({
    text: `UPDATE emails SET tags = tags || ARRAY(SELECT 'a' || n FROM generate_series(1, 1000) n) WHERE id = $1`,
    values: [first.id],
  });
  const listed = await groups('tag');
  t.same([listed.length, listed.at(-1)], [1_000, ['one', 2, 2]]);
  t.notOk(listed.some(([name]: [string]) => name === 'two'));
  t.equal((await stats('group_by=tag')).body.group_count, 1_002);
  t.same(await groups('type'), [
    ['marketing', 1, 1],
    ['transactional', 3, 1],
  ]);
  t.same(await groups('domain'), [[node.domain, 4, 2]]);

  // A recipient that is given up counts in the class of its last attempt.
  await node.db.query({
    text: `UPDATE recipients SET status = 'failed', next_attempt_at = NULL WHERE address = 'busy@r.test'`,
  });
  const [bucket] = (await stats('')).body.buckets;
  t.match(bucket, { failed: 2, pending: 0, failed_by_class: { bad_mailbox: 1 } });
  t.equal(
    Object.values<number>(bucket.failed_by_class).reduce((sum, n) => sum + n, 0),
    bucket.failed,
  );
  const rangeOf = ({ from, to }: { from: string; to: string }) => Date.parse(to) - Date.parse(from);
  t.equal(rangeOf((await stats('')).body), 30 * 86_400_000);
  const { buckets: hours, ...lastDay } = (await stats('interval=hour')).body;
  t.equal(rangeOf(lastDay), 86_400_000);
  for (const { start } of hours) t.match(start, /:00:00\.000Z$/);
  // Two if an hour begins just now.
  t.ok(hours.length <= 2);
  t.equal(
    hours.reduce((sum: number, { accepted }: { accepted: number }) => sum + accepted, 0),
    4,
  );
  t.same((await stats('from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z')).body.buckets, []);
  const nothing = (await stats('group_by=tag&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z')).body;
  t.match(nothing, { buckets: [], group_count: 0 });
  const token = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body.token;
  t.equal((await node.call('GET', '/api/v1/stats', { token })).body.buckets[0].accepted, 4, 'a login sees them too');
  t.equal((await node.call('GET', '/api/v1/stats')).status, 401);

  for (const [query, detail] of [
    ['interval=week', /^interval: must be one of hour, day/],
    ['group_by=subject', /^group_by: must be one of/],
    ['from=now', /^from: must be an RFC 3339/],
    ['from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', /^from: must be before to/],
    ['from=2026-01-01T00:00:00Z&to=2026-06-01T00:00:00Z', /^from: must be at most 92 days before to/],
    ['interval=hour&from=2026-01-01T00:00:00Z&to=2026-01-09T00:00:00Z', /^from: must be at most 7 days before to/],
  ] as const) {
    t.match(await stats(query), { status: 400, body: { error: 'invalid request', detail } }, query);
  }
});

t.test('by destination each email counts where its recipients are, and only with those', async (t) => {
  await dayLasting(60_000);
  const { node, key, send } = await startMailer();
  const { id } = (await send({ to: ['a@one.test', 'b@one.test'], cc: ['c@two.test'] })).body.email;
  await send({ to: ['d@two.test'] });
  await node.db.query({
    text: `UPDATE recipients SET status = CASE destination WHEN 'two.test' THEN 'failed' ELSE 'delivered' END::recipient_status,
                  settled_at = now(), next_attempt_at = NULL WHERE email_id = $1`,
    values: [id],
  });
  const { buckets } = (await node.call('GET', '/api/v1/stats?group_by=destination', { key })).body;
  t.match(buckets, [
    { group: 'one.test', accepted: 1, delivered: 2, failed: 0, pending: 0, failed_by_class: {} },
    { group: 'two.test', accepted: 2, delivered: 0, failed: 1, pending: 1, failed_by_class: { other: 1 } },
  ]);
  t.equal(buckets.length, 2);

  // By provider, what one provider runs is together, and what no known provider runs stays by itself.
  for (const [recipient, host, number, ago, classification] of [
    ['a@one.test', 'alt1.aspmx.l.google.com', 1, '0 s', null],
    // Of two hosts that were tried the last one says why it failed, in the last attempt.
    ['c@two.test', 'aspmx.l.google.com', 1, '2 s', 'connection'],
    ['c@two.test', 'aspmx.l.google.com', 2, '1 s', 'greylisted'],
    ['c@two.test', 'alt1.aspmx.l.google.com', 2, '0 s', 'policy'],
  ])
    await node.db.query({
      text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, phase, outcome, reason, classification)
             VALUES ($1, gen_random_uuid(), $2, $6, now() - $4::interval, 1, $3, 'dot', 'deferred', 'later', $5)`,
      values: [id, recipient, host, ago, classification, number],
    });
  await send({ to: ['e@three.test'] });
  await send({ to: ['f@four.test'] });
  const byProvider = (await node.call('GET', '/api/v1/stats?group_by=provider', { key })).body.buckets;
  t.match(byProvider, [
    { group: 'Google', accepted: 2, delivered: 2, failed: 1, pending: 1, deferrals: 4, failed_by_class: { policy: 1 } },
    { group: 'four.test', accepted: 1, pending: 1 },
    { group: 'three.test', accepted: 1, pending: 1 },
  ]);
  t.equal(byProvider.length, 3);
});

t.test('the figures of a destination and of a provider are those of its recipients, erased or not', async (t) => {
  await dayLasting(60_000);
  const { node, account, key, send } = await startMailer();
  // Several: what replaces the address is the same in all.
  const ids: string[] = [];
  for (const _ of [1, 2, 3]) ids.push((await send({ to: ['ann@one.test', 'bob@two.test'] })).body.email.id);
  const [complained, suppressed] = ids;
  await node.db.query({
    text: `UPDATE recipients SET status = CASE WHEN email_id = $2 AND address = 'bob@two.test' THEN 'suppressed' ELSE 'failed' END::recipient_status,
                  settled_at = now(), next_attempt_at = NULL, job_id = NULL WHERE email_id = ANY($1)`,
    values: [ids, suppressed],
  });
  await node.db.query({
    text: `UPDATE emails SET status = 'failed', pending = 0, failed = CASE id WHEN $2 THEN 1 ELSE 2 END, suppressed = CASE id WHEN $2 THEN 1 ELSE 0 END
            WHERE id = ANY($1)`,
    values: [ids, suppressed],
  });
  await node.db.query({
    text: `INSERT INTO returns (account_id, email_id, recipient, kind) VALUES ($1, $2, 'ann@one.test', 'complaint')`,
    values: [account.id, complained],
  });
  for (const [recipient, host] of [
    ['ann@one.test', 'aspmx.l.google.com'],
    ['bob@two.test', 'mx.two.test'],
  ])
    await node.db.query({
      text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, phase, outcome, reason)
             VALUES ($1, gen_random_uuid(), $2, 1, now(), 1, $3, 'dot', 'deferred', 'later')`,
      values: [complained, recipient, host],
    });
  const figures = async () => {
    const of = async (by: string) => (await node.call('GET', `/api/v1/stats?group_by=${by}`, { key })).body.buckets;
    return { destination: await of('destination'), provider: await of('provider') };
  };
  const before = await figures();
  t.match(before, {
    destination: [
      { group: 'one.test', accepted: 3, suppressed: 0, complaints: 1, failed: 3, deferrals: 1 },
      { group: 'two.test', accepted: 3, suppressed: 1, complaints: 0, failed: 2, deferrals: 1 },
    ],
    provider: [
      { group: 'Google', accepted: 3, suppressed: 0, complaints: 1, failed: 3, deferrals: 1 },
      { group: 'two.test', accepted: 3, suppressed: 1, complaints: 0, failed: 2, deferrals: 1 },
    ],
  });
  const body = { address: 'ann@one.test' };
  const { erasure } = (await node.call('POST', '/api/v1/recipients/erase', { key, body })).body;
  await eventually(async () => {
    const { status } = (await node.call('GET', `/api/v1/recipients/erasures/${erasure.id}`, { key })).body.erasure;
    return status === 'done';
  });
  t.strictSame(await figures(), before);
});
