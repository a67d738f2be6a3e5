import { spawnSync } from 'node:child_process';

/* Everything that must hold before a change goes in, what fails fastest first; the totals of the tests come last. */
const steps = [
  ['Format and lint (biome)', ['node_modules/.bin/biome', 'check', '.']],
  ['Types (tsc)', ['node_modules/.bin/tsc', '-p', 'tsconfig.check.json']],
  ['Types of the dashboard (tsc)', ['node_modules/.bin/tsc', '-p', 'src/dashboard/tsconfig.json']],
  ['Layers: who may import whom', ['scripts/test.mjs', 'test/layers.test.ts']],
];

/* A few dozen kills, an outage, cut connections and a frozen node, in two minutes: see docs/reliability.md. */
const chaos = ['run', '--silent', 'chaos', '--', '--only', 'stages,two-nodes,frozen,cuts,database,drain'];

for (const [title, args] of steps) step(title, process.execPath, args);
step('Kills, cuts and outages (npm run chaos)', 'npm', chaos);
step('All tests (npm test)', 'npm', ['test']);

function step(title, command, args) {
  console.log(`\n== ${title}`);
  const { status, signal, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (status === 0) return;
  console.log(`\n${title}: failed${error || signal ? ` (${error?.message ?? signal})` : ''}`);
  process.exit(status || 1);
}
