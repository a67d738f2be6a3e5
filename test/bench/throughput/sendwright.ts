import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { findRunning } from '../../../src/db/embedded.ts';
import { readSecrets } from '../../../src/process/data-dir.ts';
import { directEnv, mailHostname, prepareSender } from '../../support/direct.ts';
import { adminPassword } from '../../support/node.ts';
import { freePort } from '../../support/ports.ts';
import { type SendwrightProcess, startSendwright } from '../../support/process.ts';
import { startZone, type ZoneEntry } from '../../support/zone.ts';
import type { Recipe } from './recipe.ts';
import { siteName } from './recipe.ts';
import { sinkHosts } from './sink.ts';
import type { System } from './system.ts';
import { verifySignatures } from './verification.ts';

const domain = 'bench.test';
/** The start script behind `npm start`. */
const launcher = new URL('../../../scripts/start/launch.mjs', import.meta.url).href;
const settledWithinMs = 120_000;
/** The changes of the counts are added up every two seconds: that work belongs to the emails that caused it. */
const aftermathMs = 2_500;

export interface SendwrightOptions {
  /** Its data goes into a new folder in here. */
  folder: string;
  sinkPort: number;
  domains: number;
  sites: number;
  /** An endpoint on this machine that gets an event for every email; null: there is none. */
  webhookPort: number | null;
  /** Additional environment. */
  env: Record<string, string>;
}

export interface Sendwright extends System {
  /** The embedded PostgreSQL, as its owner. */
  databaseUrl(database: string): string;
  restart(): Promise<void>;
}

/**
 * Sendwright as an operator starts it, with everything on: the process, its embedded PostgreSQL, a verified domain and
 * a key.
 */
