import t from 'tap';
import { heldNote, pausedUntil } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { buildSender, builtPassword } from '../support/build.ts';
import { type Json, operations } from '../support/contract.ts';
import { createDatabase } from '../support/db.ts';
import { startGate } from '../support/gate.ts';
import { startHook } from '../support/hook.ts';
import { dayLasting } from '../support/midnight.ts';
import { type Answer, type CallOptions, eventually, startTestNode } from '../support/node.ts';
import { type DescribedOperation, encryptionKey, served as servedBy, startCaller, today } from './scene.ts';

/** The documented errors for a status; empty for an answer that is not an error. */
function errorsOf({ operation }: DescribedOperation, status: string): string[] {
  const schema = operation.responses[status]?.content['application/json']?.schema ?? {};
  const choices = [schema, ...((schema.anyOf ?? []) as Json[])];
  return choices.flatMap(({ properties }) => {
    const { enum: values, const: only } =
      (properties as Record<string, { enum?: string[]; const?: string }>)?.error ?? {};
    return values ?? (only ? [only] : []);
  });
}

/** A documented answer, and the request that should get it. */
type Case = [answer: string, options?: Parameters<Awaited<ReturnType<typeof startCaller>>['call']>[1]];

/** The most bytes in a body, of operations with more than usual. */
const largest = [
  { operations: /^sendBatch$/, limit: 64 * 1024 ** 2 },
  { operations: /^sendEmail$|^rescheduleEmail$|Template$/, limit: 40 * 1024 ** 2 },
  { operations: /^importSuppressions$/, limit: 4 * 1024 ** 2 },
  { operations: /^resendEmail$/, limit: 1024 ** 2 },
];

