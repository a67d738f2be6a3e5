import { spawn } from 'node:child_process';

/* Everything that must hold before a change goes in, what fails fastest first; the totals of the tests come last. */
const steps = [
  ['Format and lint (biome)', ['node_modules/.bin/biome', 'check', '.']],
  ['Types (tsc)', ['node_modules/.bin/tsc', '-p', 'tsconfig.check.json']],
  ['Types of the dashboard (tsc)', ['node_modules/.bin/tsc', '-p', 'src/dashboard/tsconfig.json']],
  ['Layers: who may import whom', ['scripts/test.mjs', 'test/layers.test.ts']],
];

/* A few dozen kills, an outage, cut connections and a frozen node, in two minutes: see docs/reliability.md. */
const chaos = ['run', '--silent', 'chaos', '--', '--only', 'stages,two-nodes,frozen,cuts,database,drain'];

/* Side by side, as each keeps one processor busy; what a step says comes in one piece when it is over. */
const checked = await Promise.all(steps.map(([title, args]) => aside(title, process.execPath, args)));
if (checked.some((isFine) => !isFine)) process.exit(1);

await step('Kills, cuts and outages (npm run chaos)', 'npm', chaos);
await step('All tests (npm test)', 'npm', ['test']);

/** @returns whether it succeeded; what it says is said in one piece, once it is over */
async function aside(title, command, args) {
  const output = [];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', (chunk) => output.push(chunk));
  child.stderr.on('data', (chunk) => output.push(chunk));
  const failure = await failureOf(child);
  process.stdout.write(`\n== ${title}\n${Buffer.concat(output)}`);
  if (failure !== null) tell(title, failure);
  return failure === null;
}

async function step(title, command, args) {
  console.log(`\n== ${title}`);
  const failure = await failureOf(spawn(command, args, { stdio: 'inherit' }));
  if (failure === null) return;
  tell(title, failure);
  process.exit(1);
}

/** @returns null once it has ended well; else in a few words what ended it, which is '' where its own output says so */
function failureOf(child) {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (status, signal) => resolve(status === 0 ? null : (signal ?? '')));
  });
}

function tell(title, failure) {
  console.log(`\n${title}: failed${failure ? ` (${failure})` : ''}`);
}
