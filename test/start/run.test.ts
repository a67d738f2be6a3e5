import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';

const scripts = path.resolve(import.meta.dirname, '../../scripts');

/** Prints the signals it gets, and ends with code 7 a moment after the first. */
const listener = `
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {
    console.log('got ' + signal);
    setTimeout(() => process.exit(7), 1200);
  });
  setInterval(() => {}, 1000);
  console.log('ready ' + process.pid);`;

/** Stands in for npm ci: it takes a moment, and installs the one package that run.mjs needs. */
const npm = `
  import fs from 'node:fs';
  fs.appendFileSync('npm-was-run', process.argv.slice(2).join(' ') + '\\n');
  if (fs.existsSync('npm-fails')) { console.error(fs.readFileSync('npm-fails', 'utf8')); process.exit(1); }
  if (fs.existsSync('npm-hangs')) { console.log('npm info hanging'); setInterval(() => {}, 1000); }
  else setTimeout(() => {
    fs.mkdirSync('node_modules/node/bin', { recursive: true });
    fs.rmSync('node_modules/node/bin/node', { force: true });
    fs.symlinkSync(process.execPath, 'node_modules/node/bin/node');
  }, 300);`;

/** A project that consists only of the scripts, in a folder whose name has a space and more. */
function project(t: Test, installed: boolean): string {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'send wright ü ')));
  t.teardown(() => fs.rmSync(root, { recursive: true, force: true, maxRetries: 10 }));
  fs.cpSync(scripts, path.join(root, 'scripts'), { recursive: true });
  const files = {
    'package.json': JSON.stringify({
      type: 'module',
      scripts: { start: 'exec node scripts/run.mjs listener.js', sendwright: 'exec node scripts/sendwright.mjs' },
    }),
    'package-lock.json': JSON.stringify({ lockfileVersion: 3, packages: { '': {} } }),
    'listener.js': listener,
    'fake/npm-cli.js': npm,
  };
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), text);
  }
  if (installed) {
    fs.symlinkSync(path.resolve('node_modules'), path.join(root, 'node_modules'));
    fs.copyFileSync('package-lock.json', path.join(root, 'package-lock.json'));
  }
  return root;
}

class Run {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown[]>;
  output = '';

  constructor(t: Test, root: string, command: string, args: string[], env: NodeJS.ProcessEnv = {}) {
    const npmOf = { npm_execpath: path.join(root, 'fake', 'npm-cli.js') };
    // In its own session, so it is not in any terminal's foreground.
    this.child = spawn(command, args, { cwd: os.tmpdir(), detached: true, env: { ...process.env, ...npmOf, ...env } });
    for (const stream of [this.child.stdout, this.child.stderr]) stream?.on('data', (chunk) => (this.output += chunk));
    this.ended = once(this.child, 'close');
    t.teardown(
      () => this.child.exitCode === null && this.child.signalCode === null && process.kill(-this.pid, 'SIGKILL'),
    );
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (let waited = 0; waited < 60_000; waited += 20) {
      const match = pattern.exec(this.output);
      if (match) return match;
      await sleep(20);
    }
    throw new Error(`no ${pattern} in ${this.output}`);
  }
}

const start = (t: Test, root: string, ...args: string[]) =>
  new Run(t, root, process.execPath, [path.join(root, 'scripts', 'run.mjs'), ...args]);

const count = (text: string, what: string) => text.split(what).length - 1;

t.test("runs a script with the project's Node in the project's folder, and ends as it ends", async (t) => {
  const root = project(t, true);
  const script =
    'console.log(JSON.stringify([process.version, process.cwd(), process.env.PATH, process.argv.slice(1)])); process.exit(3)';
  const run = start(t, root, '-e', script, 'an argument');
  t.same(await run.ended, [3, null]);
  const [version, cwd, PATH, args] = JSON.parse(run.output);
  t.equal(version, `v${JSON.parse(fs.readFileSync('package.json', 'utf8')).devDependencies.node}`);
  t.equal(cwd, root);
  t.ok(PATH.startsWith(path.join(root, 'node_modules', '.bin')));
  t.same(args, ['an argument']);

  const killed = start(t, root, '-e', "process.kill(process.pid, 'SIGKILL')");
  t.same(await killed.ended, [null, 'SIGKILL'], 'by its signal, too');
});

