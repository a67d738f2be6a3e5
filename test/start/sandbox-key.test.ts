import t from 'tap';
import * as keys from '../../src/core/accounts/keys.ts';
import { prepareSandbox } from '../../src/node/first-screen.ts';
import { StartError } from '../../src/process/start-error.ts';
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

t.test('the start of the sandbox ends if its look-ups go on failing, and at once after any other error', async (t) => {
  const node = await startTestNode(t);
  const prepareWith = (resolve: typeof node.surroundings.resolve) =>
    prepareSandbox({ ...node, surroundings: { ...node.surroundings, resolve } }, undefined);
  const failed: string[] = [];
  const failing = prepareWith(async (name, type) => {
    failed.push(`${type} ${name}`);
    throw Object.assign(new Error(`query${type} ESERVFAIL ${name}`), { code: 'ESERVFAIL' });
  });
  await t.rejects(failing, {
    message:
      /^the sandbox's own domain could not be verified \(verification: .* failed temporarily .*\): start again when /,
    constructor: StartError,
  });
  t.ok(failed.length > 1);
  t.equal(failed.length, 5 * new Set(failed).size, 'of each record five times');
  const { db } = node;
  let queries = 0;
  const broken: typeof db = {
    ...db,
    transaction: async () => {
      queries += 1;
      throw new Error('a defect');
    },
  };
  await t.rejects(prepareSandbox({ ...node, db: broken }, undefined), { message: 'a defect' });
  t.equal(queries, 1);
});
