import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { repository } from './reading.ts';

const textOf = (path: string) => readFileSync(join(repository, path), 'utf8');
const page = textOf('docs/threats.md');

/** What a row names: a test by its file and title, or a command. */
type Named = { path: string; title: string } | { command: string };

/** @returns null if it is not a row of a threat */
function rowOf(line: string): { id: string; named: string } | null {
  const [, id, named] = /^\| ([A-Z]+-\d\d) \| [^|]+ \| (.+) \|$/.exec(line) ?? [];
  return id && named ? { id, named } : null;
}

/** Titles follow the path of their file, in quotes, and may contain quotes themselves. */
function namedIn(cell: string): Named[] {
  let path = '';
  return cell.split(/; (?=`|")/).map((part): Named => {
    const [, file, command, title] = /^(?:`(test\/[^`]+)` — |`(npm run [^`]+)`$)?(?:"(.+)"$)?/.exec(part) ?? [];
    if (command) return { command };
    path = file ?? path;
    return { path, title: title ?? '' };
  });
}

const lines = page.split('\n').filter((line) => line.startsWith('| '));
const rows = lines.flatMap((line) => rowOf(line) ?? []);

/** In any quotes, as a test's title or, in `test/fuzz`, as a property's name. */
const holdsTitle = (source: string, title: string) =>
  [`'${title.replaceAll("'", "\\'")}'`, `"${title}"`, `\`${title}\``].some((quoted) => source.includes(quoted));

t.test('each threat is on the page once, with an existing test', async (t) => {
  const heads = lines.filter((line) => line.startsWith('| | '));
  t.equal(rows.length, lines.length - heads.length, 'each line of a table is the row of a threat');
  t.ok(rows.length > 100 && heads.length === 9, `${rows.length} threats in ${heads.length} tables`);
  const ids = rows.map(({ id }) => id);
  t.strictSame(
    ids.filter((id, at) => ids.indexOf(id) !== at),
    [],
    'none is there twice',
  );
  const { scripts } = JSON.parse(textOf('package.json'));
  const parts = globSync('test/{chaos/scenarios,fuzz}/*.ts', { cwd: repository }).map(textOf).join('\n');
  let tests = 0;
  for (const { id, named } of rows) {
    for (const one of namedIn(named)) {
      if ('command' in one) {
        const [, script = '', only = ''] = /^npm run (?:-s )?([\w:-]+)(?:.* --only (\S+))?/.exec(one.command) ?? [];
        if (!(script in scripts)) t.fail(`${id}: there is no script ${script}`);
        for (const name of only.split(',').filter(Boolean))
          if (!new RegExp(`name: '${name}['-]`).test(parts)) t.fail(`${id}: there is no ${name} for ${one.command}`);
        continue;
      }
      const { path, title } = one;
      if (!path || !title) t.fail(`${id}: cannot be read: ${named}`);
      else if (!existsSync(join(repository, path))) t.fail(`${id}: there is no ${path}`);
      else if (!holdsTitle(textOf(path), title)) t.fail(`${id}: ${path} has no test "${title}"`);
      tests += 1;
    }
  }
  t.ok(tests > 300, `${tests} tests are named`);
});

t.test('each threat is in the table of its kind, in order', async (t) => {
  for (const section of page.split('\n## ').slice(1)) {
    const kind = /\(([A-Z]+)\)$/m.exec(section)?.[1] ?? '';
    const ids = section.split('\n').flatMap((line) => rowOf(line)?.id ?? []);
    t.strictSame(ids, ids.filter((id) => id.startsWith(`${kind}-`)).sort(), kind);
  }
});
