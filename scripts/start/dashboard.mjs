import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { run } from './child.mjs';
import { findNode } from './launch.mjs';
import { withLock } from './lock.mjs';
import { Progress } from './progress.mjs';

const sources = ['src/dashboard', 'src/client', 'package-lock.json'];
const stampOf = (root) => path.join(root, 'dist', 'dashboard', '.stamp');

/** True when the pages were built from the present sources, or there are none. */
function isBuilt(root) {
  if (!fs.existsSync(path.join(root, 'src', 'dashboard'))) return true;
  return fs.existsSync(stampOf(root)) && fs.readFileSync(stampOf(root), 'utf8') === digestOf(root);
}

/** Builds the pages where they are not up to date; whoever does so now is waited for. */
export async function prepareDashboard(root) {
  if (isBuilt(root)) return;
  const progress = new Progress();
  try {
    await withLock(path.join(root, '.install-lock'), progress, async (lend) => {
      if (!isBuilt(root)) await build(root, progress, lend);
    });
  } finally {
    progress.end();
  }
}

/** Builds the pages with Vite, which takes a few seconds. */
async function build(root, progress, lend) {
  progress.begin('Building the dashboard');
  const digest = digestOf(root);
  // A process that starts now shall find the pages of before, and not half of the new ones.
  const place = path.join(root, 'dist', 'dashboard');
  const [next, last] = [`${place}.next`, `${place}.last`];
  const vite = path.join(root, 'node_modules', 'vite', 'bin', 'vite.js');
  const args = [
    vite,
    'build',
    '--config',
    path.join(root, 'src', 'dashboard', 'vite.config.ts'),
    '--outDir',
    next,
    '--logLevel',
    'warn',
  ];
  try {
    await run(findNode(root), args, { cwd: root, env: { ...process.env, NODE_ENV: 'production' }, lend });
  } catch (error) {
    throw new Error(
      `${(error.output ?? []).join('\n')}\n\nThe dashboard could not be built from src/dashboard: ${error.message}`,
    );
  }
  fs.writeFileSync(path.join(next, '.stamp'), digest);
  fs.rmSync(last, { recursive: true, force: true });
  if (fs.existsSync(place)) fs.renameSync(place, last);
  fs.renameSync(next, place);
  fs.rmSync(last, { recursive: true, force: true });
}

function digestOf(root) {
  const hash = createHash('sha256');
  for (const source of sources.map((name) => path.join(root, name)).filter((name) => fs.existsSync(name))) {
    const files = fs.statSync(source).isFile() ? [''] : fs.readdirSync(source, { recursive: true }).sort();
    for (const file of files.map((name) => path.join(source, name))) {
      if (fs.statSync(file).isFile()) hash.update(path.relative(root, file)).update('\0').update(fs.readFileSync(file));
    }
  }
  return hash.digest('hex');
}