export async function startBenchedSendwright(options: SendwrightOptions): Promise<Sendwright> {
  const dataDir = await mkdtemp(join(options.folder, 'sendwright-bench-'));
  // PostgreSQL runs as another user if we are root.
  await chmod(dataDir, 0o755);
  const entries: Record<string, ZoneEntry> = { [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] } };
  for (const tls of [false, true]) {
    for (let site = 0; site < options.sites; site += 1) {
      entries[`mx.${siteName(tls, site)}`] = { A: [tls ? sinkHosts.tls : sinkHosts.plain] };
    }
    for (let at = 0; at < options.domains; at += 1) {
      const site = siteName(tls, at % options.sites);
      entries[`d${at}.${site}`] = { MX: [[10, `mx.${site}`]] };
    }
  }
  const zone = await startZone(entries);
  const submissionPort = await freePort();
  const { allocator } = await import(launcher);
  const env = {
    ...allocator,
    ...directEnv(zone, options.sinkPort),
    ADMIN_EMAIL: 'admin@example.test',
    ADMIN_PASSWORD: adminPassword,
    DATA_DIR: dataDir,
    SMTP_HOST: '127.0.0.1',
    SUBMISSION_PORT: String(submissionPort),
    INBOUND_SMTP_PORT: String(await freePort()),
    ...options.env,
    NODE_OPTIONS: [...(await startOptions()), options.env.NODE_OPTIONS ?? ''].join(' '),
  };
  const published = new Map<string, string>();
  const publish = (name: string, entry: ZoneEntry | undefined) => {
    zone.set(name, entry);
    if (typeof entry === 'object' && entry.TXT?.[0]) published.set(name, entry.TXT[0]);
  };
  const clean = async () => {
    await zone.close();
    await rm(dataDir, { recursive: true, force: true, maxRetries: 10 });
  };
  let app = await startSendwright(env).catch(async (error: Error) => {
    await clean();
    throw error;
  });
  const prepare = async () => {
    const key = await prepareSender(app, { ...zone, set: publish }, domain);
    if (options.webhookPort !== null) await subscribe(app, options.webhookPort);
    return { key, ...(await readSecrets(dataDir)) };
  };
  const { key, databasePassword } = await prepare().catch(async (error: Error) => {
    await app.end('SIGTERM');
    await clean();
    throw error;
  });
  const databaseUrl = (database: string) =>
    (findRunning(dataDir, databasePassword)?.url ?? '').replace(/\/sendwright\?/, `/${database}?`);
  const postmaster = async () =>
    Number((await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8')).split('\n')[0]);
  let db = await open(databaseUrl('sendwright'));
  const server = { roots: [app.pid], except: [await postmaster()] };
  const database = { roots: server.except, except: [] };
  const stop = async () => {
    await db.end();
    const code = await app.end('SIGTERM');
    if (code !== 0) throw new Error(`Sendwright ended with ${code}: ${app.stderr().slice(-2_000)}`);
  };

  return {
    name: 'Sendwright',
    from: `orders@${domain}`,
    server,
    database,
    databaseUrl,
    target: (_recipe, how) => ({
      host: '127.0.0.1',
      port: how === 'smtp' ? submissionPort : Number(new URL(app.baseUrl).port),
      key,
      startTls: how === 'smtp',
    }),
    async settle() {
      for (const end = Date.now() + settledWithinMs; Date.now() < end; await sleep(20)) {
        const { rows } = await db.query(underWay);
        if (rows[0].busy) continue;
        await sleep(aftermathMs);
        return;
      }
      throw new Error(`outcomes were not recorded within ${settledWithinMs / 1_000} s`);
    },
    async audit(recipe, kept) {
      await verifySignatures(recipe, kept, (name) => published.get(name) ?? null);
      const { rows } = await db.query(auditOf(recipe));
      const { delivered, attempts } = rows[0];
      if (Number(delivered) === recipe.count && Number(attempts) === recipe.count) return;
      throw new Error(`of ${recipe.count} emails ${delivered} are recorded as delivered, with ${attempts} attempts`);
    },
    async restart() {
      await stop();
      app = await startSendwright(env);
      server.roots = [app.pid];
      server.except = [await postmaster()];
      database.roots = server.except;
      db = await open(databaseUrl('sendwright'));
    },
    async stop() {
      await stop();
      await clean();
    },
  };
}

/** The flags that `npm start` gives to Node. */
async function startOptions(): Promise<string[]> {
  const { scripts } = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8'));
  return String(scripts.start).match(/--[\w-]+(=\S+)?/g) ?? [];
}

async function subscribe(app: SendwrightProcess, port: number): Promise<void> {
  const login = { email: 'admin@example.test', password: adminPassword };
  const { token } = (await app.call('POST', '/api/v1/auth/login', { body: login })).body;
  const body = { url: `http://127.0.0.1:${port}/`, events: ['email.sent'] };
  const { status, body: answer } = await app.call('POST', '/api/v1/webhooks', { token, body });
  if (status !== 201) throw new Error(JSON.stringify(answer));
}

/** An unsettled row has a job or a time; both tables have partial indexes on both. */
const underWay = `
  SELECT /* bench */ EXISTS (SELECT FROM recipients WHERE job_id IS NOT NULL)
      OR EXISTS (SELECT FROM recipients WHERE job_id IS NULL AND next_attempt_at IS NOT NULL)
      OR EXISTS (SELECT FROM webhook_deliveries WHERE job_id IS NOT NULL)
      OR EXISTS (SELECT FROM webhook_deliveries WHERE job_id IS NULL AND next_attempt_at IS NOT NULL) AS busy`;

/** How many messages of the round are recorded as delivered, and with how many successful attempts. */
export function auditOf({ round }: Recipe): { text: string; values: string[] } {
  return {
    text: `
      SELECT /* bench */ count(*) FILTER (WHERE recipients.status = 'delivered') AS delivered,
             coalesce(sum((SELECT count(*) FROM attempts
                            WHERE attempts.email_id = recipients.email_id AND outcome = 'delivered')), 0) AS attempts
        FROM recipients WHERE address LIKE $1`,
    values: [`r${round}.u%`],
  };
}

async function open(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  // It goes away when the server is restarted.
  client.on('error', () => {});
  await client.connect();
  // `settle` asks within the time that is measured, and of millions of rows without statistics PostgreSQL would read each one.
  await client.query('SET enable_seqscan = off');
  return client;
}
