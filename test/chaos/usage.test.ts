import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { nothing, onlyNumber } from '../support/command-line.ts';
import { choose } from './choice.ts';
import { readOptions, usage } from './options.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> };
const tools = Object.entries(scripts).flatMap(([name, line]) => {
  const [file] = /test\/\S+\.ts$/.exec(line) ?? [];
  return file ? [{ name, file }] : [];
});

t.test('every tool of package.json checks its command line before it does anything', async (t) => {
  t.ok(tools.length >= 12);
  for (const { name, file } of tools) {
    const source = readFileSync(`${root}${file}`, 'utf8');
    const asking = source.search(/\basked\(/);
    t.ok(asking > 0, `${name}: --help shows the usage`);
    t.notMatch(
      source.slice(0, Math.max(asking, 0)),
      /^(const .+ = )?await |process\.argv/m,
      `${name}: and starts nothing`,
    );
  }
});

t.test('--help is an answer, and an unknown option is one line and the usage', async (t) => {
  const run = (file: string, option: string) =>
    spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', file, option], {
      cwd: root,
      encoding: 'utf8',
    });
  const { status, stdout, stderr } = run('test/chaos/chaos.ts', '--help');
  t.strictSame([status, stdout, stderr], [0, `${usage}\n`, '']);
  const wrong = run('test/chaos/chaos.ts', '--round=3');
  t.strictSame([wrong.status, wrong.stdout, wrong.stderr], [2, '', `Unknown option '--round'\n\n${usage}\n`]);
  const tooMuch = run('test/bench/latency.ts', '3');
  t.equal(tooMuch.status, 2);
  t.match(tooMuch.stderr, /^takes no arguments, not 3\n\nnpm run latency/);
});

t.test('every option of npm run chaos is in its usage', async (t) => {
  const named = [...usage.matchAll(/^ {2}(--\w+)( \S+)?/gm)].map(
    ([, option, value]) => `${option}${value ? '=1' : ''}`,
  );
  t.equal(named.length, 8);
  for (const option of named) t.doesNotThrow(() => readOptions([option]), option);
});

t.test('--only takes the scenario of this name, or those that begin with it if there is none', async (t) => {
  const chosen = (...only: string[]) =>
    choose({ only, long: false, stages: [] })
      .map(({ name }) => name)
      .sort();
  t.strictSame(chosen('random', 'two-nodes'), ['random', 'two-nodes'], 'and not random-bytes');
  t.strictSame(chosen('stages'), ['stages-after', 'stages-sending']);
  t.throws(() => chosen('rand'), /no such scenario: rand/);
});

t.test('a tool that takes one number takes nothing else', async (t) => {
  t.equal(onlyNumber([], 7), 7);
  t.equal(onlyNumber(['12'], 7), 12);
  t.throws(() => onlyNumber(['twelve'], 7), /must be a whole number of at least 1, not twelve/);
  t.throws(() => onlyNumber(['1', '2'], 7), /takes one number, not 1 2/);
  t.throws(() => nothing(['x']), /takes no arguments, not x/);
});
