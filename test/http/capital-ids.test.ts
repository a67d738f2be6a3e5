import t from 'tap';
import { buildSender, builtPassword } from '../support/build.ts';
import { operations } from '../support/contract.ts';
import { startHook } from '../support/hook.ts';
import { eventually } from '../support/node.ts';
import { buildNouns, encryptionKey, startCaller, today } from './scene.ts';

const nounOf = (path: string) => path.split('/{')[0]?.split('/').at(-1) ?? '';

t.test('an id in capitals is answered like one in small letters', async (t) => {
  const hook = await startHook(t);
  const caller = await startCaller(t, { ALLOW_PRIVATE_NETWORKS: 'true', ROLES: 'api,webhooks' }, hook.url);
  const { node, admin } = caller;
  const other = await buildSender(node.db, encryptionKey);
  const token = await caller.logIn(other.account.email, other.account.password);
  const nouns = await buildNouns(node, { ...other, token }, hook.url);

  t.test('in each path', async (t) => {
    // Removals come last, and the keys of a domain before the domain.
    const last = ({ method, path }: { method: string; path: string }) =>
      method !== 'DELETE' ? 0 : path.includes('/domains/') ? 2 : 1;
    const withId = operations.filter(({ path }) => path.endsWith('{id}') || path.includes('{id}/'));
    t.ok(withId.length > 20);
    for (const one of withId.sort((a, b) => last(a) - last(b))) {
      const body = one.operation.requestBody && today(one.operation.requestBody.content['application/json']?.example);
      const small = await caller.call(one, { body });
      const id = nouns[nounOf(one.path)]?.toUpperCase() ?? '';
      const theirs = one.path.includes('/admin/') ? { token: admin } : { token, key: other.key };
      const capital = await node.call(one.method, one.path.replace('{id}', id), { ...theirs, body });
      t.strictSame([capital.status, capital.body.error], [small.status, small.body.error], one.operation.operationId);
      t.notMatch(JSON.stringify(capital.body), id, `${one.operation.operationId} names it as it is stored`);
    }
  });

  t.test('of an account: nobody suspends the one they are logged in to', async (t) => {
    await node.db.prisma.user.updateMany({ where: { accountId: other.account.id }, data: { role: 'admin' } });
    const operator = await caller.logIn(other.account.email, builtPassword);
    for (const id of [other.account.id, other.account.id.toUpperCase()]) {
      const answer = await node.call('PATCH', `/api/v1/admin/accounts/${id}`, {
        token: operator,
        body: { suspended: true },
      });
      t.match([answer.status, answer.body.detail], [400, /^suspended: you are logged in to this account/]);
    }
  });

  t.test('in each query', async (t) => {
    const mine = await buildSender(node.db, encryptionKey);
    const reader = { token: await caller.logIn(mine.account.email, mine.account.password) };
    const has = await buildNouns(node, { ...mine, ...reader }, hook.url);
    // Until then the answer changes from one call to the next.
    const called = '/api/v1/webhook-deliveries?status=succeeded';
    await eventually(async () => (await node.call('GET', called, reader)).body.count === 1);
    const both = async (path: string, name: string, id: string, who: { token: string }) => {
      const ask = (text: string) => node.call('GET', `/api/v1${path}?${name}=${text}`, who);
      const [small, capital] = [await ask(id), await ask(id.toUpperCase())];
      t.equal(small.status, 200);
      t.strictSame(capital.body, small.body, `${path}?${name}`);
      return small.body;
    };
    t.match(await both('/webhook-deliveries', 'webhook_id', has.webhooks ?? '', reader), { count: 1 });
    t.match(await both('/webhook-deliveries', 'email_id', has.emails ?? '', reader), { count: 1 });
    t.match(await both('/emails', 'cursor', 'f'.repeat(8) + (has.emails ?? '').slice(8), reader), { count: 1 });
    t.match(await both('/admin/emails', 'account_id', mine.account.id, { token: admin }), { count: 1 });
  });
});
