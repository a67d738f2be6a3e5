import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';

const { MALLOC_ARENA_MAX: _, ...env } = process.env;
const arenas = (more: Record<string, string>) =>
  execFileSync(process.execPath, ['scripts/run.mjs', '-p', 'process.env.MALLOC_ARENA_MAX'], {
    env: { ...env, ...more },
    encoding: 'utf8',
  }).trim();

t.test('the server is started with an allocator that returns memory, unless somebody configures another', async (t) => {
  t.equal(arenas({}), '2');
  t.equal(arenas({ MALLOC_ARENA_MAX: '8' }), '8');
  // It has no types.
  const launcher = new URL('../../scripts/start/launch.mjs', import.meta.url).href;
  const { allocator } = await import(launcher);
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const stage = dockerfile.slice(dockerfile.lastIndexOf('FROM '));
  for (const [name, value] of Object.entries(allocator)) t.match(stage, `${name}=${value}`, 'in a container too');
});

t.test('its heap has the same limits however it is started', async (t) => {
  const print = 'process.execArgv.filter((flag) => /^--(max|heap)/.test(flag)).join()';
  const options = { env, encoding: 'utf8' } as const;
  const launched = execFileSync(process.execPath, ['scripts/run.mjs', '-p', print], options).trim();
  t.equal(launched, '--max-semi-space-size=32,--heap-growing-percent=100');
  const [, command = '[]'] = /^CMD (.*)$/m.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
  t.strictSame(JSON.parse(command), ['node', ...launched.split(','), 'dist/main.js']);
});
