import { domainToASCII } from 'node:url';
import t from 'tap';
import { list } from '../../src/core/log/email-log.ts';
import type { Database, Sql, Statement } from '../../src/db/client.ts';
import { floorId } from '../../src/ids.ts';
import { buildKey, buildSender, buildVerifiedDomain } from '../support/build.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

t.test('the log is searched and paged', async (t) => {
  const node = await sharedNode('api');
  const { key, domain, from } = await buildSender(node.db, encryptionKey);
  const stranger = await buildSender(node.db, encryptionKey);
  const send = async (fields: object): Promise<string> => {
    const body = { from, to: 'a@b.test', subject: 'subject', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id;
  };
  await node.call('POST', '/api/v1/emails', {
    key: stranger.key,
    body: { from: stranger.from, to: 'ann@b.test', subject: 'red apples', text: 't', tags: ['fruit'] },
  });
  const ids = {
    apples: await send({ subject: 'Red apples & pears', tags: ['fruit', 'red'], to: 'Ann <ANN@b.test>' }),
    pears: await send({ subject: 'Green pears', tags: ['fruit'], cc: 'ann@B.test', from: `Shop <Shop@${domain}>` }),
    news: await send({ subject: 'News', type: 'marketing', bcc: 'ann@b.test' }),
    later: await send({ subject: 'Later', scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }),
  };
  await node.call('DELETE', `/api/v1/emails/${ids.later}`, { key });
  const search = (query: string) => node.call('GET', `/api/v1/emails?${query}`, { key });
  const found = async (query: string) => {
    const { status, body } = await search(query);
    if (status !== 200) throw new Error(JSON.stringify(body));
    t.equal(body.count, body.emails.length, `${query}: all matches are counted`);
    return body.emails.map((email: { id: string }) => Object.entries(ids).find(([, id]) => id === email.id)?.[0]);
  };

  const table: [string, string[]][] = [
    ['', ['later', 'news', 'pears', 'apples']],
    ['status=queued', ['news', 'pears', 'apples']],
    ['status=canceled', ['later']],
    ['status=sent', []],
    ['type=marketing', ['news']],
    ['tag=fruit', ['pears', 'apples']],
    ['tag=red', ['apples']],
    ['tag=re', []],
    [`from=SHOP@${domain}`, ['pears']],
    ['to=ann@b.test', ['news', 'pears', 'apples']],
    // As the log shows them.
    [`from=${encodeURIComponent(`Shop <Shop@${domain}>`)}`, ['pears']],
    [`to=${encodeURIComponent('"Ann, B" <ANN@b.test>')}`, ['news', 'pears', 'apples']],
    ['to=Ann@B.test&tag=fruit', ['pears', 'apples']],
    ['to=nn@b.test', []],
    ['to=ann@b.tes', []],
    [`domain=${domain.toUpperCase()}`, ['later', 'news', 'pears', 'apples']],
    [`domain=${stranger.domain}`, []],
    // For these no counts are kept.
    [`domain=${domain}&q=pears`, ['pears', 'apples']],
    [`domain=${stranger.domain}&q=pears`, []],
    [`domain=${stranger.domain}&to=ann@b.test`, []],
    ['q=pears', ['pears', 'apples']],
    ['q=PEARS%20red', ['apples']],
    ['q=%27%3B%20DROP%20TABLE', []],
    ['q=%26%7C!()', []],
    [`created_after=${new Date(Date.now() - 60_000).toISOString()}`, ['later', 'news', 'pears', 'apples']],
    [`created_before=${new Date(Date.now() - 60_000).toISOString()}`, []],
    // Its plus is not encoded.
    [`created_after=${inBerlin(Date.now() - 60_000)}`, ['later', 'news', 'pears', 'apples']],
    [`created_before=${inBerlin(Date.now() - 60_000)}`, []],
  ];
  for (const [query, names] of table) t.same(await found(query), names, query);

  const pages: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await search(`limit=3${cursor ? `&cursor=${cursor}` : ''}`);
    t.equal(body.count, pages.length === 0 ? 4 : 5);
    pages.push(...body.emails.map((email: { id: string }) => email.id));
    if (pages.length <= 3) await send({ subject: 'comes in between' });
    cursor = body.next_cursor;
    if (pages.length > 10) break;
  }
  t.same(pages.slice(0, 3), [ids.later, ids.news, ids.pears], 'new emails do not move a page');
  t.equal(new Set(pages).size, pages.length);

  for (const [query, detail] of [
    ['status=open', /^status: must be one of/],
    ['type=x', /^type: must be one of/],
    ['tag=', /^tag: must not be empty/],
    ['tag=a%00', /^tag: contains control characters/],
    ['q=a&q=b', /^q: /],
    ['cursor=x', /^cursor: must be the next_cursor/],
    [`cursor=${ids.news}&offset=3`, /^offset: must be omitted, or 0, when there is a cursor/],
    ['created_after=yesterday', /^created_after: must be an RFC 3339/],
  ] as const) {
    t.match(await search(query), { status: 400, body: { error: 'invalid request', detail } }, query);
  }
  t.equal((await search(`cursor=${ids.news}&offset=0`)).status, 200, 'as of a program that sends all parameters');
});

