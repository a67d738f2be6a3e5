import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { isUnavailable } from '../../src/db/errors.ts';
import { silentLog } from '../../src/log.ts';

t.test('a database that is away counts as away over a socket too: without a file, or if nobody listens', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sendwright-away-'));
  t.teardown(() => fs.rmSync(folder, { recursive: true, force: true }));
  const db = connect(
    `postgresql://someone:secret@localhost:5432/nothing?host=${encodeURIComponent(folder)}`,
    silentLog,
  );
  t.teardown(() => db.close());
  const failures = async () =>
    (
      await Promise.allSettled([
        db.query({ text: 'SELECT 1' }),
        db.transaction((tx) => tx.query({ text: 'SELECT 1' })),
        db.prisma.account.count(),
      ])
    ).map((result) => (result.status === 'rejected' ? result.reason : undefined));

  for (const error of await failures()) t.ok(isUnavailable(error), `no file: ${error}`);

  const socket = path.join(folder, '.s.PGSQL.5432');
  const killed = net.createServer().listen(socket);
  await new Promise((resolve) => killed.once('listening', resolve));
  fs.linkSync(socket, `${socket}.kept`);
  await new Promise((resolve) => killed.close(resolve));
  fs.renameSync(`${socket}.kept`, socket);
  for (const error of await failures()) t.ok(isUnavailable(error), `nobody listens: ${error}`);
});
