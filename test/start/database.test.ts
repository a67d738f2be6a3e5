import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import pg from 'pg';
import t from 'tap';
import { refuseSettings, refuseSharing } from '../../src/db/check.ts';
import { connect, type Statement } from '../../src/db/client.ts';
import { startErrorOf } from '../../src/db/failure.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { figure } from '../support/figure.ts';
import { testEnv } from '../support/node.ts';
import { administer, lastWordsOf, makeFolder, makeRole, refusalOf, urlFor } from '../support/start.ts';

t.test('a database that cannot be reached', async (t) => {
  const dataDir = await makeFolder(t);
  const env = (url: string) => testEnv(url, { DATA_DIR: dataDir });
  const { url } = await makeRole(t, '');
  t.match(
    await lastWordsOf(env(url.replace(':secret@', ':wrong@'))),
    /^the database refuses \(password authentication failed for user "r_\w+"\): set the right user and password in DATABASE_URL$/,
  );
  t.match(
    await refusalOf(env(await urlFor({ database: 'nowhere' }))),
    /^the database refuses \(database "nowhere" does not exist\): create it, or name another in DATABASE_URL$/,
  );
  t.match(
    await refusalOf(env('postgres://u:p@127.0.0.1:1/x')),
    /^the database cannot be reached \(connect ECONNREFUSED 127\.0\.0\.1:1\): check DATABASE_URL and its server$/,
  );
  t.match(await refusalOf(env('postgres://u:p@127.0.0.1:1/x?sslrootcert=/nowhere')), /ENOENT.*: check DATABASE_URL/);
  const ofUnknown = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  t.equal(
    startErrorOf(ofUnknown, true)?.message,
    'the database cannot be reached (self-signed certificate): add sslrootcert= to DATABASE_URL, with the path of the PEM file of its authority',
  );
});

t.test('a database that cannot store every character', async (t) => {
  const name = `latin_${randomBytes(4).toString('hex')}`;
  await administer([`CREATE DATABASE ${name} ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER libc`]);
  t.teardown(() => administer([`DROP DATABASE ${name} WITH (FORCE)`]));
  t.equal(
    await refusalOf(testEnv(await urlFor({ database: name }), { DATA_DIR: await makeFolder(t) })),
    `the database "${name}" has the encoding LATIN1, which cannot hold all mail: set DATABASE_URL to one made with ENCODING 'UTF8' TEMPLATE template0`,
  );
});

t.test('a database that may lose what it has committed', async (t) => {
  const database = await createDatabase();
  const env = testEnv(database, { DATA_DIR: await makeFolder(t), ALLOW_UNSAFE_DATABASE: 'false' });
  const sentence = (names: string) =>
    `the database has ${names} off, so accepted mail can be lost: switch it on, or set ALLOW_UNSAFE_DATABASE=true`;
  const words = await lastWordsOf(env);
  t.equal(words, sentence('fsync, full_page_writes, synchronous_commit'));
  const name = new URL(database).pathname.slice(1);
  await administer([`ALTER DATABASE ${name} SET synchronous_commit = on`]);
  t.equal(await refusalOf(env), sentence('fsync, full_page_writes'));
  figure('P1', `a node on a database with fsync off ends with 1: "${words}"`);
});

t.test('a read-only database, such as a standby: QUE-10', async (t) => {
  const database = await createDatabase();
  const name = new URL(database).pathname.slice(1);
  await administer([`ALTER DATABASE ${name} SET default_transaction_read_only = on`]);
  t.equal(
    await refusalOf(testEnv(database, { DATA_DIR: await makeFolder(t) })),
    `the database "${name}" is read-only: set DATABASE_URL to the primary server, and default_transaction_read_only off`,
  );
  const db = connect(database, silentLog);
  t.teardown(() => db.close());
  const refused = await db.query({ text: 'SELECT FROM accounts FOR SHARE' }).catch((error) => error);
  t.equal(
    startErrorOf(refused)?.message,
    'the database refuses (cannot execute SELECT FOR SHARE in a read-only transaction): set DATABASE_URL to the primary server, and default_transaction_read_only off',
    'what commands say',
  );
});

