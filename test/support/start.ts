import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { readConfig } from '../../src/config.ts';
import { startErrorOf } from '../../src/db/failure.ts';
import { silentLog } from '../../src/log.ts';
import { start } from '../../src/node/start.ts';
import { type Stops, stopAll } from '../../src/process/stops.ts';
import { createDatabase } from './db.ts';
import { call, portsOff, testEnv } from './node.ts';
import { testServerUrl } from './postgres.ts';
import { runSendwright, type SendwrightProcess } from './process.ts';

type Test = { teardown(work: () => Promise<void>): void };

/** The operator's one line with which a start in this process fails. */
export async function refusalOf(env: Record<string, string>): Promise<string> {
  const stops: Stops = [];
  const refusal = await startHere(env, stops, () => undefined).then(
    () => null,
    (error: Error) => error,
  );
  await stopAll(stops);
  if (refusal === null) throw new Error('it started');
  const message = startErrorOf(refusal)?.message;
  if (message === undefined || message.includes('\n')) throw refusal;
  return message;
}

/**
 * Starts with this environment in this process, which costs a fifth of a process of its own, and stops again.
 *
 * @returns what it said, to the end of the first screen
 * @throws whatever kept it from starting or stopping
 */
export async function firstScreenOf(
  env: Record<string, string>,
  use: (node: Pick<SendwrightProcess, 'baseUrl' | 'stderr' | 'call'>) => Promise<void> = async () => undefined,
): Promise<string> {
  const said: string[] = [];
  const stops: Stops = [];
  try {
    await startHere(env, stops, (sentence) => said.push(sentence));
    const baseUrl = /Dashboard +(http:\S+)[\s\S]*Stop with Ctrl-C/.exec(said.join('\n'))?.[1];
    if (baseUrl === undefined) throw new Error(`no first screen: ${said.join('\n')}`);
    await use({
      baseUrl,
      stderr: () => said.join('\n'),
      call: (method, path, options) => call(baseUrl, method, path, options),
    });
  } finally {
    await stopAll(stops);
  }
  return said.join('\n');
}

const startHere = (env: Record<string, string>, stops: Stops, say: (sentence: string) => void) =>
  start(readConfig({ HTTP_PORT: '0', ...portsOff, ...env }), { log: silentLog, say, stops });

/** The one line with which a process that must not start ends, without the program's name. */
export async function lastWordsOf(env: Record<string, string>): Promise<string> {
  const run = await runSendwright(env);
  if (!('exited' in run)) {
    await run.end('SIGTERM');
    throw new Error(`it started: ${run.stderr()}`);
  }
  const [line = '', ...more] = run.stderr.split('\n').filter((text) => !/^(Starting|Creating|Preparing) /.test(text));
  if (run.exited !== 1 || more.join('') !== '' || !line.startsWith('sendwright: ')) {
    throw new Error(`it ended with ${run.exited} and this: ${run.stderr}`);
  }
  return line.slice('sendwright: '.length);
}

/** A folder that others can enter, as PostgreSQL's user must; it is removed after the test. */
export async function makeFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright start '));
  await chmod(folder, 0o755);
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

/** A port on loopback that another program listens on. */
export async function takePort(t: Test): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(() => resolve())));
  return String((server.address() as { port: number }).port);
}

/** Runs SQL as a superuser, in the server's first database or in another one. */
export async function administer(statements: string[], database?: string): Promise<void> {
  const client = new pg.Client({ connectionString: await urlFor({ database }) });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** The URL of a database on the tests' server, for the superuser or another role. */
export async function urlFor({ database, role }: { database?: string | undefined; role?: string }): Promise<string> {
  const url = new URL(await testServerUrl());
  if (database) url.pathname = `/${database}`;
  if (role) [url.username, url.password] = [role, 'secret'];
  return url.href;
}

/** A role with these attributes, and a database of the same name, which it owns unless told otherwise. */
export async function makeRole(t: Test, rights: string, owns = true): Promise<{ name: string; url: string }> {
  const name = `r_${randomBytes(4).toString('hex')}`;
  await administer([
    `CREATE ROLE ${name} LOGIN PASSWORD 'secret' ${rights}`,
    `CREATE DATABASE ${name} ${owns ? `OWNER ${name}` : ''}`,
  ]);
  t.teardown(() => administer([`DROP DATABASE ${name} WITH (FORCE)`, `DROP ROLE ${name}`]));
  return { name, url: await urlFor({ database: name, role: name }) };
}

/** The login on the first screen, and whether it works. */
export async function loginOf(
  app: Pick<SendwrightProcess, 'stderr' | 'call'>,
): Promise<{ email: string; password: string; works: boolean }> {
  const [, email = '', password = ''] = /Admin login +(\S+) \/ (\S+) +\(generated now/.exec(app.stderr()) ?? [];
  return { email, password, works: await opens(app, email, password) };
}

/** Whether this login works. */
export async function opens(app: Pick<SendwrightProcess, 'call'>, email: string, password: string): Promise<boolean> {
  return (await app.call('POST', '/api/v1/auth/login', { body: { email, password } })).status === 200;
}

/** The environment of an operator's node on an empty external database, whose admin password is generated. */
export const freshEnv = async (dataDir: string) =>
  testEnv(await createDatabase(), { DATA_DIR: dataDir, ADMIN_EMAIL: '', ADMIN_PASSWORD: '' });