t.test('the log is searched by the key that sent', async (t) => {
  const node = await sharedNode('api');
  const { account, key, from } = await buildSender(node.db, encryptionKey);
  const leaked = await buildKey(node.db, account.id);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  const send = async (credential: object, fields: object = {}): Promise<string> => {
    const body = { from, to: 'a@b.test', subject: 'red apples', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { ...credential, body })).body.email.id;
  };
  const later = { scheduled_at: new Date(Date.now() + 3_600_000).toISOString() };
  const own = await send({ key });
  const spam = [await send({ key: leaked }), await send({ key: leaked }, { tags: ['win'], ...later })];
  const typed = await send({ token });
  const keyOf = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email.api_key_id;
  const [keyId, leakedId] = [await keyOf(own), await keyOf(spam[0] ?? '')];
  t.not(keyId, leakedId);
  t.equal(await keyOf(typed), null, 'a user who was logged in');
  const search = (query: string) => node.call('GET', `/api/v1/emails?${query}`, { key });
  const stranger = await buildSender(node.db, encryptionKey);
  const theirs = await node.call('GET', `/api/v1/emails?api_key_id=${leakedId}`, { key: stranger.key });
  t.match(theirs, { status: 200, body: { count: 0 } }, 'a key of another account');

  const [first, second] = spam;
  const table: [string, (string | undefined)[]][] = [
    [`api_key_id=${keyId}`, [own]],
    [`api_key_id=${leakedId.toUpperCase()}`, [second, first]],
    [`api_key_id=${leakedId}&limit=1&offset=1`, [first]],
    [`api_key_id=${leakedId}&cursor=${second}`, [first]],
    [`api_key_id=${leakedId}&tag=win`, [second]],
    [`api_key_id=${leakedId}&scheduled=true`, [second]],
    [`api_key_id=${leakedId}&to=@b.test`, [second, first]],
    [`api_key_id=${leakedId}&status=queued&q=apples`, [second, first]],
    ['api_key_id=ffffffff-ffff-ffff-ffff-ffffffffffff', []],
  ];
  for (const [query, ids] of table) {
    const { status, body } = await search(query);
    t.equal(status, 200, query);
    t.same(
      body.emails?.map(({ id }: { id: string }) => id),
      ids,
      query,
    );
  }
  t.match((await search(`api_key_id=${leakedId}`)).body, { count: 2, count_exact: true });
  const refused = await search('api_key_id=shop');
  t.match(refused, { status: 400, body: { detail: 'api_key_id: must be the id of an API key' } });
});

/** A time in winter, with its offset. */
const inBerlin = (ms: number) => new Date(ms + 3_600_000).toISOString().replace('Z', '+01:00');

t.test('the log can be searched by a domain in either spelling', async (t) => {
  const node = await sharedNode('api');
  const { account, key } = await buildSender(node.db, encryptionKey);
  // A name of its own: the node is shared, and only one account can hold a domain.
  const domain = `bücher-${account.id}.test`;
  await buildVerifiedDomain(node.db, account.id, encryptionKey, domain);
  const body = { from: `Shop@${domain}`, to: 'Ann@bücher.test', subject: 's', text: 't' };
  t.equal((await node.call('POST', '/api/v1/emails', { key, body })).status, 200);
  const count = async (query: Record<string, string>) =>
    (await node.call('GET', `/api/v1/emails?${new URLSearchParams(query)}`, { key })).body.count;
  const found = [
    { to: 'ann@BÜCHER.test' },
    { to: 'ann@xn--bcher-kva.test' },
    { to: '@Bücher.test' },
    { to: '@xn--bcher-kva.test', status: 'queued' },
    { from: `shop@${domain}` },
    { domain },
    { domain: domain.toUpperCase() },
    { domain: domainToASCII(domain) },
  ];
  for (const query of found) t.equal(await count(query), 1, JSON.stringify(query));
  for (const query of [
    { to: 'ann@bücher' },
    { to: '@cher-kva.test' },
    { to: '@' },
    { to: '@%.test' },
    { from: 'bü' },
    { domain: 'bü' },
    { domain: '@' },
  ])
    t.equal(await count(query), 0, JSON.stringify(query));
});