t.test('a pooler that gives one session to several clients', async (t) => {
  const db = connect(await createDatabase(), silentLog);
  t.teardown(() => db.close());
  await db.session((one) =>
    db.session(async (other) => {
      t.equal(await refuseSharing(one, other), null);
      // What two clients of PgBouncer have in transaction mode, now and then, and those of a pooler that takes sessions in turn.
      const [third, fourth] = [1, 2].map((pid) => ({ query: async <Row>() => [{ pid }] as Row[] }));
      if (!third || !fourth) throw new Error('there are two');
      const orders = {
        'the last one': [one, other, other, other, one, other],
        'two in turn': [one, other, one, other, one, other],
        'four in turn': [one, other, third, fourth, one, other],
      };
      for (const [name, turns] of Object.entries(orders)) {
        const pooled = { query: <Row>(statement: Statement) => (turns.shift() ?? one).query<Row>(statement) };
        t.equal(
          await refuseSharing(pooled, pooled),
          'DATABASE_URL leads to a pooler that shares sessions between clients, such as PgBouncer in transaction mode: set it to PostgreSQL itself, or pool_mode to session',
          name,
        );
      }
    }),
  );
});

t.test('a pooler that refuses the options of connections until it is told to ignore them', async (t) => {
  const ignored = 'ignore_startup_parameters = options,statement_timeout,idle_in_transaction_session_timeout';
  // Those of 1.18 and 1.26, the second one where only `statement_timeout` and the like are ignored.
  for (const words of [
    'unsupported startup parameter: statement_timeout',
    'unsupported startup parameter in options: default_transaction_isolation',
  ])
    t.equal(
      startErrorOf(new pg.DatabaseError(words, words.length, 'error'), true)?.message,
      `the database cannot be reached (${words}): DATABASE_URL leads to a pooler; set it to PostgreSQL itself, or give PgBouncer pool_mode = session and ${ignored} (see docs/scaling.md)`,
    );
  t.match(await readFile(new URL('../../docs/scaling.md', import.meta.url), 'utf8'), `\`${ignored}\``);
});

t.test('a pooler that drops the options of connections', async (t) => {
  const role = await makeRole(t, '');
  // Its sessions have these options instead of ours.
  const named = new URL(role.url);
  named.searchParams.set('options', '-c jit=off');
  const [url, user] = [named.href, named.username];
  const refusalOfSessions = async () => {
    const db = connect(url, silentLog);
    return refuseSettings(db).finally(() => db.close());
  };
  const setForDatabase = (setting: string) => administer([`ALTER DATABASE ${role.name} SET ${setting}`]);
  await setForDatabase(`TimeZone = 'Etc/UTC'`);
  t.equal(await refusalOfSessions(), null);
  await setForDatabase(`TimeZone = 'Europe/Berlin'`);
  await setForDatabase(`default_transaction_isolation = 'serializable'`);
  const remedies = [
    `ALTER ROLE "${user}" SET default_transaction_isolation = 'read committed'`,
    `ALTER ROLE "${user}" SET TimeZone = 'UTC'`,
  ];
  t.equal(
    await refusalOf(testEnv(url, { DATA_DIR: await makeFolder(t) })),
    `the sessions of DATABASE_URL lack settings that statements rely on, as a pooler drops the options of connections: run ${remedies.join('; ')}`,
  );
  await administer(remedies);
  t.equal(await refusalOfSessions(), null);
});

t.test('a failed or altered migration', async (t) => {
  const dataDir = await makeFolder(t);
  const { name, url } = await makeRole(t, '');
  const env = testEnv(url, { DATA_DIR: dataDir });
  await administer(['CREATE TABLE accounts (of_somebody_else text)'], name);
  t.equal(
    await refusalOf(env),
    'migration 20261121000000_spine failed (relation "accounts" already exists): DATABASE_URL must name an empty database, or one that only Sendwright has changed',
  );
  const database = await createDatabase();
  const db = connect(database, silentLog);
  t.teardown(() => db.close());
  await db.query({ text: `UPDATE _prisma_migrations SET checksum = 'another' WHERE migration_name LIKE '%_webhooks'` });
  t.match(
    await refusalOf(testEnv(database, { DATA_DIR: dataDir })),
    /^migration \d+_webhooks was changed after it had been applied to this database: restore the release's own/,
  );
});
