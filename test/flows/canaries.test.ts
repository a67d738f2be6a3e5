import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import t, { type Test } from 'tap';
import { createDatabase } from '../support/db.ts';
import { figure } from '../support/figure.ts';
import { type CallOptions, eventually, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';

/** The tables that contain one of these texts in any column, in clear or as the hex of its bytes. */
async function tablesWith(url: string, ...texts: string[]): Promise<string[]> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT oid::regclass::text AS name FROM pg_class
        WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'pgboss')`,
    );
    const patterns = texts.flatMap((text) => [text, Buffer.from(text).toString('hex')]);
    const hits = await Promise.all(
      rows.map(async ({ name }) => {
        const found = await client.query(
          `SELECT FROM ${name} AS r WHERE EXISTS (SELECT FROM unnest($1::text[]) p WHERE strpos(r::text, p) > 0) LIMIT 1`,
          [patterns],
        );
        return found.rowCount ? [name] : [];
      }),
    );
    return hits.flat();
  });
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function makeFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-canaries-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The ways in which a secret could be written, besides plainly. */
const forms = (text: string) => [
  text,
  Buffer.from(text).toString('base64').replaceAll('=', ''),
  Buffer.from(`\0x\0${text}`).toString('base64').replaceAll('=', ''),
  encodeURIComponent(text),
  JSON.stringify(text).slice(1, -1),
];

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

t.test(
  'AUTH-02, P11: no secret is in the database in clear, in the log, in a file, or in any answer but its first',
  async (t) => {
    const databaseUrl = await createDatabase();
    const dataDir = await makeFolder(t);
    const adminPassword = `canary ${randomBytes(9).toString('hex')}`;
    const env = testEnv(databaseUrl, {
      LOG_LEVEL: 'trace',
      ALLOW_PRIVATE_NETWORKS: 'true',
      DATA_DIR: dataDir,
      ADMIN_PASSWORD: adminPassword,
    });
    const app = await startSendwright(env);
    t.teardown(() => app.end('SIGKILL'));
    const answers: string[] = [];
    const call = async (method: string, path: string, options: CallOptions = {}) => {
      const answer = await app.call(method, `/api/v1${path}`, options);
      answers.push(JSON.stringify([[...answer.headers], answer.body]));
      return answer;
    };
    const email = 'admin@example.test';
    const { token: first } = (await call('POST', '/auth/login', { body: { email, password: adminPassword } })).body;
    const wrongPassword = 'a wrong canary password';
    await call('POST', '/auth/login', { body: { email, password: wrongPassword } });
    const nextPassword = 'the next canary password';
    const change = { current_password: adminPassword, new_password: nextPassword };
    const { token } = (await call('POST', '/auth/password', { token: first, body: change })).body;
    const page = { 'X-Sendwright-Page': '1' };
    const session = await call('POST', '/session', { body: { email, password: nextPassword }, headers: page });
    const cookie = /sendwright_session=([^;]+)/.exec(session.headers.get('set-cookie') ?? '')?.[1] ?? '';
    const { key } = (await call('POST', '/keys', { token, body: { name: 'canary' } })).body;
    const { domain } = (await call('POST', '/domains', { token, body: { domain: 'canary.test' } })).body;
    const pem = String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
    await call('POST', `/domains/${domain.id}/rotate-dkim`, { token, body: { private_key: pem, selector: 'given' } });
    await call('POST', `/domains/${domain.id}/verify`, { token });
    const hook = { url: 'https://127.0.0.1:9443/', events: ['email.sent'] };
    const { secret, webhook } = (await call('POST', '/webhooks', { token, body: hook })).body;
    const { secret: rotated } = (await call('POST', `/webhooks/${webhook.id}/rotate-secret`, { token })).body;
    const { user: member } = (
      await call('POST', '/admin/accounts', { token, body: { name: 'n', email: 'member@canary.test' } })
    ).body;
    const body = { from: 'a@canary.test', to: 'b@anywhere.test', subject: 's', text: 'the text is in the database' };
    const sent = (await call('POST', '/emails', { key, body })).body.email;
    await call('GET', '/emails', { key: `${key}x` });
    await call('GET', `/emails?q=${key}`, { key });
    await eventually(async () => (await call('GET', `/emails/${sent.id}`, { key })).body.email.status === 'sent');

    // What each failing call says about its failure.
    const tables = ['users', 'api_keys', 'webhooks', 'domains', 'login_failures'];
    const rename = (from: string, to: string) =>
      withClient(databaseUrl, async (client) => {
        for (const table of tables) await client.query(`ALTER TABLE ${from}${table} RENAME TO ${to}${table}`);
      });
    const fails = async () => {
      const tried = await Promise.all([
        call('POST', '/auth/login', { body: { email, password: nextPassword } }),
        call('POST', '/auth/password', { token, body: change }),
        call('POST', '/webhooks', { token, body: hook }),
        call('POST', `/domains/${domain.id}/rotate-dkim`, { token, body: { private_key: pem } }),
        call('GET', '/session', { headers: { Cookie: `sendwright_session=${cookie}` } }),
        call('POST', '/emails', { key, body }),
      ]);
      return tried.map(({ status }) => status);
    };
    await rename('', 'old_');
    t.strictSame(await fails(), Array(6).fill(500));
    await rename('old_', '');
    for (const path of [
      '/keys',
      '/webhooks',
      '/domains',
      `/domains/${domain.id}`,
      '/webhook-deliveries',
      '/session',
      '/admin/accounts',
    ])
      t.equal((await call('GET', path, { token })).status, 200, path);

    const shownOnce = 1;
    const secrets: [what: string, text: string, shown: number][] = [
      ['the API key', key, shownOnce],
      ["the key's secret part", key.slice('sk_live_'.length + 4), shownOnce],
      ['the token', first, shownOnce],
      ['the token after it', token, shownOnce],
      ["the browser's token", cookie, shownOnce],
      ['the password', adminPassword, 0],
      ['the next password', nextPassword, 0],
      ['the wrong password', wrongPassword, 0],
      ["a member's generated password", member.password, shownOnce],
      ['JWT_SECRET', env.JWT_SECRET ?? '', 0],
      ['ENCRYPTION_KEY', env.ENCRYPTION_KEY ?? '', 0],
      [
        'ENCRYPTION_KEY as it is used',
        Buffer.from(env.ENCRYPTION_KEY ?? '', 'hex')
          .toString('base64')
          .slice(0, 42),
        0,
      ],
      ['the DKIM key that was given', pem.split('\n')[1] ?? '', 0],
      ['the webhook secret', secret, shownOnce],
      ['the webhook secret after it', rotated, shownOnce],
    ];
    t.equal(await app.end('SIGTERM'), 0);
    t.ok(
      (await tablesWith(databaseUrl, body.text)).some((name) => name.startsWith('email_contents')),
      'a secret that is there is found',
    );
    t.match(app.stdout(), /"path":"\/api\/v1\/keys"/, 'and there is a log');
    t.match(app.stdout(), /a request failed/, 'of failures too');
    const written = app.stdout() + app.stderr();
    const files = filesIn(dataDir)
      .map((path) => readFileSync(path, 'latin1'))
      .join('\n');
    const places = { table: 0, line: 0, file: 0 };
    for (const [what, text, shown] of secrets) {
      t.ok(text.length > 10, `${what} exists, to be searched for`);
      const tables = await tablesWith(databaseUrl, ...forms(text));
      const isLogged = forms(text).some((form) => written.includes(form));
      const isInFile = forms(text).some((form) => files.includes(form));
      places.table += tables.length;
      places.line += Number(isLogged);
      places.file += Number(isInFile);
      t.same(tables, [], `${what} in no table`);
      t.notOk(isLogged, `${what} in no line of the log`);
      t.notOk(isInFile, `${what} in no file`);
      t.equal(
        answers.filter((answer) => forms(text).some((form) => answer.includes(form))).length,
        shown,
        `${what} in ${shown} answers`,
      );
    }
    figure(
      'P11',
      `${secrets.length} secrets in ${forms('').length} spellings: found in ${places.table} tables, ${places.line} logs, ${places.file} files`,
    );
    // PKCS #8, the form of all our private keys before they are sealed: RSA, Ed25519.
    const der = ['308204', '302e020100300506032b6570'];
    const dump = await withClient(databaseUrl, (client) =>
      client.query(
        'SELECT dkim_private_key AS key FROM domains UNION ALL SELECT private_key FROM dkim_keys WHERE private_key IS NOT NULL',
      ),
    );
    t.ok(dump.rows.length >= 2);
    for (const { key: sealed } of dump.rows)
      for (const start of der)
        t.notOk((sealed as Buffer).toString('hex').includes(start), 'no private key is in clear');
  },
);
