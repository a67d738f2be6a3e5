import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { commands } from '../../src/cli/commands.ts';
import { variables } from '../../src/config/variables.ts';
import { operations } from '../support/contract.ts';
import { repository } from './reading.ts';

const documents = globSync(['*.md', 'docs/*.md'], { cwd: repository }).sort();
const textOf = (path: string) => readFileSync(join(repository, path), 'utf8');
const withoutCode = (text: string) => text.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');

/** The anchor that GitHub makes of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
const anchorsOf = (path: string) =>
  [...withoutCode(textOf(path)).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading ?? ''));

t.test('every link between documents leads to an existing file and heading', async (t) => {
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

t.test('the index of decisions lists each of them once, in order', async (t) => {
  const text = textOf('docs/decisions.md');
  const decisions = [...text.matchAll(/^## (\d{4}-\d{2}-\d{2}) (.+)$/gm)].map(([, day = '', title = '']) => ({
    day,
    title,
  }));
  const listed = [...text.matchAll(/^- \[(.+)\]\(#(.+)\)$/gm)].map(([, title = '', anchor = '']) => ({
    title,
    anchor,
  }));
  t.ok(decisions.length > 200);
  t.strictSame(
    listed.map(({ title, anchor }) => `${title} ${anchor}`).sort(),
    decisions.map(({ day, title }) => `${title} ${anchorOf(`${day} ${title}`)}`).sort(),
  );
  const days = decisions.map(({ day }) => day);
  t.strictSame(days, [...days].sort().reverse());
});

t.test('every variable and command that a document names exists', async (t) => {
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

/** The calls that a row of the table names: `…` stands for the path before, or its subpaths. */
function callsOf(row: string): string[] {
  const [cell = ''] = row.split(' | ');
  const calls: string[] = [];
  let methods: string[] = [];
  let [method, whole] = ['GET', ''];
  let last: string[] = [];
  for (const [, span = ''] of cell.matchAll(/`([^`]+)`/g)) {
    const [, verb, path] = /^([A-Z]+)? ?(\S+)?$/.exec(span) ?? [];
    if (verb) methods.push(verb);
    if (!path) continue;
    if (methods.length > 0) method = methods.at(-1) ?? method;
    const rest = path.replace('…', '').replace(/\?.*/, '');
    const above = [whole, ...last.map((one) => one.replace(/\/[^/]+$/, ''))];
    const found = path.startsWith('…') ? above.map((one) => one + rest) : [rest];
    if (!path.startsWith('…')) whole = rest;
    last = found;
    calls.push(...(methods.length > 0 ? methods : [method]).flatMap((one) => found.map((way) => `${one} ${way}`)));
    methods = [];
  }
  return calls;
}

t.test('the table of calls is complete', async (t) => {
  const page = textOf('docs/calls.md');
  const named = new Set(page.split('\n').flatMap((line) => (line.startsWith('| `') ? callsOf(line) : [])));
  const missing = operations
    .map(({ method, path }) => `${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`)
    .filter((call) => !named.has(call));
  t.strictSame(missing, []);
  const stats = operations.find(({ operation }) => operation.operationId === 'getStats');
  const groups = stats?.operation.parameters?.find(({ name }) => name === 'group_by')?.schema.enum as string[];
  const row = page.split('\n').find((line) => line.startsWith('| `GET /api/v1/stats`')) ?? '';
  t.strictSame(
    groups.filter((group) => !row.includes(`\`${group}\``)),
    [],
  );
});

/** Of other services, of Node, and of our tests. */
const theirs = [
  'POSTMARK_API_TEST',
  'NODE_OPTIONS',
  'UV_THREADPOOL_SIZE',
  'TEST_SERVER_URL',
  'SCHED_IDLE',
  'SSL_CERT_FILE',
  'NODE_EXTRA_CA_CERTS',
];
