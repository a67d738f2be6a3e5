import pg from 'pg';
import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { adminPassword, eventually, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';

/** The tables that hold this text in any column, in clear or as the hex of its bytes. */
async function tablesWith(url: string, text: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      `SELECT oid::regclass::text AS name FROM pg_class
        WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'pgboss')`,
    );
    const hits = await Promise.all(
      rows.map(async ({ name }) => {
        const found = await client.query(
          `SELECT FROM ${name} AS r WHERE strpos(r::text, $1) > 0 OR strpos(r::text, $2) > 0 LIMIT 1`,
          [text, Buffer.from(text).toString('hex')],
        );
        return found.rowCount ? [name] : [];
      }),
    );
    return hits.flat();
  } finally {
    await client.end();
  }
}

t.test('AUTH-02: no secret is in the database in clear, nor in any line of the log', async (t) => {
  const databaseUrl = await createDatabase();
  const env = testEnv(databaseUrl, { LOG_LEVEL: 'trace', ALLOW_PRIVATE_NETWORKS: 'true' });
  const app = await startSendwright(env);
  const body = { email: 'admin@example.test', password: adminPassword };
  const { token } = (await app.call('POST', '/api/v1/auth/login', { body })).body;
  await app.call('POST', '/api/v1/auth/login', { body: { ...body, password: 'a wrong canary password' } });
  const { key } = (await app.call('POST', '/api/v1/keys', { token, body: { name: 'canary' } })).body;
  const { domain } = (await app.call('POST', '/api/v1/domains', { token, body: { domain: 'canary.test' } })).body;
  await app.call('POST', `/api/v1/domains/${domain.id}/verify`, { token });
  const hook = { url: 'https://127.0.0.1:9443/', events: ['email.sent'] };
  const { secret } = (await app.call('POST', '/api/v1/webhooks', { token, body: hook })).body;
  const email = { from: 'a@canary.test', to: 'b@anywhere.test', subject: 's', text: 'the text is in the database' };
  const sent = (await app.call('POST', '/api/v1/emails', { key, body: email })).body.email;
  await app.call('GET', '/api/v1/emails', { key: `${key}x` });
  await eventually(
    async () => (await app.call('GET', `/api/v1/emails/${sent.id}`, { key })).body.email.status === 'sent',
  );

  const secrets: [what: string, text: string][] = [
    ['the API key', key],
    ["the key's secret part", key.slice('sk_live_'.length + 4)],
    ['the token', token],
    ['the password', adminPassword],
    ['the wrong password', 'a wrong canary password'],
    ['JWT_SECRET', env.JWT_SECRET ?? ''],
    ['ENCRYPTION_KEY', env.ENCRYPTION_KEY ?? ''],
    ['the webhook secret', secret],
  ];
  const found = await tablesWith(databaseUrl, email.text);
  t.ok(
    found.some((name) => name.startsWith('email_contents')),
    'what is there is found',
  );
  t.match(app.stdout(), /"path":"\/api\/v1\/keys"/, 'and there is a log');
  for (const [what, text] of secrets) {
    t.ok(text.length > 10, `${what} is there to be looked for`);
    t.same(await tablesWith(databaseUrl, text), [], `${what} in no table`);
    t.notOk(`${app.stdout()}${app.stderr()}`.includes(text), `${what} in no line of the log`);
  }
  t.equal(await app.end('SIGTERM'), 0);
});
