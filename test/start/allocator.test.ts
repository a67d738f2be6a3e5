import { execFileSync } from 'node:child_process';
import t from 'tap';

const { MALLOC_ARENA_MAX: _, ...env } = process.env;
const arenas = (more: Record<string, string>) =>
  execFileSync(process.execPath, ['scripts/run.mjs', '-p', 'process.env.MALLOC_ARENA_MAX'], {
    env: { ...env, ...more },
    encoding: 'utf8',
  }).trim();

t.test('the server is started with an allocator that gives memory back, unless somebody says otherwise', async (t) => {
  t.equal(arenas({}), '2');
  t.equal(arenas({ MALLOC_ARENA_MAX: '8' }), '8');
});
