import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import t from 'tap';
import { rotateEncryption } from '../../src/cli/rotate-encryption.ts';
import { Keyring, seal } from '../../src/crypto/seal.ts';
import { makeDataDir, readSecrets } from '../../src/process/data-dir.ts';
import { createDatabase } from '../support/db.ts';
import { figure } from '../support/figure.ts';
import { testKey } from '../support/keys.ts';
import { testEnv } from '../support/node.ts';
import { flags, ownEnv, startSendwright } from '../support/process.ts';
import { makeFolder, refusalOf } from '../support/start.ts';

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));
const [old, next] = [testKey(1).toString('hex'), testKey(2).toString('hex')];

/** Runs a command as an operator does. It is killed when its output has these words: `killAt`. */
async function run(env: Record<string, string>, args = ['keys', 'rotate-encryption'], killAt?: RegExp) {
  const child = spawn(process.execPath, [...flags, cli, ...args], {
    env: { ...ownEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      said += chunk;
      if (killAt?.test(said)) child.kill('SIGKILL');
    });
  const [code, signal] = await once(child, 'close');
  return { ended: code ?? signal, said };
}

/** The same in this process, which is cheaper: its output, or why it failed. */
async function rotate(env: Record<string, string>): Promise<string> {
  return rotateEncryption
    .run(env, () => undefined)
    .then(
      ({ text }) => text,
      (error: Error) => error.message,
    );
}

async function query(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

t.test('the key is changed while a node runs, even by a command that was killed half way', async (t) => {
  const databaseUrl = await createDatabase();
  const env = testEnv(databaseUrl, { DATA_DIR: await makeFolder(t), ENCRYPTION_KEY: old, ROLES: 'api' });
  const both = { ...env, ENCRYPTION_KEY_NEXT: next };
  t.match(await rotate(env), /^ENCRYPTION_KEY_NEXT is missing: generate one with openssl/);
  const app = await startSendwright(both);
  const { token } = (
    await app.call('POST', '/api/v1/auth/login', { body: { email: env.ADMIN_EMAIL, password: env.ADMIN_PASSWORD } })
  ).body;
  const add = async () => {
    const body = { url: 'https://hooks.example.com/', events: ['email.sent'] };
    const { status } = await app.call('POST', '/api/v1/webhooks', { token, body });
    t.equal(status, 201);
  };
  await add();
  // Many more secrets, to be killed in the middle of them.
  const { first } = new Keyring(testKey(1));
  const names = Array.from({ length: 900 }, (_, index) => `canary ${index}`);
  const sealed = names.map((name) => seal(first, Buffer.from(name), `service:${name}`));
  await query(databaseUrl, 'INSERT INTO service_secrets SELECT * FROM unnest($1::text[], $2::bytea[])', [
    names,
    sealed,
  ]);
  t.match(await run(both, undefined, /re-encrypted/), { ended: 'SIGKILL', said: /of 90\d re-encrypted/ });
  const [state] = await query(databaseUrl, 'SELECT retiring_key_id FROM encryption_check');
  t.equal(state?.retiring_key_id, first.id, 'it was in the middle');
  await add();
  t.match(await refusalOf({ ...env, ENCRYPTION_KEY: next }), /^ENCRYPTION_KEY is one of two .* ENCRYPTION_KEY_NEXT/);
  const again = await run(both);
  figure(
    'P20',
    `${names.length} secrets and a few more, killed in the middle: the next call said "${/Everything is encrypted/.exec(again.said)?.[0]}"`,
  );
  t.match(again, {
    ended: 0,
    said: /Everything is encrypted with the key [\s\S]*set ENCRYPTION_KEY to the new key/,
  });
  await add();
  t.equal(await app.end('SIGTERM'), 0);
  t.match(await refusalOf(env), /^ENCRYPTION_KEY is not the key of this database/);
});

t.test('the generated key of the embedded database is changed, and no file is readable by others', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  const env = { DATA_DIR: dataDir };
  t.match(await rotate(env), /^DATA_DIR .* has no database/);
  const umask = process.umask(0);
  const starting = startSendwright({ ...env, SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' });
  process.umask(umask);
  const app = await starting;
  const before = await readSecrets(dataDir);
  t.match(await rotate(env), /^these processes do not know the new key yet/);
  const { nextEncryptionKey: stored = '' } = await readSecrets(dataDir);
  t.same(openIn(dataDir), [], 'with umask 000');
  t.equal(await app.end('SIGTERM'), 0);
  t.match(await rotate(env), /secrets\.json has only the new one/);
  const after = await readSecrets(dataDir);
  t.not(after.encryptionKey, before.encryptionKey);
  t.equal(after.encryptionKey, stored, 'a key that was stored before anything is encrypted with it');
  t.equal(after.nextEncryptionKey, undefined);
  t.same({ ...after, encryptionKey: '' }, { ...before, encryptionKey: '' });
  t.same(openIn(dataDir), []);
});

t.test(
  'the key of an embedded database that is in the environment is changed, and where to put the new one is said',
  async (t) => {
    const env = { DATA_DIR: join(await makeFolder(t), 'data'), ENCRYPTION_KEY: old };
    const both = { ...env, ENCRYPTION_KEY_NEXT: next };
    const ports = { SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };
    const app = await startSendwright({ ...env, ...ports });
    t.match(await rotate(both), /^these processes do not know the new key yet/);
    t.equal(await app.end('SIGTERM'), 0);
    t.match(await rotate(env), /^ENCRYPTION_KEY_NEXT is missing: /);
    t.match(
      await rotate(both),
      /^Everything is encrypted with the key [\s\S]*set ENCRYPTION_KEY to the new key, remove /,
    );
    const { encryptionKey, nextEncryptionKey } = await readSecrets(env.DATA_DIR);
    t.notOk(
      [encryptionKey, nextEncryptionKey].some((key) => key && Buffer.from(key, 'base64').toString('hex') === next),
    );
    t.match(await refusalOf({ ...env, ...ports, HTTP_PORT: '0' }), /^ENCRYPTION_KEY is not the key of this database/);
    const again = await startSendwright({ ...env, ...ports, ENCRYPTION_KEY: next });
    t.equal(await again.end('SIGTERM'), 0);
  },
);

t.test('secrets and a folder that others could reach are closed to them', async (t) => {
  const dataDir = await makeFolder(t);
  await readSecrets(dataDir);
  await mkdir(join(dataDir, 'journal'), { mode: 0o700 });
  await chmod(dataDir, 0o777);
  await chmod(join(dataDir, 'secrets.json'), 0o666);
  await readSecrets(dataDir);
  t.same(openIn(dataDir), []);
  t.equal(statSync(dataDir).mode & 0o777, 0o755, 'those who could pass through still can');
  await chmod(dataDir, 0o775);
  await makeDataDir(dataDir);
  t.equal(statSync(dataDir).mode & 0o022, 0);
});

t.test('an unknown command', async (t) => {
  const said = /unknown command "keys rotate"[\s\S]*keys rotate-encryption/;
  t.match(await run({}, ['keys', 'rotate']), { ended: 2, said });
});

/** What group and others may read, write or list below this folder, which they may pass through. */
function openIn(folder: string): string[] {
  const isOpen = (path: string, rights: number) => (statSync(path).mode & rights) !== 0;
  const inside = readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    // The server's own folder is closed as a whole, because PostgreSQL insists on that.
    return isOpen(path, 0o077) ? [path] : [];
  });
  return isOpen(folder, 0o022) ? [folder, ...inside] : inside;
}
