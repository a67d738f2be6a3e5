import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { run } from './child.mjs';

/*
 * The stamp says which package-lock.json node_modules was made from. It is written last and removed first, so that an
 * installation that was interrupted has none. It lies inside, so that it goes when node_modules goes.
 */
const stampOf = (root) => path.join(root, 'node_modules', '.sendwright-installed');
const npmRecordOf = (root) => path.join(root, 'node_modules', '.package-lock.json');

/** True when node_modules holds what package-lock.json says. */
export function isInstalled(root) {
  const digest = digestOf(root);
  if (readIfAny(stampOf(root)) === digest) return true;
  if (!installedByHand(root)) return false;
  try {
    fs.writeFileSync(stampOf(root), digest);
  } catch {
    // In a folder that is read-only the comparison is made each time.
  }
  return true;
}

/** Runs npm ci, and of what is installed the scripts that `allowScripts` names: few versions of npm heed that themselves. */
export async function install(root, progress, lend) {
  const lock = readLock(root);
  const all = Object.entries(lock).filter(([name, entry]) => name && fits(entry)).length;
  progress.begin(`Installing ${all} packages, which happens once and takes about a minute`);
  fs.rmSync(stampOf(root), { force: true });
  fs.rmSync(npmRecordOf(root), { force: true });

  let fetched = 0;
  const onLine = (line) => {
    if (/^npm http (fetch GET|cache) .*\.tgz/.test(line))
      progress.update(`Installing: ${++fetched} of ${all} packages fetched`);
    const script = /^npm info run (\S+)@\S+ \S*install .*node_modules/.exec(line)?.[1];
    if (script) progress.update(script === 'node' ? 'Installing: fetching Node' : `Installing: setting up ${script}`);
  };
  // The flags undo what a user's own configuration may say: all of it is needed, and older Nodes are fine for npm.
  const flags = ['--include=dev', '--include=optional', '--engine-strict=false', '--audit=false', '--fund=false'];
  flags.push('--loglevel=info', '--foreground-scripts=false', '--progress=false', '--color=false');
  try {
    const [command, ...args] = npm(root);
    await run(command, [...args, 'ci', '--ignore-scripts', ...flags], { cwd: root, lend, onLine });
    // It says that all is there, which is not so before the scripts have run.
    fs.rmSync(npmRecordOf(root), { force: true });
    const named = mayRunScripts(root);
    // Without a name it would run those of all.
    if (named.length > 0)
      await run(command, [...args, 'rebuild', '--ignore-scripts=false', ...flags, ...named], {
        cwd: root,
        lend,
        onLine,
      });
  } catch (error) {
    throw new Error(explain(error, root));
  }
  fs.writeFileSync(stampOf(root), digestOf(root));
}

/** Those of them that are installed: most are for other platforms. */
function mayRunScripts(root) {
  const { allowScripts = {} } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
  return Object.keys(allowScripts).filter(
    (name) => allowScripts[name] && fs.existsSync(path.join(root, 'node_modules', name)),
  );
}

/** The npm that is running us, else the one on the PATH. */
function npm(root) {
  const { npm_execpath: running, npm_node_execpath: itsNode } = process.env;
  // Our own Node, which `npm run` finds first, goes while it installs.
  const node = [process.execPath, itsNode].find((one) => one && !one.startsWith(path.join(root, 'node_modules')));
  // pnpm and yarn set the same variable; they cannot read package-lock.json.
  return node && running && path.basename(running) === 'npm-cli.js' ? [node, running] : ['npm'];
}

function explain(error, root) {
  if (error.code === 'ENOENT')
    return 'The packages cannot be installed: there is no npm on the PATH. It comes with Node, see https://nodejs.org';
  const output = error.output ?? [error.message];
  const said = output.filter((line) => !/^npm (http|info|notice|verbose|warn EBADENGINE)\b/.test(line)).join('\n');
  return `${said}\n\nnpm could not install the packages into ${root}, for the reason above.\n${adviceOn(said, root)}\nThen start again.`;
}

function adviceOn(said, root) {
  const library = /error while loading shared libraries: (\S+):/.exec(said)?.[1];
  if (library) {
    const named = library.startsWith('libatomic.')
      ? ' (Debian: apt-get install libatomic1, Fedora: dnf install libatomic)'
      : '';
    return `The project's Node needs ${library}, which this system lacks: install it${named}.`;
  }
  if (!/\b(EACCES|EPERM)\b/.test(said))
    return 'Most often the network, a proxy or the registry is the cause (npm config get registry), or the disk is full.';
  const where = /^npm error path (.+)$/m.exec(said)?.[1];
  // Its cache, as a rule: users that are only for a service are made without a home.
  if (where && path.isAbsolute(where) && path.relative(root, where).startsWith('..'))
    return `This user may not write to ${where}, where npm keeps its cache: give the user a home of its own (usermod --home), or set npm_config_cache.`;
  return 'Another user made a part of it (sudo?): remove node_modules and src/generated as that user.';
}

/** Somebody ran npm ci or npm install: npm keeps a record of what it has put there, and writes it last. */
function installedByHand(root) {
  const record = readIfAny(npmRecordOf(root));
  if (!record) return false;
  const have = JSON.parse(record).packages;
  return Object.entries(readLock(root)).every(([name, entry]) => {
    const same = have[name]?.version === entry.version && have[name]?.integrity === entry.integrity;
    // What only one for another platform needs is left out as well, and says nothing about platforms itself.
    const isLeftOut = !fits(entry) || (!have[name] && !entry.os && !entry.cpu);
    return name === '' || same || (entry.optional && isLeftOut);
  });
}

/** False for the binaries of other platforms. */
function fits({ os, cpu, libc }) {
  const allows = (list, value) =>
    !list || list.includes(value) || list.some((item) => item.startsWith('!') && item !== `!${value}`);
  return allows(os, process.platform) && allows(cpu, process.arch) && (!libc || libc.includes(libcOfSystem()));
}

function libcOfSystem() {
  // Asking for the network takes seconds on some machines.
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl';
}

function readLock(root) {
  return JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages;
}

// The version of the Node that runs this is left out: everything runs with the project's own, which the lock file names.
function digestOf(root) {
  const hash = createHash('sha256').update(fs.readFileSync(path.join(root, 'package-lock.json')));
  return hash.update(`${process.platform} ${process.arch}`).digest('hex');
}

function readIfAny(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
