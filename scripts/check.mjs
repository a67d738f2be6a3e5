import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/* Everything that must hold before a change goes in, what fails fastest first; the totals of the tests come last. */
const steps = [
  ['Format and lint (biome)', ['node_modules/.bin/biome', 'check', '.']],
  ['Types (tsc)', ['node_modules/.bin/tsc', '-p', 'tsconfig.check.json']],
  ['Types of the dashboard (tsc)', ['node_modules/.bin/tsc', '-p', 'src/dashboard/tsconfig.json']],
  ['Layers: who may import whom', ['scripts/test.mjs', 'test/layers.test.ts']],
];

/* A few dozen kills, an outage, cut connections and a frozen node, in two minutes: see docs/reliability.md. */
const chaos = [
  'run',
  '--silent',
  'chaos',
  '--',
  '--only',
  'stages,two-nodes,frozen,cuts,database,drain',
  '--lanes',
  '6',
];

/* Side by side, as each keeps one processor busy; what a step says comes in one piece when it is over. */
for (const result of await Promise.all(steps.map(([title, args]) => aside(title, process.execPath, args))))
  judge(result);
if (process.argv.includes('--short'))
  console.log('\n== Kills, cuts and outages (npm run chaos): left out, as --short says');
else step('Kills, cuts and outages (npm run chaos)', 'npm', chaos);
step('All tests (npm test)', 'npm', ['test']);

async function aside(title, command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk));
  const [status, signal] = await once(child, 'close');
  process.stdout.write(`\n== ${title}\n${Buffer.concat(output)}`);
  return { title, status, signal };
}

function step(title, command, args) {
  console.log(`\n== ${title}`);
  judge({ title, ...spawnSync(command, args, { stdio: 'inherit' }) });
}

function judge({ title, status, signal, error }) {
  if (status === 0) return;
  console.log(`\n${title}: failed${error || signal ? ` (${error?.message ?? signal})` : ''}`);
  process.exit(status || 1);
}