t.test('stored counts are exact; other searches count up to 10,000, or up to 1,000 for words', async (t) => {
  const node = await sharedNode('api');
  const { account, key, domain, domainId, from } = await buildSender(node.db, encryptionKey);
  const seed = (first: number, last: number) =>
    node.db.query({
      text: `INSERT INTO emails (id, account_id, domain_id, status, type, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending,
                                 failed, suppressed, created_at, from_address, from_domain, recipient_addresses)
             SELECT uuidv7(), $1, $2, 'sent', 'transactional', $3, ARRAY['a@b.test'], '{}', '{}', '{}', 'Order ' || n, ARRAY['shop'], n || '@x', 0,
                    0, 0, now(), $3, $4, ARRAY['a@b.test'] FROM generate_series($5::int, $6::int) n`,
      values: [account.id, domainId, from, domain, first, last],
    });
  const counted = async (query: string) => {
    const { body } = await node.call('GET', `/api/v1/emails?limit=2&${query}`, { key });
    t.equal(body.emails.length, 2, query);
    return [body.count, body.count_exact];
  };
  const several = `tag=shop&domain=${domain}`;
  await seed(1, 1_000);
  for (const query of ['q=order', 'to=a@b.test', several]) t.strictSame(await counted(query), [1_000, true], query);
  await seed(1_001, 10_000);
  t.strictSame(await counted('q=order'), [1_000, false]);
  for (const query of ['to=a@b.test', several]) t.strictSame(await counted(query), [10_000, true], query);
  await seed(10_001, 10_003);
  for (const query of ['to=a@b.test', several]) t.strictSame(await counted(query), [10_000, false], query);
  const lately = `created_after=${new Date(Date.now() - 600_000).toISOString()}&created_before=${new Date(Date.now() + 600_000).toISOString()}`;
  for (const query of ['', 'tag=shop', 'status=sent', `domain=${domain}`, lately])
    t.strictSame(await counted(query), [10_003, true], query);
});

