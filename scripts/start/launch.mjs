import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';

/** The Node that package.json names, which npm installed; or the Node that is running this, if that is new enough and the other one does not run. */
export function findNode(root) {
  const own = path.join(root, 'node_modules', 'node', 'bin', 'node');
  if (spawnSync(own, ['--version'], { stdio: 'ignore' }).status === 0) return own;
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 19)) return process.execPath;
  throw new Error(
    `${own} is missing or does not run here, and this Node (${process.version}) is older than 22.19: install a newer Node, ` +
      'or let npm run install scripts (npm ci --ignore-scripts=false)',
  );
}

/**
 * What glibc is told: else it keeps what requests and messages took for a moment, scattered over heaps of many threads, and
 * the process grows by a third. Other systems ignore it.
 */
export const allocator = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '65536' };

/**
 * What V8 is told: a request of a thousand emails fits into the young part of the heap, and the old one is looked through when
 * it has doubled, not at four times its size, which is a fifth of the process's memory and costs no mail that can be measured.
 */
export const heap = ['--max-semi-space-size=32', '--heap-growing-percent=100'];

/** Runs the project's Node with `args` in the project's folder, and ends as it ends. */
export async function launch(root, args) {
  const bin = path.join(root, 'node_modules', '.bin');
  const env = {
    // Compiled once, our own files as well; a folder that cannot be written is none.
    ...(ownsFolder(root) && { NODE_COMPILE_CACHE: path.join(root, 'node_modules', '.compile-cache') }),
    ...allocator,
    ...process.env,
    // For the server, which ends when this process is gone.
    SENDWRIGHT_LAUNCHER: String(process.pid),
    PATH: [bin, process.env.PATH].filter(Boolean).join(path.delimiter),
  };
  const child = spawn(findNode(root), ['--disable-warning=ExperimentalWarning', ...heap, ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, forwardTo(child));
  const [code, signal] = await new Promise((resolve, reject) => {
    child.on('error', reject).on('exit', (...how) => resolve(how));
  });
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  }
  process.exit(code ?? 128 + constants.signals[signal]);
}

/** False for root in the folder of the service's user, who could not remove root's files when it installs the next release. */
function ownsFolder(root) {
  return fs.statSync(root).uid === process.getuid?.();
}

/**
 * A signal must reach the child once: twice may mean "at once!" to it. What the terminal sends goes to all processes in
 * its foreground, the child as well, and npm, if it started us, sends it to us once more.
 */
function forwardTo(child) {
  let last = 0;
  return (signal) => {
    if (signal !== 'SIGTERM' && inForeground()) return;
    const now = performance.now();
    if (last && now - last < 500) return;
    last = now;
    child.kill(signal);
  };
}

function inForeground() {
  try {
    const [, , group, , , foreground] = fs.readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
    return group === foreground;
  } catch {
    return Boolean(process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY);
  }
}