t.test('every documented answer is given', async (t) => {
  const gate = await startGate(await createDatabase());
  t.teardown(() => gate.close());
  const hook = await startHook(t);
  const env = { DATABASE_URL: gate.url, ALLOW_PRIVATE_NETWORKS: 'true', ROLES: 'api,webhooks' };
  const caller = await startCaller(t, env, hook.url);
  const { node, call, key, admin, from } = caller;
  const slow = await startTestNode(t, { ...env, ENCRYPTION_KEY: encryptionKey.toString('hex'), RATE_LIMIT: '1/1' });
  const seen = new Set<string>();
  const note = ({ operation }: DescribedOperation, { status, body }: Answer): string => {
    const name = `${operation.operationId} ${status}${status < 400 ? '' : ` ${body.error}`}`;
    seen.add(name);
    return name;
  };
  const exampleOf = ({ operation }: DescribedOperation) =>
    operation.requestBody && today(operation.requestBody.content['application/json']?.example);
  const served: typeof call = (one, options) => servedBy(() => call(one, options));
  /** The same kind of request to every operation that it suits. */
  const holdAll = async (
    options: (one: DescribedOperation) => Parameters<typeof call>[1] | null | false,
    ask: typeof call = served,
  ) => {
    for (const one of operations) {
      const given = options(one);
      if (given) note(one, await ask(one, { body: exampleOf(one), ...given }));
    }
  };
  const hold = async (cases: Case[]) => {
    for (const [expected, options] of cases) {
      const one = operations.find(({ operation }) => operation.operationId === expected.split(' ')[0]);
      if (!one) throw new Error(`there is no operation for ${expected}`);
      const answer = await served(one, { body: exampleOf(one), ...options });
      t.equal(note(one, answer), expected, String(answer.body.detail));
    }
  };
  const secured = ({ operation }: DescribedOperation) => operation.security.length > 0;
  const suspended = await buildSender(node.db, encryptionKey);
  const theirs = {
    key: suspended.key,
    token: await caller.logIn(suspended.account.email, suspended.account.password),
  };
  const suspend = { token: admin, body: { suspended: true } };
  await node.call('PATCH', `/api/v1/admin/accounts/${suspended.account.id}`, suspend);

  t.test('those that every operation of a kind can give', async () => {
    await holdAll((one) => secured(one) && { key: undefined, token: undefined });
    await holdAll((one) => secured(one) && theirs);
    for (const id of [newId(), '\0']) await holdAll(({ path }) => path.includes('{') && { id });
    await holdAll(({ path }) => path.startsWith('/api/') && { query: '?unknown=1' });
    await holdAll(({ operation }) => operation.requestBody && { body: '[]' });
    await holdAll(({ operation }) => {
      const parameter = operation.parameters?.find((one) => one.in === 'query');
      return parameter && { query: `?${parameter.name}=%00` };
    });
    await holdAll(({ operation }) => operation.requestBody && { headers: { 'Content-Type': 'text/plain' } });
    await holdAll(({ operation: { operationId, requestBody } }) => {
      const { limit } = largest.find(({ operations }) => operations.test(operationId)) ?? { limit: 64 * 1024 };
      return requestBody && { body: ' '.repeat(limit + 1) };
    });
    await slow.call('GET', '/api/v1/emails', { key });
    for (const one of operations) {
      if (!one.operation.security.some(({ apiKey }) => apiKey)) continue;
      // A call that takes longer than a second leaves room for the next.
      for (let round = 0, said = ''; round < 30 && !said.includes(' 429 '); round += 1)
        said = note(one, await slow.call(one.method, caller.pathOf(one), { key, body: exampleOf(one) }));
    }
  });

  t.test('those of some operations', async () => {
    const email = { from, to: 'a@b.test', subject: 's', text: 't' };
    const poor = await buildSender(node.db, encryptionKey);
    await dayLasting(60_000);
    const theirLast = { key: poor.key, body: { ...email, from: poor.from } };
    const { id: sent } = (await node.call('POST', '/api/v1/emails', theirLast)).body.email;
    await node.db.query({
      text: `UPDATE accounts SET plan = 'free', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = 100 WHERE id = $1`,
      values: [poor.account.id],
    });
    const { id: held } = (await node.call('POST', '/api/v1/emails', { key, body: email })).body.email;
    await node.db.query({
      text: 'UPDATE recipients SET waiting_for = $2, next_attempt_at = $3, job_id = NULL WHERE email_id = $1',
      values: [held, heldNote, pausedUntil],
    });
    const { id: waiting } = (await node.call('POST', '/api/v1/emails', { key, body: email })).body.email;
    const once = { 'Idempotency-Key': 'once' };
    await hold([
      ['sendEmail 200', { body: email, headers: once }],
      ['sendEmail 409 conflict', { body: { ...email, subject: 'other' }, headers: once }],
      ['sendEmail 400 from domain not verified'],
      ['sendEmail 429 quota exceeded', theirLast],
      ['resendEmail 429 quota exceeded', { key: poor.key, id: sent, body: {} }],
      ['sendBatch 409 conflict', { headers: once }],
      ['resendEmail 200', { body: {} }],
      ['resendEmail 409 conflict', { headers: once, body: {} }],
      ['sendBatch 200'],
      ['rescheduleEmail 200'],
      ['releaseEmail 409 conflict'],
      ['releaseEmail 200', { id: held }],
      ['stopEmail 200', { id: waiting }],
      ['stopEmail 409 conflict', { id: waiting }],
      ['stopEmails 200'],
      ['cancelEmail 200'],
      ['cancelEmail 409 conflict'],
      ['rescheduleEmail 409 conflict'],
      ['addCredit 200', { headers: once }],
      ['addCredit 409 conflict', { body: { amount: 7 }, headers: once }],
      ['createTemplate 201'],
      ['changeTemplate 200'],
      ['renderTemplate 200', { body: { variables: { ORDER: 1 } } }],
      ['publishTemplate 200', { body: {} }],
      ['publishTemplate 409 conflict', { body: { updated_at: '2026-01-01T00:00:00Z' } }],
      ['changeTemplate 200', { body: { html: null, text: null } }],
      ['publishTemplate 400 invalid request', { body: {} }],
      ['addSuppression 200'],
      ['importSuppressions 200'],
      ['removeSuppression 200'],
      ['addDomain 200'],
      ['addDomain 400 domain already exists'],
      ['verifyDomain 200'],
      ['createKey 200'],
      ['createWebhook 201'],
      ['testWebhook 200'],
      ['replayWebhook 200'],
      ['retryWebhookDelivery 200'],
      ['rotateWebhookSecret 200'],
      ['changeWebhook 200', { body: { status: 'disabled' } }],
      ['testWebhook 409 conflict'],
      ['replayWebhook 409 conflict'],
      ['retryWebhookDelivery 409 conflict'],
    ]);
    await node.db.query({ text: 'DELETE FROM email_contents WHERE email_id = $1', values: [sent] });
    await hold([
      ['getEmailContent 410 gone', { key: poor.key, id: sent }],
      ['resendEmail 410 gone', { key: poor.key, id: sent }],
    ]);
    // More than the buffers of a connection hold, so that two unread exports are in progress.
    await node.db.query({
      text: `INSERT INTO attachments (account_id, sha256, content, last_used_at)
             SELECT $1, sha256(convert_to(n::text, 'utf8')), $2, now() FROM generate_series(1, 3) n`,
      values: [caller.account.id, Buffer.alloc(8 * 1024 * 1024)],
    });
    const unread = await Promise.all(
      [1, 2].map(() =>
        fetch(`${node.baseUrl}/api/v1/account/export`, { headers: { Authorization: `Bearer ${caller.token}` } }),
      ),
    );
    await hold([['exportAccount 429 rate limited'], ['exportSuppressions 429 rate limited']]);
    for (const { body } of unread) await body?.cancel();
    const { token } = caller;
    await eventually(async () => (await node.call('GET', '/api/v1/suppressions/export', { token })).status === 200);
    await node.db.query({ text: 'DELETE FROM attachments WHERE account_id = $1', values: [caller.account.id] });
    // The sandbox publishes every record it is asked for, except for this name, which does not exist there.
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'nxdomain.test' } })).body;
    await hold([['verifyDomain 400 dns verification failed', { id: domain.id }]]);
    // Everything else: calls that read, and those that are new since this was written.
    const isSeen = (id: string) => [...seen].some((name) => name.startsWith(`${id} 2`));
    await holdAll(({ method, operation }) => method !== 'DELETE' && !isSeen(operation.operationId) && {});
    await hold(
      ['removeTemplate', 'revokeKey', 'removeWebhook', 'removeDkimKey', 'removeDomain'].map(
        (id): Case => [`${id} 200`],
      ),
    );
    // The domain of the sent email is gone.
    await hold([['resendEmail 400 from domain not verified', { body: {} }]]);
    await hold([
      ['changePassword 403 forbidden'],
      ['changePassword 200', { body: { current_password: builtPassword, new_password: 'a new password' } }],
    ]);
    const another = await caller.logIn(caller.account.email, caller.account.password);
    await hold([['endSession 200', { token: another }]]);
  });

  t.test('those to a login, on any node: AUTH-06', async (t) => {
    const { email, password } = suspended.account;
    await node.db.prisma.loginFailure.deleteMany();
    await hold([
      ['logIn 200', { body: { email: 'admin@example.test', password: node.adminPassword } }],
      ['logIn 403 forbidden', { body: { email, password } }],
      ['createSession 200', { body: { email: 'admin@example.test', password: node.adminPassword } }],
      ['createSession 403 forbidden', { body: { email, password } }],
    ]);
    const wrong = { body: { email, password: 'wrong' } };
    const servedSlowly = (options: CallOptions) => servedBy(() => slow.call('POST', '/api/v1/auth/login', options));
    for (let round = 0; round < 5; round += 1) {
      await hold([['logIn 401 unauthorized', wrong]]);
      t.equal((await servedSlowly(wrong)).status, 401);
    }
    for (let round = 0; round < 10; round += 1) await hold([['changePassword 403 forbidden', { token: caller.token }]]);
    await hold([
      ['changePassword 429 rate limited', { token: caller.token }],
      ['logIn 429 rate limited', { body: { email, password } }],
      ['createSession 429 rate limited', { body: { email, password } }],
      ['createSession 401 unauthorized', { body: { email: 'nobody@example.test', password } }],
    ]);
    t.equal((await servedSlowly({ body: { email, password } })).status, 429);
    await node.db.prisma.loginFailure.deleteMany();
  });

  t.test('those to a broken database', async () => {
    gate.set('shut');
    await holdAll(() => ({}), call);
    gate.set('open');
    await eventually(async () => (await node.call('GET', '/readyz')).status === 200);
    const tables = ['users', 'api_keys', 'recipients'];
    for (const table of tables) await node.db.query({ text: `ALTER TABLE ${table} RENAME TO old_${table}` });
    await holdAll(() => ({}), call);
    for (const table of tables) await node.db.query({ text: `ALTER TABLE old_${table} RENAME TO ${table}` });
  });

  t.test('none is missing', async (t) => {
    const expected = operations.flatMap((one) =>
      Object.keys(one.operation.responses).flatMap((status) =>
        (Number(status) < 400 ? [''] : errorsOf(one, status).map((error) => ` ${error}`)).map(
          (error) => `${one.operation.operationId} ${status}${error}`,
        ),
      ),
    );
    t.ok(expected.length > 350, `${expected.length} answers`);
    t.strictSame(
      expected.filter((one) => !seen.has(one)),
      [],
    );
  });
});
