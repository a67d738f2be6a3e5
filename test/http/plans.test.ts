import t from 'tap';
import * as members from '../../src/core/accounts/members.ts';
import { newId } from '../../src/ids.ts';
import { buildAccount, buildKey, buildSender, buildVerifiedDomain } from '../support/build.ts';
import { figure } from '../support/figure.ts';
import { testKey } from '../support/keys.ts';
import { dayLasting } from '../support/midnight.ts';
import { startTestNode } from '../support/node.ts';
import { served } from './scene.ts';

const encryptionKey = testKey(3);
const env = { ENCRYPTION_KEY: encryptionKey.toString('hex') };

t.test('plans', async (t) => {
  await dayLasting(240_000);
  const node = await startTestNode(t, env);
  const admin = (
    await node.call('POST', '/api/v1/auth/login', {
      body: { email: 'admin@example.test', password: node.adminPassword },
    })
  ).body.token;

  async function sender(plan: string, used: { day?: number; month?: number; credit?: number } = {}) {
    const built = await buildSender(node.db, encryptionKey);
    await node.db.query({
      text: `UPDATE accounts SET plan = $2, credit = $5, usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = $3,
                    usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = $4 WHERE id = $1`,
      values: [built.account.id, plan, used.day ?? 0, used.month ?? 0, used.credit ?? 0],
    });
    const item = { from: built.from, to: 'a@b.test', subject: 's', text: 't' };
    return {
      ...built,
      login: built.account,
      send: () => node.call('POST', '/api/v1/emails', { key: built.key, body: item }),
      batch: (n: number, fields: object = {}) => {
        const emails = Array(n).fill({ ...item, ...fields });
        return node.call('POST', '/api/v1/emails/batch', { key: built.key, body: { emails } });
      },
      account: async () =>
        (await node.call('GET', `/api/v1/admin/accounts/${built.account.id}`, { token: admin })).body.account,
    };
  }

  t.test(
    'the accounts are listed by what they have sent this month, whether or not their plan counts it',
    async (t) => {
      const sent = async (plan: string, emails: number, tags: string[] = []) => {
        const { account, batch } = await sender(plan);
        if (emails > 0) t.equal((await batch(emails, { tags })).body.count, emails);
        return (await account()).id as string;
      };
      // Their tags are counted too, but not as emails.
      const few = await sent('pro', 2, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
      const none = await sent('free', 0);
      await node.db.query({
        text: `INSERT INTO email_count_changes (facet, account_id, hour, status, type, emails)
             VALUES ('', $1, date_trunc('month', now(), 'UTC') - interval '1 hour', 'sent', 'transactional', 400)`,
        values: [none],
      });
      const many = await sent('pro', 7);
      const uncounted = await sent('unlimited', 5);
      const answer = async (query: string) => {
        const { status, body } = await node.call('GET', `/api/v1/admin/accounts?${query}`, { token: admin });
        t.equal(status, 200, query);
        return body.accounts as { id: string; accepted: unknown }[];
      };
      const listed = async (query: string) => (await answer(query)).map(({ id }) => id);
      const all: string[] = await listed('sort=usage&limit=100');
      const made = [few, none, many, uncounted];
      t.strictSame(
        all.filter((id) => made.includes(id)),
        [many, uncounted, few, none],
      );
      t.equal(all[0], many);
      t.strictSame(
        (await answer('limit=4')).map(({ accepted }) => accepted),
        [5, 7, 0, 2].map((emails) => ({ day: emails, month: emails })),
      );
      t.strictSame(await listed('sort=usage&limit=2&offset=1'), all.slice(1, 3), 'page by page');
      t.strictSame(await listed('sort=usage&q=no+such+account'), []);
      t.strictSame(await listed('sort=newest&limit=4'), made.toReversed());
      t.strictSame(await listed('limit=4'), made.toReversed());
      t.match(await node.call('GET', '/api/v1/admin/accounts?sort=size', { token: admin }), {
        status: 400,
        body: { detail: 'sort: must be one of newest, usage' },
      });
    },
  );

  t.test('the accounts whose webhooks fail, or were disabled for it, are counted and found', async (t) => {
    const webhooks = [
      { name: 'fails', status: 'enabled', failingSince: new Date() },
      { name: 'was disabled', status: 'disabled', failingSince: new Date(), disabledReason: 'the endpoint is gone' },
      { name: 'answers', status: 'enabled', answeredAt: new Date() },
      { name: 'was disabled by its owner', status: 'disabled', failingSince: new Date() },
    ] as const;
    const idOf = new Map<string, string>();
    for (const { name, ...state } of webhooks) {
      const { account } = await sender('pro');
      const { id } = (await account()) as { id: string };
      const row = { accountId: id, url: 'https://a.test/', events: [], secret: Buffer.of(0), ...state };
      await node.db.prisma.webhook.createMany({ data: [1, 2].map(() => ({ id: newId(), ...row })) });
      idOf.set(name, id);
    }
    const list = async (query: string) => {
      const { status, body } = await node.call('GET', `/api/v1/admin/accounts?${query}`, { token: admin });
      t.equal(status, 200, query);
      return body as { count: number; accounts: { id: string; failing_webhooks: number }[] };
    };
    const found = [idOf.get('was disabled'), idOf.get('fails')];
    for (const sort of ['newest', 'usage']) {
      const { accounts, count } = await list(`webhooks=failing&sort=${sort}`);
      t.strictSame(
        accounts.map(({ id }) => id),
        found,
        sort,
      );
      t.equal(count, 2);
    }
    t.strictSame(
      (await list('limit=4')).accounts.map(({ failing_webhooks: failing }) => failing),
      [0, 0, 2, 2],
    );
    t.match(await list('webhooks=failing&limit=1&offset=1'), { count: 2, accounts: [{ id: idOf.get('fails') }] });
    t.strictSame((await list('webhooks=failing&q=no+such+account')).count, 0);
    t.match(await node.call('GET', '/api/v1/admin/accounts?webhooks=all', { token: admin }), {
      status: 400,
      body: { detail: 'webhooks: must be failing' },
    });
  });

  t.test('without limits nothing is counted, and the usage is null, not 0', async (t) => {
    const { send, account } = await sender('unlimited', { day: 7, month: 7 });
    t.equal((await send()).status, 200);
    t.strictSame((await account()).usage, { day: null, month: null });
  });

  t.test('the free plan stops after its hundredth email of the day', async (t) => {
    const { send, account } = await sender('free', { day: 99, month: 99 });
    t.equal((await send()).status, 200);
    const refused = await send();
    const detail = /^the free plan allows 100 emails a day; sending resumes at \d{4}-\d\d-\d\dT00:00:00\.000Z$/;
    t.match([refused.status, refused.body], [429, { error: 'quota exceeded', detail }]);
    const seconds = Number(refused.headers.get('retry-after'));
    t.ok(seconds > 0 && seconds <= 86_400);
    t.match(await account(), { usage: { day: 100, month: 100 } });
  });

  t.test('and after its three thousandth of the month', async (t) => {
    const { send } = await sender('free', { day: 0, month: 2_999 });
    t.equal((await send()).status, 200);
    t.match(await send(), {
      status: 429,
      body: { detail: /^the free plan allows 3,000 emails a month; sending resumes at \d{4}-\d\d-01T00:00:00\.000Z$/ },
    });
  });

  t.test(
    'if the numbers of the day and of the month are both used up, it says when the next month begins',
    async (t) => {
      const { send } = await sender('free', { day: 99, month: 2_999 });
      t.equal((await send()).status, 200);
      t.match(await send(), {
        status: 429,
        body: {
          detail: /^the free plan allows 3,000 emails a month; sending resumes at \d{4}-\d\d-01T00:00:00\.000Z$/,
        },
      });
    },
  );

  t.test('a new day and a new month start at zero', async (t) => {
    const { send, account } = await sender('free', { day: 100, month: 3_000 });
    t.equal((await send()).status, 429);
    await node.db.query({
      text: `UPDATE accounts SET usage_day = usage_day - 40, usage_month = (usage_month - interval '1 month')::date`,
    });
    t.match(await account(), { usage: { day: 0, month: 0 } });
    t.equal((await send()).status, 200);
    t.match(await account(), { usage: { day: 1, month: 1 } });
  });

  t.test('two hundred calls at once on two nodes: exactly the limit is accepted', async (t) => {
    const other = await startTestNode(t, { ...env, DATABASE_URL: node.databaseUrl });
    const { key, from, account } = await sender('free', { day: 60, month: 60 });
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, n) =>
        served(() =>
          (n % 2 ? node : other).call('POST', '/api/v1/emails', {
            key,
            body: { from, to: 'a@b.test', subject: `${n}`, text: 't' },
          }),
        ),
      ),
    );
    const taken = answers.filter((answer) => answer.status === 200).length;
    figure('P13', `${answers.length} calls at once on two nodes with room for 40: ${taken} taken`);
    t.equal(taken, 40);
    t.equal(answers.filter((answer) => answer.status === 429).length, 160);
    t.match(await account(), { usage: { day: 100, month: 100 } });
  });

  t.test('a batch gets what is left, and its answer names the others', async (t) => {
    const { batch, account } = await sender('free', { day: 97, month: 97 });
    const { status, body } = await batch(5);
    t.equal(status, 200);
    t.equal(body.emails.length, 3);
    t.match(body.errors, [
      { index: 3, error: 'quota exceeded' },
      { index: 4, error: 'quota exceeded' },
    ]);
    t.match(await account(), { usage: { day: 100 } });
  });

  t.test('refused and suppressed emails are not counted', async (t) => {
    const { send, account, domain } = await sender('free');
    await node.db.query({
      text: `INSERT INTO suppressions (id, account_id, address, reason) VALUES (gen_random_uuid(), $1, 'a@b.test', 'manual')`,
      values: [(await account()).id],
    });
    t.equal((await send()).body.email.status, 'suppressed');
    await node.db.query({ text: 'DELETE FROM domains WHERE domain = $1', values: [domain] });
    t.equal((await send()).status, 400);
    t.match(await account(), { usage: { day: 0, month: 0 } });
  });

  t.test('beyond its month the pro plan pays from the credit, to the cent', async (t) => {
    const { batch, send, account } = await sender('pro', { month: 49_999, credit: 1.2 });
    const { body } = await batch(5);
    t.equal(body.emails.length, 3, 'one is in the plan, two are paid for');
    t.match(await account(), { credit: '0.20', usage: { month: 50_002 } });
    t.equal((await send()).status, 429);
    const { id } = await account();
    const topped = await node.call('POST', `/api/v1/admin/accounts/${id}/credits`, {
      token: admin,
      body: { amount: 0.3 },
    });
    t.match([topped.status, topped.body.account], [200, { credit: '0.50' }]);
    t.equal((await send()).status, 200);
    t.match(await account(), { credit: '0.00' });
    const credit = (amount: number) =>
      node.call('POST', `/api/v1/admin/accounts/${id}/credits`, {
        token: admin,
        body: { amount },
        headers: { 'Idempotency-Key': 'invoice-7' },
      });
    const answers = await Promise.all([credit(2), credit(2), credit(2)]);
    answers.push(await credit(2));
    t.strictSame(
      answers.map(({ status, body }) => [status, body.account.credit]),
      answers.map(() => [200, '2.00']),
      'once for each key',
    );
    t.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true').length, 3);
    t.equal((await credit(3)).status, 409);
    t.match(await account(), { credit: '2.00' });
  });

  t.test('a browser is told how much is used and left, the credit counted in', async (t) => {
    for (const [plan, counts, used, left] of [
      ['free', { day: 97, month: 2_990 }, { day: 97, month: 2_990 }, { day: 3, month: 10 }],
      // Past both, as after a change of the plan.
      ['free', { day: 150, month: 4_000, credit: 50 }, { day: 150, month: 4_000 }, { day: 0, month: 0 }],
      ['pro', { day: 500, month: 49_999, credit: 1.2 }, { day: 500, month: 49_999 }, { day: null, month: 3 }],
      ['pro', { day: 500, month: 50_010, credit: 1.2 }, { day: 500, month: 50_010 }, { day: null, month: 2 }],
      ['unlimited', { day: 9 }, { day: null, month: null }, { day: null, month: null }],
    ] as const) {
      const { login } = await sender(plan, counts);
      const { body } = await node.call('POST', '/api/v1/session', { body: login });
      t.strictSame([body.account.usage, body.account.left], [used, left], plan);
    }
  });

  t.test('the plan limits the number of domains, even if several are added at once', async (t) => {
    const account = await buildAccount(node.db);
    await node.db.prisma.account.updateMany({ where: { id: account.id }, data: { plan: 'free' } });
    const token = (await node.call('POST', '/api/v1/auth/login', { body: account })).body.token;
    const answers = await Promise.all(
      ['one.test', 'two.test', 'three.test'].map((domain) =>
        node.call('POST', '/api/v1/domains', { token, body: { domain } }),
      ),
    );
    t.same(answers.map((answer) => answer.status).sort(), [200, 403, 403]);
    t.match(answers.find((answer) => answer.status === 403)?.body, { error: 'forbidden' });
  });
});

