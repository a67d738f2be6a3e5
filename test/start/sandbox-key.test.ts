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
