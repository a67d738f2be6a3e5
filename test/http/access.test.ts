import { randomUUID } from 'node:crypto';
import t from 'tap';
import { buildKey, buildSender } from '../support/build.ts';
import { operations } from '../support/contract.ts';
import { figure } from '../support/figure.ts';
import { type CallOptions, startTestNode } from '../support/node.ts';
import { encryptionKey } from '../support/shared-node.ts';
import { buildNouns, type DescribedOperation, today, watchTables } from './scene.ts';

/** A credential: what is sent, and which demands of an operation it meets. */
interface Credential {
  options: CallOptions;
  /** Unset if it is not valid at all. */
  counts?: { as: 'apiKey' | 'login'; with: string[]; suspended?: boolean };
}

/** The documented answer to this credential: 401, 403, or null for any other status. */
function refusalOf({ operation: { security } }: DescribedOperation, { counts }: Credential): 401 | 403 | null {
  const demand = counts && security.find((one) => one[counts.as])?.[counts.as];
  if (!counts || !demand) return 401;
  if (counts.suspended) return 403;
  return (demand as string[]).every((one) => counts.with.includes(one)) ? null : 403;
}

const noun = (path: string) => path.split('/{')[0]?.split('/').at(-1) ?? '';
const hasId = ({ path }: DescribedOperation) => path.includes('{');
const isAdmins = ({ path }: DescribedOperation) => path.startsWith('/api/v1/admin/');

