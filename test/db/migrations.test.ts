import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import t from 'tap';

const root = new URL('../../', import.meta.url);

t.test('no migration is edited: databases that have applied it would refuse to start', async (t) => {
  const noted = readFileSync(new URL('migrations.sha256', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  const known = new Map(noted.map((line) => [line.slice(66), line.slice(0, 64)]));
  const files = globSync('prisma/migrations/*/migration.sql', { cwd: root }).sort();
  for (const file of files) {
    const checksum = createHash('sha256')
      .update(readFileSync(new URL(file, root)))
      .digest('hex');
    const add = `note ${file} with sha256sum in test/db/migrations.sha256`;
    t.equal(known.get(file), checksum, known.has(file) ? `${file} is as it was released` : add);
  }
  t.strictSame([...known.keys()], files, 'none is missing');
});
