import { refuseDatabase } from '../db/check.ts';
import { connect } from '../db/client.ts';
import { migrate as applyMigrations, schemaOf } from '../db/migrate.ts';
import { silentLog } from '../log.ts';
import { StartError } from '../process/start-error.ts';
import { createQueue } from '../queue.ts';
import type { Command } from './command.ts';
import { throwFirst, withServer } from './database.ts';

/** For this process alone: a start checks whether the database has enough for the nodes. */
const connections = 2;

/** So it is after nodes went back a release, and if the wrong release's command is run. */
const newer =
  'Nothing was applied: the schema is that of a newer version of Sendwright, with all that this version needs.';

export const migrate: Command = {
  help: [
    'Usage: sendwright migrate',
    '',
    'Applies the migrations that the database does not have yet, and creates or updates the tables of the queue. Every start',
    'does this too. Run it first if you start the nodes of a new release one by one.',
  ].join('\n'),
  async run(env, say, { progress }) {
    return withServer(env, say, async ({ config, url }) => {
      const db = connect(url, silentLog, connections);
      let isNewer: boolean;
      try {
        const demands = { connections, allowUnsafe: config.allowUnsafeDatabase };
        const refusal = await refuseDatabase(db, demands).catch(throwFirst(config));
        if (refusal) throw new StartError(refusal);
        isNewer = (await schemaOf(db).catch(throwFirst(config))) === 'newer';
      } finally {
        await db.close();
      }
      progress('Applying migrations');
      const applied = await applyMigrations(url);
      progress('Preparing the queue');
      const queue = createQueue(url, silentLog);
      await queue.start();
      await queue.stop();
      const already = isNewer ? newer : 'The schema is up to date.';
      const text = applied.length > 0 ? applied.map((name) => `applied ${name}`).join('\n') : already;
      return { json: { applied }, text };
    });
  },
};
