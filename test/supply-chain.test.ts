import { readFileSync } from 'node:fs';
import t from 'tap';

const read = (name: string) => JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8'));
const { dependencies, devDependencies, allowScripts } = read('package.json');
const locked = Object.entries(
  read('package-lock.json').packages as Record<string, { integrity?: string; hasInstallScript?: boolean }>,
).filter(([path]) => path !== '');
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

t.test('AUTH-20: what is installed is what was looked at', async (t) => {
  t.ok(locked.length > 300);
  for (const [path, { integrity }] of locked) t.match(integrity, /^sha512-/, path);
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
    t.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} is exact`);
});

t.test('AUTH-20: whether a package may run a script when it is installed is decided by name', async (t) => {
  const names = new Set(locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => nameOf(path)));
  const allowed = Object.keys(allowScripts).map((entry) => entry.replace(/(?<=.)@[^@]*$/, ''));
  for (const name of names) t.ok(allowed.includes(name), name);
});
