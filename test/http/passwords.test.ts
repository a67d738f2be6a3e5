import crypto, { randomBytes } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { login } from '../../src/core/accounts/users.ts';
import { hashPassword } from '../../src/crypto/password.ts';
import type { Database } from '../../src/db/client.ts';
import * as build from '../support/build.ts';
import { figure } from '../support/figure.ts';
import { type CallOptions, startTestNode, type TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';
import { served } from './scene.ts';

/** Guesses at once are all under way because each takes as long as it does in the service. */
const slow = await hashPassword(build.builtPassword);
const buildAccount = (db: Database) => build.buildAccount(db, slow);

const path = '/api/v1/auth/password';
const logIn = (node: TestNode, body: { email: string; password: string }, options: CallOptions = {}) =>
  node.call('POST', '/api/v1/auth/login', { body: { email: body.email, password: body.password }, ...options });

/** Two nodes on one database that know each other's tokens. */
async function startTwo(t: Parameters<typeof startTestNode>[0]) {
  const { databaseUrl: DATABASE_URL } = await sharedNode('api');
  const env = { DATABASE_URL, ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api' };
  const JWT_SECRET = randomBytes(32).toString('hex');
  return Promise.all([startTestNode(t, { ...env, JWT_SECRET }), startTestNode(t, { ...env, JWT_SECRET })]);
}

/** How long a turn of this thread takes, in ms of its own processor time: 99 of 100 take no longer. */
function watchTurns(): { longest: () => number } {
  const turns: number[] = [];
  let last = process.threadCpuUsage();
  const watch = setInterval(() => {
    const { user, system } = process.threadCpuUsage(last);
    turns.push((user + system) / 1_000);
    last = process.threadCpuUsage();
  }, 5);
  return {
    longest() {
      clearInterval(watch);
      return turns.sort((a, b) => a - b)[Math.floor(0.99 * (turns.length - 1))] ?? Number.POSITIVE_INFINITY;
    },
  };
}

t.test('passwords on two nodes', async (t) => {
  const [one, two] = (await startTwo(t)) as [TestNode, TestNode];
  const failuresOf = (email: string) => one.db.prisma.loginFailure.count({ where: { subject: { endsWith: email } } });
  const keys = (node: TestNode, options: CallOptions) =>
    node.call('GET', '/api/v1/keys', options).then(({ status }) => status);

  t.test('AUTH-16: a new password ends all logins at once, on all nodes, except the one it answers with', async (t) => {
    const account = await buildAccount(one.db);
    const { token } = (await logIn(one, account)).body;
    const elsewhere = (await logIn(two, account)).body.token;
    const page = { 'X-Sendwright-Page': '1' };
    const browser = await two.call('POST', '/api/v1/session', {
      body: { email: account.email, password: account.password },
      headers: page,
    });
    const cookie = { headers: { ...page, Cookie: (browser.headers.get('set-cookie') ?? '').split(';')[0] ?? '' } };
    t.strictSame(
      await Promise.all([keys(two, { token }), keys(one, { token: elsewhere }), keys(one, cookie)]),
      [200, 200, 200],
    );
    const change = (current_password: string, new_password: string, options: CallOptions) =>
      two.call('POST', path, { body: { current_password, new_password }, ...options });
    t.match(await change('wrong', 'a new password', { token }), { status: 403, body: { error: 'forbidden' } });
    t.match(await change(account.password, 'short', { token }), {
      status: 400,
      body: { detail: /^new_password: must have at least 8/ },
    });
    for (const tried of ['password', 'Sendwright123', 'aaaaaaaabaaa'])
      t.match(await change(account.password, tried, { token }), {
        status: 400,
        body: { detail: 'new_password: is too easy to guess' },
      });
    t.match(await change(account.password, account.email.toUpperCase(), { token }), {
      status: 400,
      body: { detail: 'new_password: is the address of the user' },
    });
    t.equal(await keys(two, { token }), 200, 'nothing was changed');

    // Three times within a second, which the times in tokens cannot tell apart.
    let current = { password: account.password, token };
    for (const next of ['the second password', 'the third password', 'the fourth password']) {
      const { status, body } = await change(current.password, next, { token: current.token });
      t.equal(status, 200);
      for (const node of [one, two]) {
        t.equal(await keys(node, { token: current.token }), 401, 'the token it was changed with');
        t.equal(await keys(node, { token: elsewhere }), 401);
        t.equal(await keys(node, cookie), 401);
        t.equal(await keys(node, { token: body.token }), 200, 'the token it answered with');
      }
      current = { password: next, token: body.token };
    }
    figure('P17', 'three passwords within a second: each ended all other logins, on both nodes, before its answer');
    t.equal((await logIn(one, account)).status, 401);
    t.equal((await logIn(one, { ...account, password: current.password })).status, 200);
  });

  t.test('of two changes at once with the same password, one is made and the other is refused', async (t) => {
    const account = await buildAccount(one.db);
    const { token } = (await logIn(one, account)).body;
    const answers = await Promise.all(
      [one, two].map((node, at) =>
        node.call('POST', path, {
          token,
          body: { current_password: account.password, new_password: `new password ${at}` },
        }),
      ),
    );
    const made = answers.findIndex(({ status }) => status === 200);
    t.match(String(answers[1 - made]?.status), /^40[13]$/, 'if the first was faster, its token has ended as well');
    t.equal((await logIn(two, { ...account, password: `new password ${made}` })).status, 200);
  });

  t.test('AUTH-16: if the login is a cookie, no script sees the next one', async (t) => {
    const account = await buildAccount(one.db);
    const page = { 'X-Sendwright-Page': '1' };
    const browser = await one.call('POST', '/api/v1/session', {
      body: { email: account.email, password: account.password },
      headers: page,
    });
    const cookieOf = ({ headers }: typeof browser) => (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    const body = { current_password: account.password, new_password: 'a new password' };
    const forged = await one.call('POST', path, { body, headers: { Cookie: cookieOf(browser) } });
    t.equal(forged.status, 403, 'AUTH-12');
    const changed = await one.call('POST', path, { body, headers: { ...page, Cookie: cookieOf(browser) } });
    t.match(changed, { status: 200, body: { token: null } });
    t.match(changed.headers.get('set-cookie'), /HttpOnly; SameSite=Strict/);
    t.equal(await keys(two, { headers: { Cookie: cookieOf(changed) } }), 200);
    t.equal(await keys(two, { headers: { Cookie: cookieOf(browser) } }), 401);
  });

  t.test('AUTH-06: of many guesses at once, on two nodes, ten are checked', async (t) => {
    const account = await buildAccount(one.db);
    await one.db.prisma.loginFailure.deleteMany();
    const guesses = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        served(() => logIn(n % 2 ? one : two, { ...account, password: `guess ${n}` })),
      ),
    );
    const said = guesses.map(({ status }) => status).sort();
    figure(
      'P18',
      `${said.length} guesses at once on two nodes: ${said.filter((status) => status === 401).length} looked at`,
    );
    t.strictSame(said, [...Array(10).fill(401), ...Array(50).fill(429)]);
    for (const node of [one, two]) t.equal((await logIn(node, account)).status, 429);
    await one.db.prisma.loginFailure.deleteMany({ where: { subject: { contains: account.email } } });
    t.equal((await logIn(one, account)).status, 200, 'refused guesses do not count');
    const { token } = (await logIn(one, account)).body;
    const wrong = { current_password: 'wrong', new_password: 'a new password' };
    const changes = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        served(() => (n % 2 ? one : two).call('POST', path, { token, body: wrong })),
      ),
    );
    t.strictSame(changes.map(({ status }) => status).sort(), [...Array(10).fill(403), ...Array(20).fill(429)]);
    await one.db.prisma.loginFailure.deleteMany();
  });

  t.test('AUTH-06: right passwords at once are all accepted, and count as no failure', async (t) => {
    const account = await buildAccount(one.db);
    const right = await Promise.all(Array.from({ length: 8 }, (_, n) => logIn(n % 2 ? one : two, account)));
    t.strictSame(
      right.map(({ status }) => status),
      Array(8).fill(200),
    );
    t.equal(await failuresOf(account.email), 0);
  });

  t.test('of 500 logins at once few are hashed, and others are served meanwhile: DOS-12', async (t) => {
    const { token } = (await logIn(one, await buildAccount(one.db))).body;
    // Some from many places, the others from one: refused by the count of failures, or for lack of a place to wait.
    const places = 70;
    const flood = async () => {
      const turns = watchTurns();
      const began = performance.now();
      const logins = Promise.allSettled(
        Array.from({ length: 500 }, (_, n) =>
          login(one.db, {
            email: `${Math.min(n, places)}@flood.test`,
            password: 'x',
            address: `192.0.2.${Math.min(n, places)}`,
          }),
        ),
      ).then((ends) => ({ ends, tookMs: performance.now() - began }));
      const waits: number[] = [];
      do {
        const asked = performance.now();
        t.equal(await keys(one, { token }), 200);
        waits.push(performance.now() - asked);
      } while (!(await Promise.race([logins, sleep(20, null)])));
      const { ends, tookMs } = await logins;
      const longest = turns.longest();
      const reasons = Map.groupBy(ends, (end) => (end.status === 'rejected' ? end.reason.status : 200));
      const [hashed = 0, counted = 0, busy = 0] = [401, 429, 503].map((status) => reasons.get(status)?.length ?? 0);
      t.equal(hashed + counted + busy, 500);
      t.ok(hashed >= 52 && hashed <= places + 10, `${hashed} were hashed`);
      t.equal(await failuresOf('@flood.test'), 2 * hashed, 'what was not checked is not counted');
      await one.db.prisma.loginFailure.deleteMany();
      return { share: Math.max(...waits) / tookMs, longest, busy };
    };
    // Other work of this machine only adds to the time: the best of a few rounds is what the logins cost.
    // And if the database is slow, they come one after the other, and may all find a place.
    let [share, longest, busy] = [1, Number.POSITIVE_INFINITY, 0];
    for (let round = 0; round < 20 && !(share < 0.2 && longest < 50 && busy > 0); round += 1) {
      const seen = await flood();
      share = Math.min(share, seen.share);
      longest = Math.min(longest, seen.longest);
      busy = Math.max(busy, seen.busy);
    }
    t.ok(busy > 0, 'some found no place to wait');
    // If each login held a connection while it waits for its count, it would be a third of that time.
    t.ok(share < 0.2, `others waited for at most ${Math.round(100 * share)} % of the time`);
    // About 7: a hash takes several times that, in other threads.
    t.ok(longest < 50, `other work waited for ${Math.round(longest)} ms of processor time`);
  });
});

t.test('AUTH-07: for an unknown user the same work is done', async (t) => {
  // `npm run -s login-times` measures the time of a login; this checks what is hashed for it.
  const { argon2 } = crypto;
  const hashed: object[] = [];
  const counted: typeof argon2 = (algorithm, { message, nonce, ...parameters }, done) => {
    hashed.push({
      algorithm,
      bytes: [Buffer.byteLength(message as string), Buffer.byteLength(nonce as Buffer)],
      parameters,
    });
    argon2(algorithm, { message, nonce, ...parameters }, done);
  };
  // For a copy of the module.
  crypto.argon2 = counted;
  syncBuiltinESMExports();
  const module = '../../src/crypto/password.ts';
  const copy = (await import(`${module}?counted`)) as typeof import('../../src/crypto/password.ts');
  crypto.argon2 = argon2;
  syncBuiltinESMExports();
  const { verifyPassword } = copy;
  const stored = await copy.hashPassword('right');
  t.match(stored, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  t.equal(await verifyPassword('right', stored), true);
  hashed.splice(0);
  t.strictSame([await verifyPassword('wrong', stored), await verifyPassword('wrong', null)], [false, false]);
  t.strictSame([hashed.length, hashed[1]], [2, hashed[0]]);
});
