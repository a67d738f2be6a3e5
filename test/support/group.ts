import { globSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { inspect } from 'node:util';
import './light-tap.ts';
import t from 'tap';

/**
 * Runs the test files of these folders, or every n-th of them, in this process. Loading the service and warming it up
 * costs more than most files take.
 */
export async function runGroup(folders: string[], { part = 1, of = 1 } = {}): Promise<void> {
  const tests = resolve(import.meta.dirname, '..');
  const files = folders.flatMap((folder) => globSync(`${folder}/*.test.ts`, { cwd: tests }).sort());
  const chosen = files.filter((_, index) => index % of === part - 1);
  // Who throws what nobody catches is said by the test that was under way.
  process.on('uncaughtExceptionMonitor', (error) => writeSync(2, `${inspect(error)}\n`));
  t.teardown(endInTime);
  const loading = (async () => {
    for (const file of chosen) await import(resolve(tests, file));
  })();
  // It comes first: tap ends once it has nothing to run, and would leave out the tests of a file that takes a while to load.
  t.test(`${folders.join(', ')} (${part} of ${of}): ${chosen.length} files`, async (t) => {
    await t.resolves(loading);
  });
  await loading;
}

/** What a test left open would keep the group until tap's time is up, without a word of what it is. */
function endInTime(): void {
  setTimeout(() => {
    const left = process.getActiveResourcesInfo().join(', ');
    writeSync(2, `The group is done and does not end: a test has left something open (${left}).\n`);
    process.exit(1);
  }, 20_000).unref();
}