t.test('the log is searched by the domain of recipients, 100,000 emails at a time', async (t) => {
  const node = await sharedNode('api');
  const { account, key, domain, domainId, from } = await buildSender(node.db, encryptionKey);
  /** Emails accepted at this offset from an hour ago; the list shows later ones first. */
  const seed = (emails: number, recipients: string[], at: string) =>
    node.db.query({
      text: `INSERT INTO emails (id, account_id, domain_id, "from", "to", cc, bcc, reply_to, subject, tags, message_id, status, pending,
                                 created_at, from_address, from_domain, recipient_addresses)
             SELECT uuidv7(interval '-1 hour' + $7), $1, $2, $3, $5, '{}', '{}', '{}', '', '{}', '', 'sent', 0, now(), $3, $4, $5
               FROM generate_series(1, $6::int)`,
      values: [account.id, domainId, from, domain, recipients, emails, at],
    });
  const search = async (query: string) => (await node.call('GET', `/api/v1/emails?${query}`, { key })).body;
  await seed(3, ['a@rare.test'], '0 min');
  await seed(1, ['x@other.test', 'b@rare.test'], '1 min');
  await seed(1, ['a@sub.rare.test'], '2 min');

  const all = await search('to=@rare.test');
  t.match([all.emails.length, all.count, all.count_exact, all.next_cursor], [4, 4, true, null]);
  t.match(all.emails[0], { to: 'x@other.test', recipient_count: 2 });
  const [first, second] = [await search('to=@rare.test&limit=3'), await search('to=@rare.test&limit=3&offset=2')];
  t.match([first.emails.length, first.count, second.emails.length, second.next_cursor], [3, 4, 2, null]);
  const after = await search(`to=@rare.test&limit=3&cursor=${first.next_cursor}`);
  t.strictSame([...first.emails, ...after.emails], all.emails);
  t.equal(after.count, 4, 'how many there are is the same on each page');
  t.match(await search('to=@rare.test&offset=10'), { emails: [], count: 4, count_exact: true, next_cursor: null });
  t.match(await search('to=@rare.test&status=failed'), { emails: [], count: 0, count_exact: true });

  await seed(1_001, ['a@many.test'], '-1 min');
  t.match(await search('to=@many.test&limit=2'), { emails: { length: 2 }, count: 1_000, count_exact: false });

  await seed(1, ['c@rare.test'], '3 min');
  for (let n = 0; n < 10; n += 1) await seed(n === 0 ? 9_998 : 10_000, ['a@common.test'], '4 min');
  t.match(await search('to=@rare.test'), { emails: { length: 1 }, count: 1, count_exact: false });
  const exactly = `created_after=${new Date(Date.now() - 58.5 * 60_000).toISOString()}`;
  t.match(await search(`to=@rare.test&${exactly}`), { emails: [{}], count: 1, count_exact: true, next_cursor: null });
  await seed(1, ['a@common.test'], '5 min');
  const next = await search('to=@rare.test');
  t.match([next.emails.length, next.count, next.count_exact], [1, 1, false]);
  t.strictSame((await search(`to=@rare.test&cursor=${next.next_cursor}`)).emails, all.emails);
  await seed(1, ['a@common.test'], '6 min');
  const none = await search('to=@rare.test&limit=2');
  t.match([none.emails, none.count, none.count_exact], [[], 0, false]);
  t.match(await search(`to=@rare.test&cursor=${none.next_cursor}`), { emails: { length: 5 }, next_cursor: null });
  const queued = await search('to=@rare.test&status=queued');
  t.match([queued.emails, queued.count, queued.count_exact], [[], 0, false], 'no index has these in order');
  t.match(await search(`to=@rare.test&status=queued&cursor=${queued.next_cursor}`), { emails: [], next_cursor: null });
  const few = await search(`to=@rare.test&q=nothing`);
  t.match([few.emails, few.count, few.count_exact, few.next_cursor], [[], 0, true, null], 'these are found at once');
  t.match(await search('to=@common.test&limit=2'), { emails: { length: 2 }, count: 1_000, count_exact: false });

  const others = {
    type: null,
    tag: null,
    from: null,
    domain: null,
    q: null,
    apiKeyId: null,
    held: false,
    scheduled: false,
  };
  const filter = {
    ...others,
    accountId: account.id,
    status: null,
    to: '@rare.test',
    createdAfter: null,
    createdBefore: null,
  };
  let isChanged = false;
  /** Deletes ten of the candidates once the emails of a page have been looked for. */
  const changing = (sql: Sql): Sql => ({
    async query<Row>(statement: Statement) {
      const rows = await sql.query<Row>(statement);
      if (isChanged || !/WHERE found ORDER BY/.test(statement.text)) return rows;
      isChanged = true;
      await node.db.query({
        text: `DELETE FROM emails WHERE id IN (
                 SELECT id FROM emails WHERE account_id = $1 AND recipient_addresses = '{a@common.test}' ORDER BY id LIMIT 10)`,
        values: [account.id],
      });
      return rows;
    },
  });
  const transaction: Database['transaction'] = (work) => node.db.transaction((tx) => work(changing(tx)));
  const changed = { ...node.db, ...changing(node.db), transaction };
  const { nextCursor } = await list(changed, filter, { limit: 9, offset: 0, cursor: null });
  t.ok(isChanged);
  t.match(await search(`to=@rare.test&cursor=${nextCursor}`), { emails: { length: 5 } }, 'none is missing');
});

