import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type Config, readConfig } from '../../src/config.ts';
import { keyringOf } from '../../src/crypto/seal.ts';
import { createLog, silentLog } from '../../src/log.ts';
import { type Foundation, type SendwrightNode, startNode } from '../../src/node/node.ts';
import { holdAnswer } from './contract.ts';
import { createDatabase } from './db.ts';
import { quickHash } from './quick-hash.ts';
import { holdSafe } from './safe-answer.ts';

/** What a test of the whole service uses: a node on its own database, and a way to call it over HTTP. */
export interface TestNode extends SendwrightNode {
  databaseUrl: string;
  adminPassword: string;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
}

export interface CallOptions {
  key?: string | undefined;
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service answered
  body: any;
}

type Test = { teardown(work: () => Promise<void>): void };

export const adminPassword = 'correct horse battery staple';

/** Tests run at the same time: a test that needs such a port takes a free one. */
export const portsOff = { INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };

/** The environment of a node under test; what the test sets comes on top. */
export function testEnv(databaseUrl: string, env: Record<string, string> = {}): Record<string, string> {
  return {
    DATABASE_URL: databaseUrl,
    HTTP_PORT: '0',
    ...portsOff,
    JWT_SECRET: randomBytes(32).toString('hex'),
    ENCRYPTION_KEY: randomBytes(32).toString('hex'),
    ADMIN_EMAIL: 'admin@example.test',
    ADMIN_PASSWORD: adminPassword,
    ALLOW_UNSAFE_DATABASE: 'true',
    RATE_LIMIT: '100000/100000',
    ...env,
  };
}

/**
 * Starts a node in this process, in the sandbox unless the environment says otherwise; it is stopped when the test
 * ends.
 */
export async function startTestNode(
  t: Test,
  env: Record<string, string> = {},
  parts: Partial<Pick<Foundation, 'dashboard' | 'log' | 'delay'>> = {},
): Promise<TestNode> {
  const databaseUrl = env.DATABASE_URL ?? (await createDatabase());
  const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-node-'));
  const config = readConfig(testEnv(databaseUrl, { DATA_DIR: dataDir, ADMIN_PASSWORD: '', ...env }));
  const node = await startNode(config, { ...foundationOf(config), ...parts });
  t.teardown(async () => {
    await node.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  if (node.admin.password === 'none') await giveQuickPassword(node);
  return {
    ...node,
    databaseUrl,
    adminPassword,
    call: (method, path, options) => call(node.baseUrl, method, path, options),
  };
}

const adminHash = quickHash(adminPassword);

/** Instead of ADMIN_PASSWORD, which the service hashes at its start, and again with each login. */
async function giveQuickPassword({ db, admin }: SendwrightNode): Promise<void> {
  await db.prisma.user.updateMany({
    where: { id: admin.userId, passwordHash: '' },
    data: { passwordHash: adminHash },
  });
}

/** What a node of the tests stands on. */
export function foundationOf(config: Config): Foundation {
  return {
    databaseUrl: config.databaseUrl ?? '',
    alone: false,
    jwtSecret: config.jwtSecret ?? '',
    keyring: keyringOf(config.encryptionKey ?? Buffer.alloc(0), config.nextEncryptionKey),
    dashboard: null,
    log: process.env.TEST_LOG ? createLog(process.env.TEST_LOG, process.stderr) : silentLog,
  };
}

/**
 * One HTTP call; a string or bytes as body are sent as they are, anything else as JSON.
 *
 * @throws Error if the answer is not as in openapi.json
 */
export async function call(baseUrl: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const { key, token, body } = options;
  const headers: Record<string, string> = { ...options.headers };
  if (key !== undefined) headers['X-API-Key'] = key;
  if (token !== undefined) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] ??= 'application/json';
  const isRaw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body);
  const payload = isRaw ? body : JSON.stringify(body);
  // With some methods it would be sent without its length.
  if (payload !== undefined) headers['Content-Length'] ??= String(Buffer.byteLength(payload));
  const response = await exchange(new URL(`${baseUrl}${path}`), { method, headers }, payload);
  const text = isStream(response) ? await firstOf(response) : (await buffer(response)).toString();
  const answerHeaders = new Headers(
    Object.entries(response.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    ),
  );
  const json = answerHeaders.get('content-type')?.startsWith('application/json');
  const answer = { status: response.statusCode ?? 0, headers: answerHeaders, body: json ? JSON.parse(text) : text };
  holdAnswer(method, path, answer);
  holdSafe(method, path, answer.headers, text);
  return answer;
}

const isStream = ({ headers }: IncomingMessage) => headers['content-type']?.startsWith('text/event-stream') ?? false;

/** For answers that do not end, the first part. */
async function firstOf(response: IncomingMessage): Promise<string> {
  for await (const chunk of response) return String(chunk);
  return '';
}

const agent = new Agent({ keepAlive: true });

/** Nothing that is asked for takes this long, on a full machine either. */
const answerWithinMs = 120_000;

/**
 * Like `fetch`, which takes twice as long: the tests make some twenty thousand calls. A body that is refused early is written
 * to its end, as those of many calls together would take longer than a server reads on after its answer.
 */
async function exchange(
  url: URL,
  options: RequestOptions,
  payload: string | Buffer | undefined,
): Promise<IncomingMessage> {
  const asked = request(url, { agent, ...options });
  asked.setTimeout(answerWithinMs, () => asked.destroy(new Error(`no answer from ${url.pathname} in time`)));
  const written = new Promise<void>((resolve) => asked.on('finish', resolve).on('close', resolve));
  const answered = new Promise<IncomingMessage>((resolve, reject) => asked.on('response', resolve).on('error', reject));
  asked.end(payload);
  const answer = await answered;
  await written;
  return answer;
}

/**
 * Asks until the answer is not null or false, or the time is up: long enough for a busy machine, where a second's work
 * may take twenty.
 */
export async function eventually<T>(ask: () => Promise<T | null | false | undefined>, withinMs = 120_000): Promise<T> {
  // Asking costs as much as the work it waits for, so it gets rarer.
  for (let end = Date.now() + withinMs, pauseMs = 15; ; pauseMs = Math.min(pauseMs * 1.3, 150)) {
    const answer = await ask();
    if (answer !== null && answer !== false && answer !== undefined) return answer;
    if (Date.now() > end) throw new Error(`no result within ${withinMs} ms`);
    await new Promise((resume) => setTimeout(resume, pauseMs));
  }
}
