import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { connect } from '../../src/db/client.ts';
import { findPostmaster } from '../../src/db/postgres-process.ts';
import { silentLog } from '../../src/log.ts';
import { createDatabase } from '../support/db.ts';
import { directEnv } from '../support/direct.ts';
import { eventually, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { flags, ownEnv } from '../support/process.ts';
import { makeFolder } from '../support/start.ts';
import { startZone } from '../support/zone.ts';
import { createEmptyDatabase } from './empty-database.ts';
import { sendwright, told } from './terminal.ts';

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));

t.test('an empty database is refused until it is migrated, and migrating again changes nothing', async (t) => {
  const env = testEnv(await createEmptyDatabase());
  for (const args of [
    ['accounts', 'list'],
    ['send', '--from', 'a@b.test', '--to', 'a@b.test', '--subject', 's', '--text', 't'],
  ])
    t.match(await sendwright(env, ...args), {
      code: 1,
      said: 'sendwright: the database has no Sendwright tables yet: run npm start or sendwright migrate to create them',
    });
  for (const [option, value, reason] of [
    ['sslmode', 'require', 'The server does not support SSL connections'],
    ['sslrootcert', '/nowhere', "ENOENT: no such file or directory, open '/nowhere'"],
  ] as const) {
    const url = new URL(env.DATABASE_URL ?? '');
    url.searchParams.set(option, value);
    t.match(await sendwright({ ...env, DATABASE_URL: url.href }, 'accounts', 'list'), {
      code: 1,
      said: `sendwright: the database cannot be reached (${reason}): check DATABASE_URL and its server`,
    });
  }
  const rotating = { ...env, ENCRYPTION_KEY_NEXT: randomBytes(32).toString('hex') };
  t.match(await sendwright(rotating, 'keys', 'rotate-encryption'), {
    code: 1,
    said: /has no Sendwright tables yet/,
  });
  const { code, printed } = await sendwright(env, 'migrate');
  t.equal(code, 0);
  t.match(printed, /^(applied \d{14}_\w+\n){15,}applied \d{14}_\w+$/);
  const db = connect(env.DATABASE_URL ?? '', silentLog, 1);
  t.teardown(() => db.close());
  const queues = await db.query<{ name: string }>({ text: 'SELECT name FROM pgboss.queue ORDER BY name' });
  t.strictSame(
    queues.map(({ name }) => name),
    ['deliver', 'webhook'],
    'the queue is there too',
  );
  t.strictSame(await told(env, 'migrate'), { code: 0, applied: [] });
  t.match(await sendwright(env, 'migrate'), { code: 0, printed: 'The schema is up to date.' });
  t.match(await told(env, 'accounts', 'list'), { code: 0, accounts: [] });
  const hello = ['--from', 'a@b.test', '--to', 'a@b.test', '--subject', 's', '--text', 't'];
  for (const args of [
    ['keys', 'create', '--name', 'a'],
    ['send', ...hello],
  ])
    t.match(await sendwright(env, ...args), {
      code: 1,
      said: /^sendwright: there is no admin yet, .* npm start creates one$/,
    });
  t.match(await told(rotating, 'keys', 'rotate-encryption'), { code: 0, key_id: /^[0-9a-f]+$/, re_encrypted: Number });
});

t.test('a command refuses the database of another version, and says which of the two is older', async (t) => {
  const url = await createDatabase();
  const db = connect(url, silentLog, 1);
  t.teardown(() => db.close());
  const env = testEnv(url);
  const refused = 'sendwright: the database belongs to';
  await db.query({
    text: `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
           VALUES ('1', '', now(), '29991231000000_later', 1)`,
  });
  t.match(await sendwright(env, 'accounts', 'list'), {
    code: 1,
    said: `${refused} a newer version of Sendwright: use the commands of that version, even if the nodes have gone back to this one`,
  });
  t.match(await sendwright(env, 'migrate'), {
    code: 0,
    printed: /^Nothing was applied: the schema is that of a newer version of Sendwright/,
  });
  await db.query({
    text: `DELETE FROM _prisma_migrations WHERE migration_name >= (SELECT max(migration_name) FROM _prisma_migrations
            WHERE migration_name < '2999')`,
  });
  t.match(await sendwright(env, 'accounts', 'list'), {
    code: 1,
    said: `${refused} an older version of Sendwright: run sendwright migrate, or start this version on it once`,
  });
});

