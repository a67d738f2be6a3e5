import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import t from 'tap';
import { isRun } from './markdown.ts';
import { openPlace } from './place.ts';
import { documentOf, read, repository } from './reading.ts';

/** In the order in which somebody who does it all on one server reads them. */
const first = ['README.md', 'docs/api-guide.md'];
const others = globSync('docs/*.md', { cwd: repository })
  .filter((path) => !first.includes(path) && documentOf(path).some(isRun))
  .sort();

const skip = spawnSync('curl', ['--version']).error !== undefined && 'curl is not installed';

t.test('each block does what it shows, on a server where everything read before has been done', { skip }, async (t) => {
  const place = await openPlace(t);
  for (const path of [...first, ...others])
    await t.test(path, async (t) => {
      const { ran, wrong } = await read(documentOf(path), place.anotherTerminal());
      t.ok(ran > 0);
      t.same(wrong, [], path);
    });
});
