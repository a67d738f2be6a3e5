import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { firstScreenOf, makeFolder, refusalOf } from '../support/start.ts';

t.test('an ENCRYPTION_KEY that the database was not used with', async (t) => {
  const dataDir = await makeFolder(t);
  const env = testEnv(await createDatabase(), { DATA_DIR: dataDir });
  const other = { ...env, ENCRYPTION_KEY: testKey(2).toString('hex') };
  await t.resolves(firstScreenOf(env));
  t.match(await refusalOf(other), /^ENCRYPTION_KEY is not the key of this database, .*: set the right key/);
  await t.resolves(firstScreenOf(env));

  // PGSSLMODE is for another server, and must not be the reason why this one stops.
  const generated = { DATA_DIR: await makeFolder(t), PGSSLMODE: 'require' };
  const embedded = await startSendwright(generated);
  t.equal(await embedded.end('SIGTERM'), 0);
  t.match(
    await refusalOf({ ...generated, ENCRYPTION_KEY: testKey(2).toString('hex') }),
    /^ENCRYPTION_KEY is not the key of this database/,
  );
});
