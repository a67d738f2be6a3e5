import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { commands } from '../../src/cli/run.ts';
import { variables } from '../../src/config-variables.ts';
import { repository } from './reading.ts';

const documents = globSync(['*.md', 'docs/*.md'], { cwd: repository }).sort();
const textOf = (path: string) => readFileSync(join(repository, path), 'utf8');
const withoutCode = (text: string) => text.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');

/** As GitHub names the place of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
const anchorsOf = (path: string) =>
  [...withoutCode(textOf(path)).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading ?? ''));

t.test('every link between documents leads to a file, and to a heading of it', async (t) => {
  t.ok(documents.length > 15);
  let count = 0;
  for (const path of documents) {
    for (const [, target = ''] of withoutCode(textOf(path)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      count += 1;
      const [file = '', anchor] = target.split('#');
      const found = file === '' ? path : join(dirname(path), file);
      if (!existsSync(join(repository, found))) t.fail(`${path}: there is no ${target}`);
      else if (anchor && !anchorsOf(found).includes(anchor)) t.fail(`${path}: ${found} has no heading for #${anchor}`);
    }
  }
  t.ok(count > 40);
});

t.test('every variable and every command that a document names is one that there is', async (t) => {
  const known = new Set(variables.map(({ name }) => name));
  const words = new Set(Object.keys(commands));
  for (const path of documents) {
    const text = textOf(path);
    for (const [, name = ''] of withoutCode(text).matchAll(/`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`/g))
      if (!known.has(name) && !theirs.includes(name)) t.fail(`${path}: there is no variable ${name}`);
    for (const [, command = ''] of text.matchAll(/(?:`|run -s )sendwright (?:-- )?([a-z]+(?: [a-z-]+)?)/g)) {
      const [first = ''] = command.split(' ');
      if (!words.has(command) && !words.has(first)) t.fail(`${path}: there is no command sendwright ${command}`);
    }
  }
  t.pass();
});

/** Of other services. */
const theirs = ['POSTMARK_API_TEST'];
