import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { silentLog } from '../../src/log.ts';
import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually, startTestNode, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { scheduleMany } from '../support/scheduled.ts';

const encryptionKey = testKey(11);
const person = 'ann@many.test';
const emails = 1_500;

t.test('S16: an erasure continues after kill -9, and counts each email once', async (t) => {
  const databaseUrl = await createDatabase();
  const db = connect(databaseUrl, silentLog, 5);
  t.teardown(() => db.close());
  const sender = await buildSender(db, encryptionKey);
  await scheduleMany(db, sender, { emails, to: 'many.test', at: new Date(Date.now() + 3_600_000) });
  await db.query({
    text: `UPDATE emails SET "to" = ARRAY[$1::text], recipient_addresses = ARRAY[$1::text]`,
    values: [person],
  });
  await db.query({ text: 'UPDATE recipients SET address = $1', values: [person] });
  const env = testEnv(databaseUrl, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api' });
  const first = await startSendwright(env);
  // Half way it reaches one that somebody has locked.
  const reached = Promise.withResolvers<void>();
  const killed = Promise.withResolvers<void>();
  t.teardown(async () => killed.resolve());
  const inHand = db.transaction(async (tx) => {
    const half = `SELECT id FROM emails ORDER BY id OFFSET ${emails / 2} LIMIT 1`;
    const hold = () => tx.query({ text: `SELECT FROM email_contents WHERE email_id = (${half}) FOR UPDATE` });
    await hold();
    reached.resolve();
    // Idle transactions are ended.
    while ((await Promise.race([killed.promise.then(() => 'killed'), sleep(1_000)])) !== 'killed') await hold();
  });
  await reached.promise;
  t.teardown(() => first.end('SIGKILL'));
  const asked = await first.call('POST', '/api/v1/recipients/erase', { key: sender.key, body: { address: person } });
  const { id } = asked.body.erasure;
  const counts = async () => {
    const { counts, doneAt } = await db.prisma.erasure.findUniqueOrThrow({ where: { id } });
    return { ...(counts as { emails?: number; canceled?: number }), doneAt };
  };
  await eventually(async () => ((await counts()).emails ?? 0) > 0);
  t.equal(await first.end('SIGKILL'), 'SIGKILL');
  killed.resolve();
  await inHand;
  const { emails: erased = 0, doneAt } = await counts();
  t.ok(doneAt === null && erased > 0 && erased < emails, `${erased} of ${emails} were erased`);

  const second = await startTestNode(t, env);
  const done = await eventually(async () => {
    const now = await counts();
    return now.doneAt && now;
  });
  t.match(done, { emails, canceled: emails, contents: emails, recipients: emails });
  const [left] = await db.query({
    text: `SELECT (SELECT count(*)::int FROM emails WHERE "to" <> '{erased-1}' OR status <> 'canceled') AS emails,
                  (SELECT count(*)::int FROM email_contents) AS contents,
                  (SELECT count(*)::int FROM recipients WHERE address <> 'erased-1' OR next_attempt_at IS NOT NULL) AS recipients`,
  });
  t.strictSame(left, { emails: 0, contents: 0, recipients: 0 });
  t.match((await second.call('GET', '/api/v1/emails?status=canceled', { key: sender.key })).body, { count: emails });
});