const isRoot = process.getuid?.() === 0;

t.test("root leaves nothing that the folder's user cannot remove", { skip: !isRoot && 'only root can' }, async (t) => {
  const root = project(t, true);
  const cacheOf = async () => {
    const program = [path.join(root, 'scripts', 'run.mjs'), '-p', 'String(process.env.NODE_COMPILE_CACHE)'];
    // A cache that is set already, as by the launcher of these tests, is kept.
    const run = new Run(t, root, process.execPath, program, { NODE_COMPILE_CACHE: undefined });
    t.same(await run.ended, [0, null]);
    return run.output.trim();
  };
  t.equal(await cacheOf(), path.join(root, 'node_modules', '.compile-cache'));
  fs.chownSync(root, 65534, 65534);
  t.equal(await cacheOf(), 'undefined');
});

t.test('a signal that only run.mjs gets is passed on to the script, once', async (t) => {
  const deliver = async (signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP') => {
    const run = start(t, project(t, true), 'listener.js');
    await run.says(/ready/);
    run.child.kill(signal);
    await sleep(50);
    run.child.kill(signal);
    t.same(await run.ended, [7, null], 'it waits for the script');
    t.equal(count(run.output, `got ${signal}`), 1, signal);
  };
  await Promise.all([deliver('SIGTERM'), deliver('SIGINT'), deliver('SIGHUP')]);
});

t.test('kill of npm start reaches the script', async (t) => {
  const root = project(t, true);
  const run = new Run(t, root, 'npm', ['--prefix', root, 'start']);
  const [, pid] = await run.says(/ready (\d+)/);
  run.child.kill('SIGTERM');
  await run.ended;
  t.equal(count(run.output, 'got SIGTERM'), 1);
  const isThere = () => {
    try {
      process.kill(Number(pid), 0);
    } catch {
      return false;
    }
    // A zombie has ended as well.
    const status = `/proc/${pid}/status`;
    return !(fs.existsSync(status) && /^State:\s+Z/m.test(fs.readFileSync(status, 'utf8')));
  };
  for (let waited = 0; waited < 60_000 && isThere(); waited += 20) await sleep(20);
  t.notOk(isThere(), 'and it has ended');
});

const noTerminal =
  spawnSync('script', ['--version']).error !== undefined && 'script(1) makes the terminal, and is not here';

t.test(
  'Ctrl-C in a terminal reaches the script once, although npm passes it on as well',
  { skip: noTerminal },
  async (t) => {
    const root = project(t, true);
    const script = new Run(t, root, 'script', ['-qec', `npm --prefix '${root}' start`, '/dev/null']);
    await script.says(/ready/);
    script.child.stdin?.write('\x03');
    await script.ended;
    t.equal(count(script.output, 'got SIGINT'), 1);
  },
);

