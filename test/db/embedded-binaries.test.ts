import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { findBinaries, readable, serverUser } from '../../src/db/postgres-binaries.ts';

const user = serverUser();

/** The package as it is installed without its install script: it has no library links. */
async function unlinked(t: Test): Promise<{ home: string; native: string }> {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'send wright ü '));
  fs.chmodSync(home, 0o755);
  t.teardown(() => fs.rmSync(home, { recursive: true, force: true }));
  // Found as ourselves: the server's user may not be able to enter the project.
  const { postgres } = await findBinaries(undefined, []);
  const native = path.join(home, 'package', 'native');
  fs.cpSync(path.resolve(postgres, '..', '..'), native, {
    recursive: true,
    filter: (file) => !fs.lstatSync(file).isSymbolicLink(),
  });
  return { home, native };
}

t.test('missing library links are created', async (t) => {
  const { native } = await unlinked(t);
  const found = readable(native, user, [], 'copy');
  t.equal(found.postgres, path.join(native, 'bin', 'postgres'), 'where it is');
  t.match(found.major, /^\d+$/);
});

t.test("a package that the server's user cannot enter is copied, once", { skip: !user && 'needs root' }, async (t) => {
  const { home, native } = await unlinked(t);
  fs.chmodSync(path.dirname(native), 0o700);
  fs.writeFileSync(path.join(home, 'file'), '');
  const places = [path.join(home, 'file', 'no folder'), path.join(home, 'place')];
  const found = readable(native, user, places, 'copy');
  t.equal(found.initdb, path.join(home, 'place', 'copy', 'bin', 'initdb'), 'in the first place that works');
  const made = fs.statSync(found.postgres).ino;
  t.equal(fs.statSync(readable(native, user, places, 'copy').postgres).ino, made);
  t.same(fs.readdirSync(path.join(home, 'place')), ['copy']);

  t.throws(() => readable(native, user, [], 'copy'), /cannot run as user .+: .*Permission denied/s);
  fs.chmodSync(path.join(home, 'place', 'copy'), 0o777);
  t.throws(
    () => readable(native, user, places, 'copy'),
    /belongs to another user/,
    'what others can change is not run',
  );
});
