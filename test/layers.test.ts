import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import t from 'tap';

/** First to last: a file may import from later places, and from its own place if that is in its folder. */
const order: RegExp[] = [
  /^cli\.ts$/,
  /^cli\//,
  /^main\.ts$/,
  /^node\//,
  /^config\.ts$/,
  /^config\//,
  /^(http|inbound|delivery|webhooks|chores|sandbox)\//,
  /^core\//,
  /^queue\.ts$/,
  /^db\//,
  /^smtp\//,
  /^mail\//,
  /^(pace|process)\//,
  /^crypto\//,
  /^trouble\.ts$/,
  /^(errors|log|ids|numbers|clock|ip|memory|timestamp|spelling|bounded-map)\.ts$|^generated\//,
  /^journald\.ts$/,
  /^log-file\.ts$/,
  /^dashboard\//,
  /^client\//,
];

/** The folders within a folder, in the same way. */
const ordersWithin: Record<string, string[][]> = {
  core: [
    ['operations'],
    ['tls', 'privacy', 'orders'],
    ['retention'],
    ['log'],
    ['outgoing'],
    ['emails'],
    ['domains', 'nodes'],
    ['destinations'],
    ['recipients'],
    ['returns'],
    ['webhooks'],
    ['secrets', 'accounts', 'sources'],
  ],
  delivery: [['preparation'], ['attempt'], ['pools', 'message', 'claims'], ['outcome'], ['sites']],
  http: [['openapi'], ['routes'], ['body'], ['credentials'], ['input', 'present']],
  smtp: [['transaction', 'reports'], ['connections'], ['policies', 'rules'], ['calls'], ['dns'], ['replies']],
  dashboard: [['frame', 'pages'], ['parts'], ['browser'], ['data'], ['words'], ['look']],
  mail: [['submission'], ['compose', 'returns', 'links', 'template'], ['headers', 'encoding'], ['address'], ['text']],
};

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
  // Those have their extensions there whose name is a folder's as well.
  const nameOf = (file: string) => (/^(cli|config)\.ts$/.test(file) ? file : folderOf(file).replace(/\.ts$/, ''));
  const known = order.slice(0, placeOf('trouble.ts')).map((_, place) => {
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

for (const [name, places] of Object.entries(ordersWithin)) {
  t.test(`within ${name} too, from folder to folder`, async (t) => {
    const folderWithin = (file: string) => (file.split('/').length > 2 ? file.split('/')[1] : undefined);
    const placeWithin = (file: string) => places.findIndex((folders) => folders.includes(folderWithin(file) ?? ''));
    const within = files.filter((file) => folderOf(file) === name && folderWithin(file) !== undefined);
    for (const file of within) {
      t.not(placeWithin(file), -1, `src/${file} is in a folder without a place: give it one in test/layers.test.ts`);
      const others = importsOf(file).filter((one) => within.includes(one) && folderWithin(one) !== folderWithin(file));
      for (const imported of others)
        t.ok(
          placeWithin(imported) > placeWithin(file),
          `src/${file} must not import src/${imported}: it is on the wrong side of it`,
        );
    }
    const text = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8');
    const shown =
      text
        .split('\n')
        .find((line) => line.startsWith(`${name}/ `))
        ?.slice(name.length + 1) ?? '';
    const shownPlaces = shown.split('->').map((place) => new Set(place.split(',').map((folder) => folder.trim())));
    t.strictSame(
      shownPlaces.map(sorted),
      places.map((folders) => [...folders].sort()),
      "docs/architecture.md shows this test's order",
    );
  });
}

t.test('every file of the core is in one of its folders', async (t) => {
  for (const file of files.filter((one) => folderOf(one) === 'core')) t.equal(file.split('/').length, 3, `src/${file}`);
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

t.test('mailauth is loaded when it is first needed', async (t) => {
  const loading = files.filter((file) => /^(?:import|export) .*'mailauth\//m.test(sourceOf(file)));
  t.strictSame(loading, [], 'and not by each start: docs/decisions.md');
});

t.test('a command is loaded when it is called', async (t) => {
  const eager = sourceOf('cli/commands.ts').match(/^import (?!type ).*$/gm) ?? [];
  t.strictSame(eager, [], 'and not by the usage, nor by each other command');
  t.match(sourceOf('cli/commands.ts'), /await import\('/);
});