t.test(
  'each command that starts the service builds the pages first, and goes on without them if that fails',
  async (t) => {
    const root = project(t, true);
    fs.mkdirSync(path.join(root, 'src/dashboard'), { recursive: true });
    for (const name of ['main.ts', 'cli.ts']) fs.writeFileSync(path.join(root, 'src', name), 'console.log("it runs");');
    for (const [args, isBuilt] of [
      [['src/main.ts'], true],
      [['src/cli.ts', 'start'], true],
      [['src/cli.ts', 'queue', 'list'], false],
    ] as const) {
      const run = start(t, root, ...args);
      t.same(await run.ended, [0, null]);
      t.match(run.output, 'it runs');
      t.equal(count(run.output, 'Building the dashboard'), isBuilt ? 1 : 0, args.join(' '));
      t.equal(count(run.output, 'The service starts all the same.'), isBuilt ? 1 : 0);
    }

    const readOnly = `
      import fs from 'node:fs';
      const { writeFileSync } = fs;
      fs.writeFileSync = (path, ...more) => {
        if (path.endsWith('.install-lock')) throw Object.assign(new Error(), { code: 'EROFS', path });
        writeFileSync(path, ...more);
      };`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(readOnly)}`;
    const runScript = path.join(root, 'scripts', 'run.mjs');
    const run = new Run(t, root, process.execPath, [runScript, 'src/main.ts'], { NODE_OPTIONS });
    t.same(await run.ended, [0, null]);
    t.equal(
      run.output,
      `${root}/.install-lock cannot be written, and the dashboard is not up to date: run npm start once as a user who may write there
The service starts all the same.
it runs
`,
    );
  },
);

t.test('a command knows in which folder it was typed, with and without npm', async (t) => {
  const root = project(t, true);
  fs.mkdirSync(path.join(root, 'src'));
  fs.writeFileSync(path.join(root, 'src/cli.ts'), 'console.log(process.env.SENDWRIGHT_CALLED_IN, process.cwd());');
  const here = fs.realpathSync(os.tmpdir());
  const byNpm = ['npm', ['--prefix', root, 'run', '-s', 'sendwright', '--', 'x']] as const;
  for (const [command, args] of [
    byNpm,
    [process.execPath, [path.join(root, 'scripts/sendwright.mjs'), 'x']] as const,
  ]) {
    const run = new Run(t, root, command, [...args], { INIT_CWD: undefined, npm_lifecycle_event: undefined });
    t.same(await run.ended, [0, null]);
    t.equal(run.output, `${here} ${root}\n`);
  }
});

t.test('installs what is missing, once', async (t) => {
  const root = project(t, false);
  const installs = () => fs.readFileSync(path.join(root, 'npm-was-run'), 'utf8').trim().split('\n');
  const both = [start(t, root, '-e', 'console.log(1 + 1)'), start(t, root, '-e', 'console.log(1 + 1)')];
  for (const run of both) t.same(await run.ended, [0, null], run.output);
  t.equal(installs().length, 1, 'two starts at the same time');
  t.match(installs()[0], /^ci .*--include=dev/);

  await start(t, root, '-e', '1').ended;
  t.equal(installs().length, 1, 'a later start');

  fs.appendFileSync(path.join(root, 'package-lock.json'), '\n');
  await start(t, root, '-e', '1').ended;
  t.equal(installs().length, 2, 'other packages');
  t.notOk(fs.existsSync(path.join(root, '.install-lock')));
});

t.test('with the real npm, only the named packages run an install script: AUTH-20', async (t) => {
  const root = project(t, false);
  // `npm test` passes on the settings of the project's own .npmrc, which refuse a script that nobody has decided about.
  const env = { npm_execpath: '', npm_config_offline: 'true', npm_config_strict_allow_scripts: 'false' };
  const inRoot = (...args: string[]) =>
    execFileSync('npm', args, { cwd: root, stdio: 'pipe', env: { ...process.env, ...env } });
  const pack = (name: string, script: string) => {
    const folder = path.join(root, 'made', name);
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, 'set-up.cjs'), script);
    const manifest = { name, version: '1.0.0', scripts: { postinstall: 'node set-up.cjs' } };
    fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest));
    inRoot('pack', folder);
    return `file:${name}-1.0.0.tgz`;
  };
  const link = `const fs = require('fs'); fs.mkdirSync('bin'); fs.symlinkSync(${JSON.stringify(process.execPath)}, 'bin/node');`;
  const dependencies = {
    node: pack('node', link),
    stranger: pack('stranger', `require('fs').writeFileSync('ran', '')`),
  };
  const allowScripts = { node: true };
  fs.writeFileSync(path.join(root, 'package.json'), JSON.stringify({ type: 'module', dependencies, allowScripts }));
  inRoot('install', '--package-lock-only', '--ignore-scripts', '--offline');
  const run = new Run(
    t,
    root,
    process.execPath,
    [path.join(root, 'scripts', 'run.mjs'), '-e', 'console.log(1 + 1)'],
    env,
  );
  t.same(await run.ended, [0, null], run.output);
  t.match(run.output, /2\n$/);
  t.ok(fs.existsSync(path.join(root, 'node_modules/stranger/set-up.cjs')));
  t.notOk(fs.existsSync(path.join(root, 'node_modules/stranger/ran')), 'nobody else');
});

t.test('a killed installation is repeated', async (t) => {
  const root = project(t, false);
  const hangs = path.join(root, 'npm-hangs');
  fs.writeFileSync(hangs, '');
  const killed = start(t, root, '-e', '1');
  const lock = path.join(root, '.install-lock');
  const held = () =>
    fs.existsSync(lock) && fs.existsSync(path.join(root, 'npm-was-run')) && fs.readFileSync(lock, 'utf8');
  for (let waited = 0; waited < 60_000 && !/child/.test(held() || ''); waited += 20) await sleep(20);
  const left = JSON.parse(held() || '{}').child.pid;
  killed.child.kill('SIGKILL');
  await once(killed.child, 'exit');
  t.ok(process.kill(left, 0), 'npm is still running');

  fs.rmSync(hangs);
  const run = start(t, root, '-e', 'console.log(1 + 1)');
  t.same(await run.ended, [0, null], run.output);
  const state = fs.existsSync(`/proc/${left}/stat`)
    ? fs.readFileSync(`/proc/${left}/stat`, 'utf8').split(') ')[1]?.[0]
    : 'Z';
  t.equal(state, 'Z', 'it was stopped before the next one began');
});

t.test('a failed installation shows what npm said; an interrupted one stops npm', async (t) => {
  const root = project(t, false);
  fs.writeFileSync(path.join(root, 'npm-fails'), 'npm http fetch GET\nnpm error code E418');
  const failed = start(t, root, '-e', '1');
  t.same(await failed.ended, [1, null]);
  t.match(failed.output, /npm error code E418\n\nnpm could not install/);
  t.notMatch(failed.output, /npm http/);

  fs.renameSync(path.join(root, 'npm-fails'), path.join(root, 'npm-hangs'));
  const interrupted = start(t, root, '-e', '1');
  for (
    let waited = 0;
    waited < 60_000 && count(fs.readFileSync(path.join(root, 'npm-was-run'), 'utf8'), '\n') < 2;
    waited += 20
  )
    await sleep(20);
  interrupted.child.kill('SIGTERM');
  t.same(await interrupted.ended, [143, null]);
  t.notOk(fs.existsSync(path.join(root, '.install-lock')));
});

t.test('a failed installation says what to do about it', async (t) => {
  const root = project(t, false);
  const adviceOn = async (...said: string[]) => {
    fs.writeFileSync(path.join(root, 'npm-fails'), said.map((line) => `npm error ${line}`).join('\n'));
    const failed = start(t, root, '-e', '1');
    t.same(await failed.ended, [1, null]);
    return failed.output.split('\n').at(-3);
  };
  const ofLibrary = 'node: error while loading shared libraries: libatomic.so.1: cannot open shared object file';
  t.match(await adviceOn('code 127', ofLibrary), /needs libatomic\.so\.1, .* apt-get install libatomic1/);
  t.match(
    await adviceOn('code EACCES', 'syscall mkdir', 'path /home/nobody', 'errno EACCES'),
    /^This user may not write to \/home\/nobody, .* give the user a home/,
  );
  const inside = path.join(root, 'node_modules', 'koa');
  t.match(await adviceOn('code EACCES', `path ${inside}`), /^Another user made a part of it/);
  t.match(await adviceOn('code ENOTFOUND'), /^Most often the network/);
});
