import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLog } from '../src/log.ts';

t.test('lines that the disk of the log has no room for are lost, and counted once there is room', async (t) => {
  // Every write to it finds no space.
  const fd = openSync('/dev/full', 'a');
  const log = createLog('info', Object.assign(Object.create(process.stdout), { fd, isTTY: false }));
  for (let line = 0; line < 3; line += 1) log.info({ line }, 'lost');
  const path = join(t.testdir({}), 'log');
  closeSync(fd);
  const opened = openSync(path, 'a');
  t.teardown(() => closeSync(opened));
  t.equal(opened, fd, 'the next one gets its number');
  for (let line = 3; line < 5; line += 1) log.info({ line }, 'kept');
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { level: 40, lines: 3, error: /ENOSPC/, msg: 'lines of the log were lost, as they could not be written' },
      { line: 3, msg: 'kept' },
      { line: 4, msg: 'kept' },
    ],
  );
});
