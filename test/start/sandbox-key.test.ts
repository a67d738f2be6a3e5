import t from 'tap';
import * as keys from '../../src/core/accounts/keys.ts';
import { prepareSandbox } from '../../src/node/first-screen.ts';
import { startTestNode } from '../support/node.ts';

t.test('each start on an external database shows the same key, even if many start at once', async (t) => {
  const node = await startTestNode(t);
  const { accountId } = node.admin;
  const other = keys.derived(Buffer.from('another secret of 32 characters..'));
  // Also those of nodes that start for the first time, which find no domain yet.
  t.same(await Promise.all([1, 2].map(() => prepareSandbox(node, other))), [other, other]);
  const before = (await keys.list(node.db, accountId)).length;
  const known = keys.derived(Buffer.from('a secret of 32 characters or more'));
  t.match(known, /^sk_live_[0-9A-Za-z]{43}$/);
  t.not(known, other);
  t.same(await Promise.all([1, 2, 3].map(() => prepareSandbox(node, known))), [known, known, known]);
  t.equal(await prepareSandbox(node, known), known);
  const [made, ...others] = await keys.list(node.db, accountId);
  t.equal(others.length, before);

  await keys.revoke(node.db, accountId, made?.id ?? '');
  const next = await prepareSandbox(node, known);
  t.not(next, known, 'a revoked key stays revoked');
  t.equal((await keys.authenticate(node.db, next)).accountId, accountId);
});

t.test('a look-up of the sandbox that fails once, as on a very busy machine, does not end the start', async (t) => {
  const node = await startTestNode(t);
  const failed: string[] = [];
  const resolve: typeof node.surroundings.resolve = async (name, type) => {
    if (failed.length > 0) return node.surroundings.resolve(name, type);
    failed.push(`${type} ${name}`);
    throw Object.assign(new Error(`query${type} ESERVFAIL ${name}`), { code: 'ESERVFAIL' });
  };
  const busy = { ...node, surroundings: { ...node.surroundings, resolve } };
  t.ok((await keys.authenticate(node.db, await prepareSandbox(busy, undefined))).accountId);
  t.equal(failed.length, 1);
  t.match(await node.db.prisma.domain.findFirst({ where: { domain: 'example.test' } }), { status: 'verified' });
});