t.test('every route with every kind of credential, of each of two accounts', async (t) => {
  // Not the shared one: its writes are watched.
  const node = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const logIn = async ({ email, password }: { email: string; password: string }) =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token as string;
  const build = async () => {
    const sender = await buildSender(node.db, encryptionKey);
    const token = await logIn(sender.account);
    return { ...sender, token, nouns: await buildNouns(node, { ...sender, token }) };
  };
  const [ours, theirs, suspended] = [await build(), await build(), await build()];
  await node.db.prisma.account.update({ where: { id: suspended.account.id }, data: { suspendedAt: new Date() } });
  // An address is not an id of its own: both accounts would have this one.
  await node.call('DELETE', `/api/v1/suppressions/${ours.nouns.suppressions}`, { token: ours.token });
  const admin = await logIn({ email: 'admin@example.test', password: node.adminPassword });
  const page = { 'X-Sendwright-Page': '1' };
  const session = await node.call('POST', '/api/v1/session', {
    body: { email: ours.account.email, password: ours.account.password },
    headers: page,
  });
  const Cookie = (session.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const { key: revoked, api_key: revokedKey } = (
    await node.call('POST', '/api/v1/keys', { token: ours.token, body: { name: 'n' } })
  ).body;
  await node.call('DELETE', `/api/v1/keys/${revokedKey.id}`, { token: ours.token });
  const reader = await buildKey(node.db, ours.account.id, { scopes: ['read'] });
  const over = await buildKey(node.db, ours.account.id, { expiresAt: new Date(Date.now() - 1) });

  const credentials: Record<string, Credential> = {
    nothing: { options: {} },
    'a revoked key': { options: { key: revoked } },
    'an expired key': { options: { key: over } },
    'a token sent as a key': { options: { key: ours.token } },
    'a key sent as a token': { options: { token: ours.key } },
    'a key that may send': { options: { key: ours.key }, counts: { as: 'apiKey', with: ['send', 'read'] } },
    'a key that may read': { options: { key: reader }, counts: { as: 'apiKey', with: ['read'] } },
    "a member's token": { options: { token: ours.token }, counts: { as: 'login', with: [] } },
    "a member's cookie": { options: { headers: { ...page, Cookie } }, counts: { as: 'login', with: [] } },
    "the operator's token": { options: { token: admin }, counts: { as: 'login', with: ['admin'] } },
    'a suspended key': { options: { key: suspended.key }, counts: { as: 'apiKey', with: [], suspended: true } },
    'a suspended token': { options: { token: suspended.token }, counts: { as: 'login', with: [], suspended: true } },
  };
  const secured = operations.filter(({ operation }) => operation.security.length > 0);
  /** With an unknown id and an invalid body, so that a call that is let in changes nothing. */
  const probe = (one: DescribedOperation, options: CallOptions) =>
    node.call(one.method, one.path.replace(/\{\w+\}/, randomUUID()), {
      ...options,
      ...(one.operation.requestBody ? { body: '[]' } : {}),
    });

  const written = await watchTables(node);

  t.test('AUTH-01, AUTH-10: exactly the documented credentials are let in', async (t) => {
    let tried = 0;
    let astray = 0;
    for (const one of secured) {
      const { operationId } = one.operation;
      for (const [what, credential] of Object.entries(credentials)) {
        // It would end the login that it is tried with.
        if (operationId === 'endSession' && credential.counts) continue;
        const { status, body } = await probe(one, credential.options);
        const expected = refusalOf(one, credential);
        const found = status === 401 || status === 403 ? status : null;
        if (found !== expected) {
          astray += 1;
          t.fail(`${operationId} with ${what}: ${status} instead of ${expected ?? 'being let in'}`);
        }
        if (found === 401 && JSON.stringify(body) !== '{"error":"unauthorized"}')
          t.fail(`${operationId}: ${JSON.stringify(body)}`);
        tried += 1;
      }
    }
    const kinds = Object.keys(credentials).length;
    figure(
      'P10',
      `${tried} calls of every route with ${kinds} kinds of credentials: ${astray} answered as they should not be`,
    );
    t.ok(tried > 600, `${tried} were tried`);
    t.strictSame(await written(), [], 'nothing was changed');
  });

  t.test('AUTH-08: the id of another account is answered like an unknown one, whoever asks', async (t) => {
    const insiders = Object.entries(credentials).filter(
      ([, { counts }]) => counts && !counts.suspended && !counts.with.includes('admin'),
    );
    let tried = 0;
    for (const one of secured.filter((one) => hasId(one) && !isAdmins(one))) {
      const its = theirs.nouns[noun(one.path)];
      t.ok(its, `buildNouns makes one for ${one.path}`);
      const body = one.operation.requestBody && today(one.operation.requestBody.content['application/json']?.example);
      for (const [what, credential] of insiders) {
        if (refusalOf(one, credential) !== null) continue;
        const ask = async (id: string) => {
          const path = one.path.replace(/\{\w+\}/, encodeURIComponent(id));
          const { status, body: said } = await node.call(one.method, path, { ...credential.options, body });
          return [status, said];
        };
        t.strictSame(await ask(its ?? ''), await ask(randomUUID()), `${one.operation.operationId} with ${what}`);
        tried += 1;
      }
    }
    figure('P10', `${tried} with the id of another account: answered as one that is nobody's`);
    t.ok(tried > 50, `${tried} were tried`);
    t.strictSame(await written(), [], 'nothing was changed');
  });

  t.test('AUTH-08: no list, count or page includes anything of another account', async (t) => {
    const traces = [...Object.values(theirs.nouns), theirs.account.id, theirs.account.email, theirs.domain].filter(
      // A destination belongs to everybody.
      (text) => text !== theirs.nouns.destinations,
    );
    t.ok(traces.length > 10);
    const lists = secured.filter((one) => one.method === 'GET' && !hasId(one) && !isAdmins(one));
    t.ok(lists.length > 8);
    const counted = new Set<string>();
    for (const one of lists) {
      for (const [what, credential] of Object.entries(credentials)) {
        if (!credential.counts || credential.counts.with.includes('admin') || refusalOf(one, credential) !== null)
          continue;
        const { status, body } = await node.call('GET', one.path, credential.options);
        const found = traces.filter((text) => JSON.stringify(body).includes(text));
        t.strictSame([found, status < 500], [[], true], `${one.operation.operationId} with ${what}`);
        if (typeof body.count !== 'number') continue;
        counted.add(one.operation.operationId);
        const [listed] = Object.values<unknown>(body).filter(Array.isArray);
        t.equal(body.count, listed?.length, `${one.operation.operationId} counts what it lists`);
      }
    }
    t.ok(counted.size > 5, [...counted].join());
    const { emails, count } = (await node.call('GET', '/api/v1/emails', { key: ours.key })).body;
    t.strictSame([emails.length, count], [1, 1]);
  });
});

t.test('AUTH-15: no answer and no link uses a host name that the request claims', async (t) => {
  const BASE_URL = 'https://send.example.com';
  const node = await startTestNode(t, {
    BASE_URL,
    TRUSTED_PROXIES: '1',
    ROLES: 'api',
    ENCRYPTION_KEY: encryptionKey.toString('hex'),
  });
  const sender = await buildSender(node.db, encryptionKey);
  const { email, password } = sender.account;
  const evil = 'evil.example.net';
  for (const Host of [evil, `send.example.com@${evil}`]) {
    const headers = {
      Host,
      'X-Forwarded-Host': evil,
      'X-Forwarded-Server': evil,
      'X-Forwarded-Proto': 'http',
      'X-Forwarded-Port': '1',
      'X-Host': evil,
      'X-Original-Host': evil,
      Forwarded: `for=192.0.2.1;host=${evil};proto=http`,
    };
    for (const one of operations) {
      const body = one.operation.requestBody && today(one.operation.requestBody.content['application/json']?.example);
      const path = one.path.replace(/\{\w+\}/, randomUUID());
      // Logging in is tried below.
      if (['logIn', 'createSession'].includes(one.operation.operationId)) continue;
      const answer = await node.call(one.method, path, { headers, body, key: sender.key });
      const said = `${JSON.stringify([...answer.headers])} ${JSON.stringify(answer.body)}`;
      t.notOk(said.includes(evil), `${one.operation.operationId}: ${said.slice(0, 200)}`);
      t.notOk(answer.headers.has('location'));
    }
    const session = await node.call('POST', '/api/v1/session', { headers, body: { email, password } });
    t.match(session.headers.get('set-cookie'), /Secure/, 'the configured address counts, not the claimed one');
    t.notMatch(session.headers.get('set-cookie'), /Domain/i);
    t.match((await node.call('GET', '/api/v1/openapi.json', { headers })).body.servers, [{ url: BASE_URL }]);
  }
  const dry = await node.call('POST', '/api/v1/emails?dry_run=true', {
    key: sender.key,
    headers: { Host: evil, 'X-Forwarded-Host': evil },
    body: { from: sender.from, to: 'a@b.test', subject: 's', text: 't', type: 'marketing' },
  });
  t.match(JSON.stringify(dry.body), `List-Unsubscribe: <${BASE_URL}/unsubscribe/`);
});
