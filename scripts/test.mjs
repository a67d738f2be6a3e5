import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/*
 * Runs tap in this process, which is the project's Node: tap starts each test file with the Node that it runs in. In a
 * log what failed and tap's own totals say more than all of TAP. Its reporters draw a screen for each assertion, which a log never shows.
 */
const mistyped = process.argv.slice(2).filter((name) => /^[^-*?{[]+\.[cm]?tsx?$/.test(name) && !fs.existsSync(name));
if (mistyped.length > 0) {
  // Beside files that there are, tap passes over it.
  console.error(`There is no ${mistyped.join(', no ')}`);
  process.exit(1);
}

const asked = process.argv.some((argument) => /^(--reporter|-R)/.test(argument));
if (!process.stdout.isTTY) {
  if (!asked) process.argv.push('--reporter=silent');
  // Else one that is asked for redraws its screen again and again, into a log file as well.
  process.env.CONTINUOUS_INTEGRATION ??= '1';
}

/** A run leaves some two gigabytes in a hundred databases, which are gone with it. */
const room = 4 * 1024 ** 3;

/** Where files are memory: a database is cloned there in a tenth of a disk's processor time. */
const memory = '/dev/shm';
if (!process.env.TMPDIR && isFit(memory)) process.env.TMPDIR = memory;

/** Buffers in large pages, where the system gives those to who asks: each password that is tried takes 19 MB of new memory. glibc alone knows of it. */
process.env.GLIBC_TUNABLES ??= 'glibc.malloc.hugetlb=1';

/** What promises came to is told by tests that run in processes of their own: see test/support/figure.ts. */
const figures = path.join(os.tmpdir(), `sendwright-figures-${process.pid}`);
process.env.TEST_FIGURES = figures;
process.on('exit', showFigures);

/** Grows by a character whenever a test ends: see test/support/group.ts. */
const through = path.join(os.tmpdir(), `sendwright-through-${process.pid}`);

/** All that the tests said. The reporter for logs leaves out how it ended where a test file ran out of time, and so it is told here. */
const said = path.join(os.tmpdir(), `sendwright-said-${process.pid}.tap`);
if (!process.stdout.isTTY && !asked) {
  process.argv.push(`--output-file=${said}`);
  process.on('exit', showEnd);
  setInterval(showLife, 60_000).unref();
  process.env.TEST_THROUGH = through;
}

// tap looks at all files at once and runs them in the order of the answers: with one thread that is the order of their names,
// in which the longest come first. The tests themselves have as many threads as usual.
process.env.UV_THREADPOOL_SIZE = '1';
await fs.promises.stat('.');
delete process.env.UV_THREADPOOL_SIZE;

await import('../node_modules/tap/dist/esm/run.mjs');

const mostShown = 20;
const linesOfOne = 30;

/** Whoever sees nothing for minutes takes it for stuck. */
function showLife() {
  const ended = fs.existsSync(through) ? fs.statSync(through).size : 0;
  // A single file is in no group.
  const passed = fs.existsSync(said) ? (fs.readFileSync(said, 'utf8').match(/^ *ok \d/gm) ?? []).length : 0;
  const how = ended > 0 ? `${ended} tests have ended` : `${passed} checks are through`;
  fs.writeSync(2, `after ${Math.round(process.uptime() / 60)} min: ${how}\n`);
}

/** What failed, and tap's own totals. */
function showEnd() {
  fs.rmSync(through, { force: true });
  if (!fs.existsSync(said)) return;
  const lines = fs.readFileSync(said, 'utf8').split('\n');
  fs.rmSync(said);
  const failures = lines.flatMap((line, at) => (/^\s*not ok /.test(line) ? [at] : []));
  const shown = failures.slice(0, mostShown).map((at) => lines.slice(at, endOf(lines, at)).join('\n'));
  const totals = lines.filter((line) => /^# (\{ total|time=)/.test(line));
  fs.writeSync(1, `\n${[...shown, ...totals].join('\n')}\n`);
}

/** Where what is said of a failure ends, or enough of it. */
function endOf(lines, at) {
  const end = lines.findIndex((line, index) => index > at && /^\s*\.\.\.$/.test(line));
  const explained = /^\s*---$/.test(lines[at + 1] ?? '') && end !== -1;
  return explained ? Math.min(end + 1, at + linesOfOne) : at + 1;
}

function showFigures() {
  if (!fs.existsSync(figures)) return;
  const lines = fs.readFileSync(figures, 'utf8').trim().split('\n');
  fs.rmSync(figures);
  const numberOf = (line) => Number(line.slice(1, line.indexOf(':')));
  lines.sort((one, other) => numberOf(one) - numberOf(other));
  fs.writeSync(1, `\nPromises of docs/reliability.md, as this run saw them:\n${lines.join('\n')}\n`);
}

/** Whether there is room, in the memory as well, and programs may be run from there, as some tests do. */
function isFit(folder) {
  try {
    fs.accessSync(folder, fs.constants.W_OK);
    const { bavail, bsize } = fs.statfsSync(folder);
    const mount = fs
      .readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .find((line) => line.split(' ')[1] === folder);
    return bavail * bsize >= room && os.freemem() >= 2 * room && mount !== undefined && !/\bnoexec\b/.test(mount);
  } catch {
    return false;
  }
}
