import { appendFileSync, globSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { inspect } from 'node:util';
import './light-tap.ts';
import t from 'tap';

/**
 * Runs the test files of these folders, or every n-th of them, in this process. Loading and warming up the service
 * takes longer than most files.
 */
export async function runGroup(folders: string[], { part = 1, of = 1 } = {}): Promise<void> {
  const tests = resolve(import.meta.dirname, '..');
  const files = folders.flatMap((folder) => globSync(`${folder}/*.test.ts`, { cwd: tests }).sort());
  const chosen = files.filter((_, index) => index % of === part - 1);
  // An uncaught error is printed along with the running test.
  process.on('uncaughtExceptionMonitor', (error) => writeSync(2, `${inspect(error)}\n`));
  t.teardown(endInTime);
  // tap hands over a group when all of it is through, and `npm test` tells meanwhile how far they are.
  const through = process.env.TEST_THROUGH;
  if (through) t.on('subtestEnd', () => appendFileSync(through, '.'));
  const loading = (async () => {
    for (const file of chosen) await import(resolve(tests, file));
  })();
  // Starts first: tap ends once it has nothing to run, and would leave out the tests of a file that takes a while to
  // load.
  t.test(`${folders.join(', ')} (${part} of ${of}): ${chosen.length} files`, async (t) => {
    await t.resolves(loading);
  });
  await loading;
}

/** Something left open by a test would keep the group until tap's timeout, without a hint about what it is. */
function endInTime(): void {
  setTimeout(() => {
    const left = process.getActiveResourcesInfo().join(', ');
    writeSync(2, `The group has finished but does not end: a test has left something open (${left}).\n`);
    process.exit(1);
  }, 20_000).unref();
}