t.test('scheduled emails are listed in pages, and nothing else', async (t) => {
  const node = await sharedNode('api');
  const { key, from } = await buildSender(node.db, encryptionKey);
  const send = async (fields: object): Promise<string> => {
    const body = { from, to: 'a@b.test', subject: 'subject', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id;
  };
  const later = { scheduled_at: new Date(Date.now() + 3_600_000).toISOString() };
  const search = async (query: string) => {
    const { status, body } = await node.call('GET', `/api/v1/emails?scheduled=true&${query}`, { key });
    t.equal(status, 200);
    return body;
  };
  t.match(await search(''), { emails: [], count: 0, next_cursor: null });
  const waiting = [
    await send(later),
    await send({ ...later, tags: ['plan'], to: ['a@b.test', 'c@b.test'], cc: 'd@e.test' }),
    await send({ ...later, tags: ['plan'] }),
  ];
  await send({ tags: ['plan'] });
  await node.call('DELETE', `/api/v1/emails/${await send(later)}`, { key });
  const passed = await send(later);
  await node.db.prisma.email.update({ where: { id: passed }, data: { scheduledAt: new Date(Date.now() - 1_000) } });

  const found = (body: { emails: { id: string }[] }) => body.emails.map(({ id }) => waiting.indexOf(id));
  const first = await search('limit=2');
  t.match([found(first), first.count, first.count_exact], [[2, 1], 3, true], 'each once, however many it is for');
  t.match(found(await search(`limit=2&cursor=${first.next_cursor}`)), [0]);
  t.strictSame(found(await search('limit=2&offset=1')), [1, 0]);
  t.match(await search('offset=2000000000'), { emails: [], count: 3, next_cursor: null });
  t.strictSame(found(await search('tag=plan')), [2, 1]);
  t.strictSame([found(await search('to=@b.test')), found(await search('to=@c.test'))], [[2, 1, 0], []]);
  t.strictSame(found(await search('status=queued&created_after=2026-01-01T00:00:00Z')), [2, 1, 0]);
  t.strictSame(found(await search('status=sent')), []);
  const refused = await node.call('GET', '/api/v1/emails?scheduled=false', { key });
  t.match(refused, { status: 400, body: { detail: 'scheduled: must be true' } });
});

t.test(
  'scheduled emails are paged through whenever they were accepted, among mail that is queued for other reasons',
  async (t) => {
    const node = await sharedNode('api');
    const { account, key, domain, domainId, from } = await buildSender(node.db, encryptionKey);
    for (let hours = 1; hours <= 6; hours += 1) {
      const at = new Date(Date.now() - hours * 3_600_000);
      await node.db.query({
        text: `INSERT INTO emails (id, account_id, domain_id, status, type, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending,
                                 created_at, from_address, from_domain, recipient_addresses, scheduled_at)
             SELECT ($5 || substr(uuidv7()::text, 14))::uuid, $1, $2, 'queued', 'transactional', $3, ARRAY['a@b.test'], '{}', '{}', '{}', 's', '{}',
                    n || '@x', 1, $6, $3, $4, ARRAY['a@b.test'], CASE WHEN n % 4 = 0 THEN now() + interval '1 day' END
               FROM generate_series(1, 12) n`,
        values: [account.id, domainId, from, domain, floorId(at).slice(0, 13), at],
      });
    }
    // This many recipients for each of these emails.
    const wait = (emails: string, numbers: number) =>
      node.db.query({
        text: `INSERT INTO recipients (account_id, email_id, position, kind, address, destination, status, attempts, next_attempt_at)
             SELECT account_id, id, n, 'to', 'a@b.test', 'b.test', 'queued', CASE WHEN scheduled_at IS NULL THEN 1 ELSE 0 END,
                    coalesce(scheduled_at, now() + interval '1 hour')
               FROM (SELECT * FROM emails WHERE account_id = $1 AND ${emails}) e, generate_series(1, $2) n`,
        values: [account.id, numbers],
      });
    const search = async (query: string) =>
      (await node.call('GET', `/api/v1/emails?scheduled=true&${query}`, { key })).body;
    const idsOf = (body: { emails: { id: string }[] }) => body.emails.map(({ id }) => id);
    for (const [waiting, emails, numbers] of [
      ['few', 'true', 1],
      ['too many to look through', `message_id IN ('1@x', '2@x', '3@x')`, 3_000],
    ] as const) {
      await node.db.query({ text: 'DELETE FROM recipients WHERE account_id = $1', values: [account.id] });
      await wait(emails, numbers);
      const all = idsOf(await search(''));
      t.equal(all.length, 18, `three of each hour, with ${waiting} waiting`);
      t.strictSame(all, all.toSorted().reverse());
      for (const limit of [1, 4, 7]) {
        const [paged, byOffset]: string[][] = [[], []];
        for (let cursor: string | null = ''; cursor !== null; ) {
          const body = await search(`limit=${limit}${cursor ? `&cursor=${cursor}` : ''}`);
          t.equal(body.count, 18);
          paged?.push(...idsOf(body));
          byOffset?.push(...idsOf(await search(`limit=${limit}&offset=${byOffset.length}`)));
          cursor = body.next_cursor;
        }
        t.strictSame([paged, byOffset], [all, all], `${limit} at a time`);
      }
    }
  },
);
