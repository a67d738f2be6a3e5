import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import t from 'tap';

/** First to last: a file may import from later places, and from its own place if that is in its folder. */
const order: RegExp[] = [
  /^cli\.ts$/,
  /^cli\//,
  /^main\.ts$/,
  /^start\.ts$/,
  /^(first-screen|workers)\.ts$/,
  /^worker\.ts$/,
  /^node\.ts$/,
  /^dispatchers\.ts$/,
  /^(database|doors|internet|metrics-port)\.ts$/,
  /^config\.ts$/,
  /^config-environment\.ts$/,
  /^config-(secrets|sending-ips|values|variables)\.ts$/,
  /^(http|inbound|delivery|webhooks|chores|sandbox)\//,
  /^core\//,
  /^queue\.ts$/,
  /^db\//,
  /^smtp\//,
  /^mail\//,
  /^(rounds|batch-loop|batch-writer|batcher|by-weight|data-dir|account-turns|endpoint|free-now|give-way|sending-pools|memory-room|open-files|siblings|stops|turns)\.ts$/,
  /^trouble\.ts$/,
  /^(errors|start-error|log|ids|numbers|clock|ip|seal|password|certificate|timestamp|spelling|tally|bounded-map|metrics|rate-limit)\.ts$|^generated\//,
  /^dashboard\//,
  /^client\//,
];

/** The folders of `core`, in the same order. */
const orderOfCore = [
  ['operations'],
  ['tls', 'privacy'],
  ['retention'],
  ['log'],
  ['outgoing'],
  ['emails'],
  ['domains'],
  ['recipients'],
  ['returns'],
  ['webhooks'],
  ['secrets', 'accounts'],
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
const sorted = (names: Set<string>) => [...names].sort();
const folderOf = (file: string) => (file.includes('/') ? file.slice(0, file.indexOf('/')) : file);

t.test('every file has a place in the order of layers', async (t) => {
  for (const file of files)
    t.not(placeOf(file), -1, `src/${file} belongs to no layer: give it a place in test/layers.test.ts`);
});

t.test('the order is the one in the documents', async (t) => {
  // There `cli.ts` has its extension, because `cli` is the folder.
  const nameOf = (file: string) => (file === 'cli.ts' ? file : folderOf(file).replace(/\.ts$/, ''));
  const known = order.slice(0, placeOf('rounds.ts')).map((_, place) => {
    return new Set(files.filter((file) => placeOf(file) === place).map(nameOf));
  });
  for (const document of ['CONTRIBUTING.md', 'docs/architecture.md']) {
    const text = readFileSync(new URL(`../${document}`, import.meta.url), 'utf8');
    const [, shown = ''] = /^(cli\.ts +->[^`]*?)->\s+leaves$/m.exec(text) ?? [];
    const places = shown.split('->').map((place) => new Set(place.split(',').map((name) => name.trim())));
    t.strictSame(places.map(sorted), known.map(sorted), `${document} shows this test's order`);
  }
});

t.test('imports go one way', async (t) => {
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

t.test('in the core too, from folder to folder', async (t) => {
  const placeInCore = (file: string) => orderOfCore.findIndex((names) => names.includes(file.split('/')[1] ?? ''));
  const ofCore = files.filter((file) => folderOf(file) === 'core');
  for (const file of ofCore) {
    t.not(
      placeInCore(file),
      -1,
      `src/${file} is in no folder of the core: give it one, with a place in test/layers.test.ts`,
    );
    for (const imported of importsOf(file).filter((one) => folderOf(one) === 'core'))
      t.ok(
        dirname(imported) === dirname(file) || placeInCore(imported) > placeInCore(file),
        `src/${file} must not import src/${imported}: it is on the wrong side of it`,
      );
  }
  const text = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8');
  const [, shown = ''] = /^(operations +->[^`]*)$/m.exec(text) ?? [];
  const places = shown.split('->').map((place) => place.split(',').map((name) => name.trim()));
  t.strictSame(places, orderOfCore, "docs/architecture.md shows this test's order");
});

t.test('the client imports only its own files, so that it runs anywhere', async (t) => {
  const ofClient = files.filter((file) => folderOf(file) === 'client');
  t.ok(ofClient.length > 5);
  for (const file of ofClient)
    t.strictSame(
      sourceOf(file).match(/(?:from |import |import\()'(?!\.\/)[^']+'/g),
      null,
      `src/${file} imports its neighbours only`,
    );
});

t.test("the dashboard knows only the service's client, and nothing knows the dashboard", async (t) => {
  const importers = files.filter((file) => importsOf(file).some((imported) => folderOf(imported) === 'dashboard'));
  t.ok(importers.length > 5);
  for (const file of importers) t.equal(folderOf(file), 'dashboard', `src/${file} must not import the dashboard`);
  for (const file of files.filter((one) => folderOf(one) === 'dashboard')) {
    for (const imported of importsOf(file))
      t.match(imported, /^(dashboard|client)\//, `src/${file} must not import src/${imported}`);
  }
});

t.test('imports do not form a circle', async (t) => {
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

t.test('only main and the commands read the configuration and the environment', async (t) => {
  for (const file of files.filter((one) => !/^cli\/|^(cli|main)\.ts$/.test(one))) {
    if (file !== 'config.ts') t.notMatch(sourceOf(file), /\breadConfig\b/, `src/${file} must take the configuration`);
    t.notMatch(sourceOf(file), /process\.env/, `src/${file} must not read the environment`);
  }
});

t.test('no route imports another', async (t) => {
  const isRoute = (file: string) => file.startsWith('http/routes/');
  t.ok(files.filter(isRoute).length > 10);
  for (const file of files.filter(isRoute))
    t.strictSame(importsOf(file).filter(isRoute), [], `what src/${file} shares with another route belongs to src/http`);
});

t.test('each error of the API is made in one place', async (t) => {
  for (const file of files.filter((one) => one !== 'errors.ts'))
    t.notMatch(sourceOf(file), /new ApiError\(/, `src/${file} must use a constructor of src/errors.ts`);
});

t.test('no file is too long to read in one sitting', async (t) => {
  for (const file of files) {
    if (sourceOf(file).startsWith('// Made from ')) continue;
    const lines = sourceOf(file).split('\n').length;
    t.ok(lines <= mostLines, `src/${file} has ${lines} lines: which second thing does it do?`);
  }
});
