import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import t from 'tap';

/** Left to right: a file may import what stands further right, and what stands in its own place where that is a folder. */
const order: RegExp[] = [
  /^cli\.ts$/,
  /^cli\//,
  /^main\.ts$/,
  /^start\.ts$/,
  /^(first-screen|workers)\.ts$/,
  /^worker\.ts$/,
  /^node\.ts$/,
  /^(database|doors|internet|metrics-port)\.ts$/,
  /^(http|inbound|delivery|webhooks|chores|sandbox)\//,
  /^core\//,
  /^queue\.ts$/,
  /^db\//,
  /^smtp\//,
  /^config\.ts$/,
  /^config-(values|secrets|variables)\.ts$/,
  /^mail\//,
  /^(rounds|batch-writer|batcher|by-weight|data-dir|endpoint|free-now|give-way|sending-pools|siblings|stops|turns)\.ts$/,
  /^(errors|start-error|log|ids|clock|ip|seal|password|certificate|timestamp|metrics|rate-limit)\.ts$|^generated\//,
  /^dashboard\//,
  /^client\//,
];

const mostLines = 400;

const src = new URL('../src/', import.meta.url).pathname;
const files = readdirSync(decodeURIComponent(src), { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.tsx?$/.test(name) && !name.startsWith('generated'))
  .map((name) => name.replaceAll('\\', '/'));

const sourceOf = (file: string) => readFileSync(join(decodeURIComponent(src), file), 'utf8');

function importsOf(file: string): string[] {
  const found = sourceOf(file).matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...found].map((match) => normalize(join(dirname(file), match[1] ?? '')));
}

const placeOf = (file: string) => order.findIndex((pattern) => pattern.test(file));
const folderOf = (file: string) => (file.includes('/') ? file.slice(0, file.indexOf('/')) : file);

t.test('every file has a place in the order of the layers', async (t) => {
  for (const file of files)
    t.not(placeOf(file), -1, `src/${file} belongs to no layer: give it a place in test/layers.test.ts`);
});

t.test('imports run one way', async (t) => {
  for (const file of files) {
    for (const imported of importsOf(file)) {
      const sameFolder = folderOf(file) === folderOf(imported);
      t.ok(
        sameFolder || placeOf(imported) > placeOf(file),
        `src/${file} must not import src/${imported}: it is on the wrong side of it`,
      );
    }
  }
});

t.test('the client is all there is of it, wherever it runs', async (t) => {
  const ofClient = files.filter((file) => folderOf(file) === 'client');
  t.ok(ofClient.length > 5);
  for (const file of ofClient)
    t.strictSame(
      sourceOf(file).match(/(?:from |import |import\()'(?!\.\/)[^']+'/g),
      null,
      `src/${file} imports its neighbours only`,
    );
});

t.test('the dashboard knows the service by its client alone, and nobody knows it', async (t) => {
  const importers = files.filter((file) => importsOf(file).some((imported) => folderOf(imported) === 'dashboard'));
  t.ok(importers.length > 5);
  for (const file of importers) t.equal(folderOf(file), 'dashboard', `src/${file} must not import the dashboard`);
  for (const file of files.filter((one) => folderOf(one) === 'dashboard')) {
    for (const imported of importsOf(file))
      t.match(imported, /^(dashboard|client)\//, `src/${file} must not import src/${imported}`);
  }
});

t.test('no imports run in a circle', async (t) => {
  const graph = new Map(files.map((file) => [file, importsOf(file)]));
  const done = new Set<string>();
  const visit = (file: string, path: string[]): string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return null;
    for (const next of graph.get(file) ?? []) {
      const circle = visit(next, [...path, file]);
      if (circle) return circle;
    }
    done.add(file);
    return null;
  };
  for (const file of files) {
    const circle = visit(file, []);
    t.equal(
      circle,
      null,
      circle ? `these files import each other: ${circle.join(' -> ')}` : `src/${file} is in no circle`,
    );
    if (circle) break;
  }
});

t.test(
  'only main, the commands, the start, the first screen, the workers and the parts of a node know the configuration',
  async (t) => {
    for (const file of files) {
      if (/^cli\/|^(main|cli|start|first-screen|workers?|node|doors|internet|config)\.ts$/.test(file)) continue;
      t.notOk(importsOf(file).includes('config.ts'), `src/${file} must take values, not the configuration`);
      t.notMatch(sourceOf(file), /process\.env/, `src/${file} must not read the environment`);
    }
  },
);

t.test('each error of the API is made in one place', async (t) => {
  for (const file of files.filter((one) => one !== 'errors.ts'))
    t.notMatch(sourceOf(file), /new ApiError\(/, `src/${file} must use a constructor of src/errors.ts`);
});

t.test('no file is longer than can be read in one sitting', async (t) => {
  for (const file of files) {
    if (sourceOf(file).startsWith('// Made from ')) continue;
    const lines = sourceOf(file).split('\n').length;
    t.ok(lines <= mostLines, `src/${file} has ${lines} lines: which second thing does it do?`);
  }
});