t.test('before there are tables, the doctor checks what needs none', async (t) => {
  const zone = await startZone({ 'mail.example.com': { A: ['127.0.0.1'] } });
  t.teardown(() => zone.close());
  const dataDir = join(await makeFolder(t), 'not there', 'data');
  const direct = {
    ...directEnv(zone, 1),
    ...{
      MAIL_HOSTNAME: 'mail.example.com',
      DNS_BLOCKLISTS: 'none',
      DATA_DIR: dataDir,
      BASE_URL: 'https://a.example.com',
    },
  };
  const looked = (findings: { check: string; health: string }[], check: string) =>
    findings.find((finding) => finding.check === check)?.health;
  const noServer = await told(direct, 'doctor', '--mx', 'nowhere.example.com');
  t.match(noServer, { code: 1, well: false, prepared: false, database_refusal: null });
  const healths = { mail_hostname: 'ok', reverse_dns: 'problem', base_url: 'ok', disk_space: 'ok', domain: undefined };
  for (const [check, health] of Object.entries({ ...healths, clock: undefined }))
    t.equal(looked(noServer.findings, check), health, check);
  t.match(
    noServer.findings.find(({ check }: { check: string }) => check === 'outbound_port_25'),
    { health: 'unknown', advice: 'Name another MX host to test with --mx.' },
  );
  t.notOk(existsSync(dirname(dataDir)), 'nothing is created');
  const { code, printed } = await sendwright(direct, 'doctor');
  t.equal(code, 1);
  const [sentence, ...lines] = printed.split('\n');
  t.match(sentence, new RegExp(`^DATA_DIR ${dataDir} has no database yet: `));
  const total = (all: string[]) => {
    const [problems, unknown] = ['PROBLEM ', 'unknown '].map(
      (word) => all.filter((line) => line.startsWith(word)).length,
    );
    return `Problems: ${problems}, unknown: ${unknown}.`;
  };
  t.equal(lines.pop(), total(lines));
  for (const [at, line] of lines.entries()) {
    if (/^(PROBLEM|unknown) /.test(line)) t.match(lines[at + 1], /^ {9}-> \S/, `it says what to do: ${line}`);
    if (/^ok /.test(line)) t.notMatch(lines[at + 1] ?? '', /^ +->/, `there is nothing to do: ${line}`);
  }

  const env = testEnv(await createEmptyDatabase(), direct);
  const noTables = await told(env, 'doctor');
  t.match(noTables, { code: 1, prepared: false, database_refusal: null });
  for (const [check, health] of Object.entries({ ...healths, clock: 'ok' }))
    t.equal(looked(noTables.findings, check), health, check);
  const refused = await sendwright({ ...env, ALLOW_UNSAFE_DATABASE: 'false' }, 'doctor');
  t.match(refused, {
    code: 1,
    printed: /^The database has no Sendwright tables.*\nPROBLEM {2}database: the database has .* off/,
  });
  t.equal(refused.printed.split('\n').at(-1), total(refused.printed.split('\n')), 'the refusal counts');
  t.match(
    await sendwright({ ...env, ALLOW_UNSAFE_DATABASE: 'false' }, 'migrate'),
    { code: 1, printed: '', said: /^sendwright: the database has .* off/ },
    'nor is it prepared for a start that would refuse it',
  );
  const sandbox = await sendwright(testEnv(env.DATABASE_URL ?? ''), 'doctor');
  t.match(sandbox, { code: 1, printed: /No mail leaves this machine/ });
  t.match(
    await sendwright(env, 'accounts', 'list'),
    { code: 1, said: /has no Sendwright tables/ },
    'nothing is created there either',
  );
});

