import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import t from 'tap';
import { isRun } from './markdown.ts';
import { openPlace } from './place.ts';
import { documentOf, read, repository } from './reading.ts';

/** Each of these has a server of its own, as they make the same domains; the others get along on one. */
const alone = ['README.md', 'docs/api-guide.md'];
const others = globSync('docs/*.md', { cwd: repository })
  .filter((path) => !alone.includes(path) && documentOf(path).some(isRun))
  .sort();

const skip = spawnSync('curl', ['--version']).error !== undefined && 'curl is not installed';

for (const documents of [...alone.map((path) => [path]), others]) {
  t.test(`${documents.join(', ')}: each block does what it shows`, { skip }, async (t) => {
    const place = await openPlace(t);
    for (const path of documents) {
      const { ran, wrong } = await read(documentOf(path), place);
      t.ok(ran > 0);
      t.same(wrong, [], path);
    }
  });
}
