import t from 'tap';
import { connectionsOfNode } from '../../src/node/database.ts';
import { testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { administer, firstScreenOf, makeFolder, makeRole, refusalOf } from '../support/start.ts';

t.test('a database whose role lacks permissions that a node needs', async (t) => {
  const dataDir = await makeFolder(t);
  const { name, url } = await makeRole(t, '', false);
  const env = testEnv(url, { DATA_DIR: dataDir });
  t.equal(
    await refusalOf(env),
    `the role "${name}" of DATABASE_URL cannot create tables: run GRANT CREATE, USAGE ON SCHEMA public TO "${name}" in the database "${name}"`,
  );
  await administer([`GRANT CREATE, USAGE ON SCHEMA public TO "${name}"`], name);
  t.equal(
    await refusalOf(env),
    `the role "${name}" of DATABASE_URL cannot create the queue's schema: run GRANT CREATE ON DATABASE "${name}" TO "${name}"`,
  );
  await administer([`GRANT CREATE ON DATABASE "${name}" TO "${name}"`]);
  await administer(
    ['CREATE SCHEMA other', `ALTER ROLE ${name} IN DATABASE ${name} SET search_path = other, public`],
    name,
  );
  await administer([`GRANT ALL ON SCHEMA other TO ${name}`], name);
  t.match(await refusalOf(env), /creates its tables in the schema "other", not in public: run ALTER ROLE/);
  await administer([`ALTER ROLE "${name}" IN DATABASE "${name}" SET search_path = public`], name);
  await t.resolves(firstScreenOf(env), 'following those lines is enough');

  await administer([`ALTER ROLE ${name} IN DATABASE ${name} SET default_transaction_read_only = on`]);
  t.match(await refusalOf(env), /is read-only: set DATABASE_URL to the primary server/);
  await administer([`ALTER ROLE ${name} IN DATABASE ${name} RESET default_transaction_read_only`]);
  await administer(['ALTER TABLE users OWNER TO CURRENT_USER'], name);
  t.match(
    await refusalOf(env),
    /^the database refuses \(permission denied for table users\): make the role of DATABASE_URL the owner/,
  );
});

t.test('too few connections', async (t) => {
  const dataDir = await makeFolder(t);
  const { name, url } = await makeRole(t, 'CONNECTION LIMIT 5');
  const env = testEnv(url, { DATA_DIR: dataDir });
  t.equal(
    await refusalOf(env),
    `the role "${name}" of DATABASE_URL can have 5 connections, but a node needs ${connectionsOfNode}: run ALTER ROLE "${name}" CONNECTION LIMIT ${connectionsOfNode}, or as many for each node`,
  );
  await administer([`ALTER ROLE ${name} CONNECTION LIMIT 0`]);
  t.match(await refusalOf(env), /^the database refuses \(too many connections for role "r_\w+"\): raise the limit/);
  await administer([`ALTER ROLE ${name} CONNECTION LIMIT ${connectionsOfNode}`]);
  await administer([`ALTER DATABASE ${name} CONNECTION LIMIT ${connectionsOfNode - 1}`]);
  t.match(
    await refusalOf(env),
    /^the database "r_\w+" accepts 21 connections, .*: run ALTER DATABASE "r_\w+" CONNECTION LIMIT/,
  );
  await administer([`ALTER DATABASE ${name} CONNECTION LIMIT ${connectionsOfNode}`]);

  // With exactly as many as it says, it never runs into the limit.
  const app = await startSendwright(env);
  const { status, body } = await app.call('POST', '/api/v1/auth/login', {
    body: { email: env.ADMIN_EMAIL, password: env.ADMIN_PASSWORD },
  });
  t.equal(status, 200);
  const key = (await app.call('POST', '/api/v1/keys', { token: body.token, body: { name: 'many' } })).body.key;
  const email = { from: 'a@example.test', subject: 's', text: 't' };
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, at) =>
      app.call('POST', '/api/v1/emails', { key, body: { ...email, to: `a${at}@b${at % 20}.test` } }),
    ),
  );
  t.same(new Set(answers.map((answer) => answer.status)), new Set([200]));
  t.equal(await app.end('SIGTERM'), 0);
  t.notMatch(app.stdout(), /too many connections/);
});
