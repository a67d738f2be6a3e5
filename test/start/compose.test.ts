import fs from 'node:fs';
import t from 'tap';
import { parse } from 'yaml';
import { variables } from '../../src/config/variables.ts';
import { readConfig } from '../../src/config.ts';

interface Service {
  image?: string;
  build?: string;
  environment: Record<string, string | null>;
  ports?: string[];
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  volumes?: string[];
  logging?: { driver: string; options: Record<string, string> };
}

const text = fs.readFileSync('docker-compose.yml', 'utf8');
const compose = parse(text) as {
  services: { app: Service; postgres: Service };
  volumes: Record<string, unknown>;
};
const { app, postgres } = compose.services;
const dockerfile = fs.readFileSync('Dockerfile', 'utf8');

/** How Compose expands `${NAME:-default}` and `${NAME:?complaint}`. */
function substitute(value: string, env: Record<string, string>): string {
  return value.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_all, name: string, operator: string, rest: string) => {
    if (env[name]) return env[name];
    if (operator === '?') throw new Error(rest);
    return rest;
  });
}

/** What the container gets: a name without a value is taken from the environment of Compose, or is not set. */
const environment = (env: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(app.environment)
      .map(([name, value]) => [name, value === null ? env[name] : substitute(value, env)] as const)
      .filter((entry): entry is [string, string] => entry[1] !== undefined),
  );

/** Paths in the container, which `ports`, `volumes` and the Dockerfile use. */
const ofContainer = [
  ...['DATA_DIR', 'HTTP_HOST', 'HTTP_PORT', 'SMTP_HOST'],
  ...['INBOUND_SMTP_PORT', 'SUBMISSION_PORT', 'SUBMISSIONS_PORT'],
];

/** Variables of Node, Prisma and glibc. */
const ofOthers = ['NODE_ENV', 'NODE_OPTIONS', 'CHECKPOINT_DISABLE', 'MALLOC_ARENA_MAX', 'MALLOC_MMAP_THRESHOLD_'];

const secrets = {
  POSTGRES_PASSWORD: '0123456789abcdef'.repeat(3),
  JWT_SECRET: 'db669af634b75c7f298400f3b6c2aa8ba54998bac83e23d10ab4eaadc4b50ccf',
  ENCRYPTION_KEY: 'db669af634b75c7f298400f3b6c2aa8ba54998bac83e23d10ab4eaadc4b50ccf',
};

t.test('the variables are documented, and the secrets are required', async (t) => {
  const known = new Set(variables.map(({ name }) => name));
  t.match(environment({ ...secrets, NODE_OPTIONS: '--max-old-space-size=256' }), { NODE_OPTIONS: /=256$/ });
  for (const name of Object.keys(app.environment)) t.ok(known.has(name) || ofOthers.includes(name), name);
  for (const [, name] of dockerfile.matchAll(/\b([A-Z_]{6,})=(?!\/bin)/g)) {
    t.ok(known.has(name ?? '') || ofOthers.includes(name ?? ''), `${name} in the Dockerfile`);
  }
  for (const name of Object.keys(secrets)) {
    t.throws(() => environment({ ...secrets, [name]: '' }), { message: `set ${name} in .env` });
  }
});

t.test('every documented variable reaches the container, except its own', async (t) => {
  const passed = Object.keys(app.environment).filter((name) => !ofOthers.includes(name));
  t.same([...passed, ...ofContainer].sort(), variables.map(({ name }) => name).sort());
  // The comment at the top lists what is left out.
  const comment = text.slice(0, text.indexOf('services:')).replaceAll(/\n# /g, ' ');
  for (const name of [...ofContainer, 'DATABASE_URL']) t.match(comment, new RegExp(`container's own: .*${name}`), name);

  const all: Record<string, string> = Object.fromEntries(passed.map((name) => [name, `${name} as given`]));
  const reached = environment({ ...all, ...secrets });
  t.match(reached.DATABASE_URL, /@postgres:5432/, 'its database is set in the file');
  const { JWT_SECRET, ENCRYPTION_KEY } = secrets;
  t.same(reached, { ...all, JWT_SECRET, ENCRYPTION_KEY, DATABASE_URL: reached.DATABASE_URL });
  t.equal(readConfig(environment({ ...secrets, START_ON_HOLD: 'true' })).startOnHold, true);
  t.same(
    Object.keys(environment(secrets)).sort(),
    ['DATABASE_URL', 'ENCRYPTION_KEY', 'JWT_SECRET'],
    'no value is empty',
  );
});

t.test('a certificate is mounted from where the host has it', async (t) => {
  const [volume = ''] = app.volumes ?? [];
  t.equal(substitute(volume, { CERTIFICATES: '/srv/tls' }), '/srv/tls:/etc/letsencrypt:ro');
  const [named = ''] = substitute(volume, {}).split(':');
  t.ok(named in compose.volumes, 'without one there is an empty volume');
});

t.test('with only the secrets, and with real delivery, Sendwright accepts the configuration', async (t) => {
  const config = readConfig(environment(secrets));
  const url = new URL(config.databaseUrl ?? '');
  t.equal(url.hostname, 'postgres');
  t.match(postgres.environment, { POSTGRES_USER: url.username, POSTGRES_DB: url.pathname.slice(1) });
  t.equal(url.password, substitute(postgres.environment.POSTGRES_PASSWORD ?? '', secrets));
  t.match(readConfig(environment({ ...secrets, DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' })), {
    deliveryMode: 'direct',
    mailHostname: 'mail.example.com',
  });
});

t.test('the ports are those that Sendwright listens on', async (t) => {
  const { http, ports } = readConfig({});
  const listened = [http.port, ports.inbound, ports.submission, ports.submissions];
  const published = (app.ports ?? []).map((port) => Number(port.split(':').at(-1)));
  t.same(published, listened, 'in docker-compose.yml');
  t.same(/^EXPOSE (.*)$/m.exec(dockerfile)?.[1]?.split(' ').map(Number), listened, 'in the Dockerfile');
  t.match(dockerfile, `|| ${http.port}}/healthz`);
});

t.test('the app waits for a healthy database that keeps its data', async (t) => {
  t.equal(app.depends_on?.postgres?.condition, 'service_healthy');
  t.equal(postgres.healthcheck?.test[1], 'pg_isready');
  t.equal(postgres.image, 'postgres:18');
  // Since version 18 the image keeps its data one folder higher, and refuses a volume at the old place.
  t.same(postgres.volumes, ['database:/var/lib/postgresql']);
  t.ok('database' in compose.volumes);
});

t.test('logs cannot fill the disk: Docker keeps all of them unless it is told otherwise', async (t) => {
  for (const { logging } of [app, postgres]) {
    t.equal(logging?.driver, 'local');
    t.match(logging?.options, { 'max-size': /^\d+m$/, 'max-file': /^\d+$/ });
  }
});

t.test('everything that the Dockerfile copies exists and is not ignored', async (t) => {
  const allowed = fs.readFileSync('.dockerignore', 'utf8').split('\n');
  const copies = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)];
  const files = copies.flatMap(([, list]) => list?.split(' ') ?? []);
  t.ok(files.includes('src'));
  for (const file of files) {
    t.ok(fs.existsSync(file), file);
    t.ok(allowed.includes(`!${file.split('/')[0]}`), `${file} in .dockerignore`);
  }
});