t.test('accounts', async (t) => {
  const node = await startTestNode(t, env);
  const loginAs = async (email: string, password: string) =>
    node.call('POST', '/api/v1/auth/login', { body: { email, password } });
  const admin = (await loginAs('admin@example.test', node.adminPassword)).body.token;
  const post = (path: string, body: unknown, token = admin) => node.call('POST', path, { token, body });

  t.test('are created with a first user, on the default plan', async (t) => {
    const { status, body } = await post('/api/v1/admin/accounts', { name: 'Shop', email: 'Owner@Shop.test' });
    t.equal(status, 201);
    t.match(body, {
      account: { name: 'Shop', plan: 'free', credit: '0.00', suspended_at: null },
      user: { email: 'owner@shop.test', password: String },
    });
    const login = await loginAs('owner@shop.test', body.user.password);
    t.match(login.body, { user: { role: 'member' }, account: { id: body.account.id, plan: 'free' } });
    const again = await post('/api/v1/admin/accounts', {
      name: 'Shop 2',
      email: 'owner@shop.test',
      password: 'long enough',
    });
    t.match(again, { status: 400, body: { detail: 'email: belongs to a user already' } });
    const itself = { name: 'Shop 2', email: 'two@shop.test', password: 'Two@shop.test' };
    t.match(await post('/api/v1/admin/accounts', itself), {
      status: 400,
      body: { detail: 'password: is the address of the user' },
    });
    t.equal((await node.db.prisma.account.findMany({ where: { name: 'Shop 2' } })).length, 0);
    const given = await post('/api/v1/admin/accounts', {
      name: 'B',
      email: 'b@b.test',
      password: 'long enough',
      plan: 'pro',
    });
    t.match(given.body, { account: { plan: 'pro' }, user: { email: 'b@b.test' } });
    t.equal(given.body.user.password, undefined, 'a given password is not repeated');
    const { id } = given.body.account;
    await members.add(node.db, id, { email: 'c@b.test', password: 'long enough', role: 'member' });
    const own = { message: 'invalid request', detail: 'password: is the address of the user' };
    await t.rejects(members.add(node.db, id, { email: 'd@b.test', password: 'd@b.test', role: 'member' }), own);
    await t.rejects(members.setPassword(node.db, 'c@b.test', 'c@b.test'), own);
    const { accounts } = (await node.call('GET', '/api/v1/admin/accounts?limit=2', { token: admin })).body;
    t.match(
      accounts,
      [
        { id, user_count: 2 },
        { name: 'Shop', user_count: 1 },
      ],
      'the list has the number of users',
    );
    for (const [q, names] of [
      ['shop', ['Shop']],
      ['C@b.T', ['B']],
      ['B', ['B']],
      ['%', []],
    ] as const) {
      const path = `/api/v1/admin/accounts?q=${encodeURIComponent(q)}`;
      const { accounts, count } = (await node.call('GET', path, { token: admin })).body;
      t.strictSame([count, accounts.map(({ name }: { name: string }) => name)], [names.length, names], q);
    }
  });

  t.test('only an admin may call these', async (t) => {
    const member = await buildAccount(node.db);
    const token = (await loginAs(member.email, member.password)).body.token;
    for (const [method, path] of [
      ['POST', '/api/v1/admin/accounts'],
      ['GET', '/api/v1/admin/accounts'],
      ['GET', `/api/v1/admin/accounts/${member.id}`],
      ['PATCH', `/api/v1/admin/accounts/${member.id}`],
      ['POST', `/api/v1/admin/accounts/${member.id}/credits`],
      ['GET', '/api/v1/admin/emails'],
    ] as const) {
      const body = method === 'GET' ? {} : { body: {} };
      t.match(await node.call(method, path, { token, ...body }), { status: 403, body: { error: 'forbidden' } }, path);
      t.equal((await node.call(method, path, body)).status, 401, path);
    }
  });

  t.test('an operator cannot suspend their own account', async (t) => {
    const { accountId } = await node.db.prisma.user.findUniqueOrThrow({ where: { email: 'admin@example.test' } });
    const answer = await node.call('PATCH', `/api/v1/admin/accounts/${accountId}`, {
      token: admin,
      body: { suspended: true },
    });
    t.match(answer, { status: 400, body: { detail: /^suspended: you are logged in to this account/ } });
    t.equal((await node.call('GET', '/api/v1/admin/accounts', { token: admin })).status, 200);
  });

  t.test('a suspended account can do nothing, and can be restored', async (t) => {
    const member = await buildAccount(node.db);
    const { domain } = await buildVerifiedDomain(node.db, member.id, encryptionKey);
    const key = await buildKey(node.db, member.id);
    const token = (await loginAs(member.email, member.password)).body.token;
    const patch = (body: unknown) => node.call('PATCH', `/api/v1/admin/accounts/${member.id}`, { token: admin, body });
    const begun = Date.now();
    const { suspended_at: since, created_at: made } = (await patch({ suspended: true })).body.account;
    t.ok(Date.parse(since) >= begun - 1_000 && Date.parse(since) <= Date.now() + 1_000 && since > made, since);
    t.equal((await patch({ suspended: true })).body.account.suspended_at, since, 'the second time changes nothing');
    const email = { from: `a@${domain}`, to: 'b@c.test', subject: 's', text: 't' };
    t.match(await node.call('POST', '/api/v1/emails', { key, body: email }), {
      status: 403,
      body: { error: 'forbidden' },
    });
    t.equal((await node.call('GET', '/api/v1/keys', { token })).status, 403);
    t.equal((await loginAs(member.email, member.password)).status, 403);
    t.equal(
      (await loginAs(member.email, 'wrong password')).status,
      401,
      'only its members are told that it is suspended',
    );
    t.match((await patch({ suspended: false, plan: 'pro', name: 'Back' })).body.account, {
      suspended_at: null,
      plan: 'pro',
      name: 'Back',
    });
    t.equal((await node.call('POST', '/api/v1/emails', { key, body: email })).status, 200);
  });

  t.test('the admin sees the emails of all accounts, or of one', async (t) => {
    const built = await buildSender(node.db, encryptionKey);
    const sent = await node.call('POST', '/api/v1/emails', {
      key: built.key,
      body: { from: built.from, to: 'b@c.test', subject: 'seen', text: 't' },
    });
    const { body } = await node.call('GET', '/api/v1/admin/emails?limit=1', { token: admin });
    t.match(body.emails, [{ id: sent.body.email.id, account_id: built.account.id }]);
    t.ok(body.count >= 2);
    const one = await node.call('GET', `/api/v1/admin/emails?account_id=${built.account.id}`, { token: admin });
    t.equal(one.body.count, 1);
  });

  t.test('bad input names the field', async (t) => {
    const { id } = (await post('/api/v1/admin/accounts', { name: 'X', email: 'x@x.test' })).body.account;
    const wrong: [string, string, unknown, RegExp][] = [
      ['POST', '/api/v1/admin/accounts', {}, /^name: is required/],
      ['POST', '/api/v1/admin/accounts', { name: ' ', email: 'a@b.test' }, /^name: must not be blank/],
      ['POST', '/api/v1/admin/accounts', { name: 'a' }, /^email: is required/],
      ['POST', '/api/v1/admin/accounts', { name: 'a', email: 'a' }, /^email: not an email address/],
      [
        'POST',
        '/api/v1/admin/accounts',
        { name: 'a', email: 'a@b.test', password: 'short' },
        /^password: must have at least 8/,
      ],
      [
        'POST',
        '/api/v1/admin/accounts',
        { name: 'a', email: 'a@b.test', password: 'PassWord' },
        /^password: is too easy to guess/,
      ],
      [
        'POST',
        '/api/v1/admin/accounts',
        { name: 'a', email: 'a@b.test', plan: 'gold' },
        /^plan: must be one of free, pro, unlimited/,
      ],
      ['PATCH', `/api/v1/admin/accounts/${id}`, {}, /is required/],
      ['PATCH', `/api/v1/admin/accounts/${id}`, { suspended: 'yes' }, /^suspended: must be true or false/],
      ['POST', `/api/v1/admin/accounts/${id}/credits`, {}, /^amount: is required/],
      ['POST', `/api/v1/admin/accounts/${id}/credits`, { amount: -1 }, /^amount: must be more than 0/],
      [
        'POST',
        `/api/v1/admin/accounts/${id}/credits`,
        { amount: 0.001 },
        /^amount: must have at most two decimal places/,
      ],
      ['POST', `/api/v1/admin/accounts/${id}/credits`, { amount: 1e9 }, /^amount: must be at most 1,000,000/],
      ['POST', `/api/v1/admin/accounts/${id}/credits`, { amount: '5' }, /^amount: must be a number/],
    ];
    for (const [method, path, body, detail] of wrong) {
      t.match(await node.call(method, path, { token: admin, body }), {
        status: 400,
        body: { error: 'invalid request', detail },
      });
    }
    for (const path of ['nonsense', '00000000-0000-7000-8000-000000000000']) {
      t.equal((await node.call('GET', `/api/v1/admin/accounts/${path}`, { token: admin })).status, 404);
      t.equal((await post(`/api/v1/admin/accounts/${path}/credits`, { amount: 1 })).status, 404);
    }
  });
});

