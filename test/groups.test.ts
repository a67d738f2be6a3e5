import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import t from 'tap';

const cwd = import.meta.dirname;

t.test('every folder of tests is run by a group', async (t) => {
  const folders = [...new Set(globSync('**/*.test.ts', { cwd }).map((file) => dirname(file)))].sort();
  t.ok(folders.length > 10);
  const parts = globSync('groups/*.ts', { cwd }).flatMap((file) => {
    const [, named = '', part = '1', of = '1'] =
      /runGroup\(\[([^\]]+)\](?:, \{ part: (\d), of: (\d) \})?\);/.exec(readFileSync(`${cwd}/${file}`, 'utf8')) ?? [];
    return Array.from(named.matchAll(/[^',\s]+/g), ([folder]) => ({ folder, part: Number(part), of: Number(of) }));
  });
  for (const folder of folders) {
    const own = parts.filter((one) => one.folder === folder).sort((one, other) => one.part - other.part);
    const all = Array.from({ length: own[0]?.of ?? 1 }, (_, index) => ({ folder, part: index + 1, of: own.length }));
    t.strictSame(own, all, `test/${folder}: name it in one of test/groups`);
  }
});