t.test('an embedded database that cannot be used gives one line, as at a start', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  const database = join(dataDir, 'postgres');
  await mkdir(dataDir);
  await symlink(join(dataDir, 'moved'), database);
  for (const args of [['accounts', 'list'], ['doctor'], ['keys', 'rotate-encryption']])
    t.match(await sendwright({ DATA_DIR: dataDir }, ...args), {
      code: 1,
      said: /^sendwright: .* links to .*, which does not exist: restore it, .*$/,
    });
  await rm(database);
  await mkdir(database);
  await writeFile(join(database, 'a file'), 'of somebody else');
  t.match(await sendwright({ DATA_DIR: dataDir }, 'accounts', 'list'), {
    code: 1,
    said: /^sendwright: .* is not a PostgreSQL data directory: move it away$/,
  });
});

t.test('a real process: start, commands next to it on its embedded database, and without it', async (t) => {
  const port = String(await freePort());
  const off = { HTTP_PORT: port, INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };
  const env = { ...ownEnv(), ...off, DATA_DIR: join(await makeFolder(t), 'data'), LOG_LEVEL: 'silent' };
  // As on a hardened machine.
  const umask = process.umask(0o077);
  const service = spawn(process.execPath, [...flags, cli, 'start'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  process.umask(umask);
  const ended = once(service, 'exit');
  let said = '';
  await new Promise<void>((resolve, reject) => {
    service.stderr.on('data', (chunk) => {
      said += chunk;
      if (said.includes('Stop with Ctrl-C')) resolve();
    });
    void ended.then(() => reject(new Error(said)));
  });
  t.match(said, new RegExp(`http://localhost:${port}`));
  t.equal(statSync(env.DATA_DIR).mode & 0o777, 0o711, "the server's user gets to its folder");
  t.match(await told(env, 'domains', 'list'), { domains: [{ domain: 'example.test', status: 'verified' }] });
  const hello = ['--from', 'a@example.test', '--to', 'b@anywhere.test', '--subject', 's', '--text', 't', '--wait'];
  t.match(await told(env, 'send', ...hello), { code: 0, email: { status: 'sent' } });
  t.match(await sendwright(env, 'doctor'), { code: 1, printed: /No mail leaves this machine/ });

  const postmaster = () => findPostmaster(realpathSync(join(env.DATA_DIR, 'postgres')));
  const { pid } = postmaster() ?? {};
  if (!pid) throw new Error('no server runs');
  process.kill(pid, 'SIGSTOP');
  try {
    for (const args of [['accounts', 'list'], ['migrate']])
      t.match(await sendwright(env, ...args), {
        code: 1,
        said: new RegExp(
          `^sendwright: the embedded PostgreSQL in .*data does not answer \\(.*\\): if that goes on, end its process with kill -9 ${pid}, which loses no mail, and start Sendwright again$`,
        ),
      });
    const without = await told(env, 'doctor');
    t.match(without, { code: 1, well: false, prepared: null, database_refusal: /does not answer .* kill -9/ });
    const checks = without.findings.map(({ check }: { check: string }) => check);
    t.strictSame(checks, ['delivery_mode', 'disk_space'], 'the doctor checks what it can all the same');
  } finally {
    process.kill(pid, 'SIGCONT');
  }

  service.kill('SIGTERM');
  t.equal((await ended)[0], 0);
  t.match(await told(env, 'accounts', 'list'), { code: 0, count: 1 });

  // Looks up names at a server that never answers, until it is interrupted: the database that it started goes with it.
  const silent = createSocket('udp4').bind(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => void silent.close());
  const slow = {
    DELIVERY_MODE: 'direct',
    MAIL_HOSTNAME: 'mail.example.com',
    DNS_SERVERS: `127.0.0.1:${silent.address().port}`,
  };
  const waiting = spawn(process.execPath, [...flags, cli, 'doctor'], {
    env: { ...env, ...slow },
    stdio: 'ignore',
  });
  const left = once(waiting, 'exit');
  await eventually(async () => postmaster() !== undefined);
  waiting.kill('SIGINT');
  t.equal((await left)[0], 130);
  t.notOk(postmaster());
});