t.test('the requests of a key are limited, and the answers say so', async (t) => {
  const node = await startTestNode(t, { ...env, RATE_LIMIT: '2/10' });
  const account = await buildAccount(node.db);
  const key = await buildKey(node.db, account.id);
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 30 }, () => node.call('GET', '/api/v1/emails', { key })));
  const refilled = Math.ceil((performance.now() - began) / 500);
  const refused = answers.filter((answer) => answer.status === 429);
  t.ok(refused.length >= 20 - refilled && refused.length <= 20, `${refused.length} were refused`);
  t.match(refused[0]?.body, { error: 'rate limited', detail: String });
  t.equal(refused[0]?.headers.get('retry-after'), '1');
  for (const answer of answers) {
    t.equal(answer.headers.get('ratelimit-policy'), '"key";q=10;w=5');
    t.match(answer.headers.get('ratelimit'), answer.status === 429 ? /^"key";r=0;t=5$/ : /^"key";r=\d;t=[1-5]$/);
  }
  const other = await buildKey(node.db, account.id);
  const first = await node.call('GET', '/api/v1/emails', { key: other });
  t.equal(first.status, 200, 'each key has its own limit');
  t.equal(first.headers.get('ratelimit'), '"key";r=9;t=1', 'and is told when all of it is there again');
  await new Promise((resume) => setTimeout(resume, 1_100));
  t.equal((await node.call('GET', '/api/v1/emails', { key })).status, 200);
});
