import { randomBytes } from 'node:crypto';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunning } from '../../src/db/embedded.ts';
import { readSecrets } from '../../src/process/data-dir.ts';
import { everySecond, mailHostname, prepareSender } from '../support/direct.ts';
import { adminPassword } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { startZone, type Zone } from '../support/zone.ts';
import { Client } from './client.ts';
import { type Endpoint, startEndpoint } from './endpoint.ts';
import { countOpen, withClient } from './facts.ts';
import { Ledger } from './ledger.ts';
import { leaveBehind, quitEmbedded } from './leftovers.ts';
import { Member } from './member.ts';
import { Mx } from './mx.ts';
import { domains, Orders, sender } from './orders.ts';
import type { Random } from './random.ts';
import { Server } from './server.ts';
import { Wire } from './wire.ts';

/** What a scenario needs in its world. */
export interface WorldOptions {
  /** `own`: the harness's PostgreSQL, behind a wire for each node; `embedded`: the node's. */
  database: 'own' | 'embedded';
  nodes?: number;
  /** Nodes whose clock can be shifted. */
  clocks?: boolean;
  /** PostgreSQL's folder, if not in the folder of the run. */
  postgresDir?: string;
  settings?: Record<string, string>;
  env?: Record<string, string>;
}

/**
 * Everything around the nodes, all of it on loopback: a database, DNS, receiving servers, an endpoint, and the ledger.
 */
export interface World {
  members: Member[];
  /** The first of them. */
  node: Member;
  client: Client;
  orders: Orders;
  ledger: Ledger;
  zone: Zone;
  mx: Mx;
  endpoint: Endpoint;
  /** The harness's PostgreSQL. @throws if it is embedded */
  server(): Server;
  /** The database, bypassing every wire. */
  databaseUrl(): Promise<string>;
  /** The first node's port for bounces. */
  inboundPort: number;
  /**
   * Waits until nothing is in progress any more.
   *
   * @returns false if something still is after that time
   */
  quiet(withinMs: number): Promise<boolean>;
  close(): Promise<void>;
}

const zoneLiteral = {
  [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  ...Object.fromEntries(domains.map((domain) => [domain, { A: [domain === 'tls.test' ? '127.0.0.2' : '127.0.0.1'] }])),
};

export async function createWorld(folder: string, random: Random, options: WorldOptions): Promise<World> {
  await mkdir(folder, { recursive: true });
  // PostgreSQL's user must be able to enter it.
  await chmod(folder, 0o755);
  const ledger = new Ledger(join(folder, 'ledger.jsonl'));
  const mx = await Mx.start(ledger);
  const endpoint = await startEndpoint(ledger);
  const zone = await startZone(zoneLiteral);
  if (options.database === 'embedded') leaveBehind(() => quitEmbedded(join(folder, 'node-A')));
  const postgresDir = options.postgresDir ?? join(folder, 'postgres-of-harness');
  const server = options.database === 'own' ? await Server.start(postgresDir, options.settings) : null;
  const inboundPort = await freePort();
  const submissionPort = await freePort();
  const secrets = { JWT_SECRET: randomBytes(32).toString('hex'), ENCRYPTION_KEY: randomBytes(32).toString('hex') };
  const members: Member[] = [];
  for (let at = 0; at < (options.nodes ?? 1); at += 1) {
    const name = 'ABCDEF'[at] ?? '?';
    const wire = server ? await Wire.open(server.url) : null;
    const clock = join(folder, `clock-${name}`);
    if (options.clocks) await writeFile(clock, '0');
    const preload = new URL('clock.ts', import.meta.url).href;
    const env = {
      DELIVERY_MODE: 'direct',
      MAIL_HOSTNAME: mailHostname,
      DNS_SERVERS: zone.address,
      MX_PORT: String(mx.port),
      ALLOW_PRIVATE_NETWORKS: 'true',
      SENDING_IPS: '127.0.0.1',
      RETRY_SCHEDULE: everySecond,
      RATE_LIMIT: '100000/100000',
      ADMIN_EMAIL: 'admin@example.test',
      ADMIN_PASSWORD: adminPassword,
      DATA_DIR: join(folder, `node-${name}`),
      SMTP_HOST: '127.0.0.1',
      // A fixed port, as in production: a free one would change when no worker listens any more.
      HTTP_PORT: String(await freePort()),
      ...(at === 0 && { INBOUND_SMTP_PORT: String(inboundPort), SUBMISSION_PORT: String(submissionPort) }),
      ...(wire && { DATABASE_URL: wire.url, ...secrets }),
      ...(options.clocks && { CHAOS_CLOCK: clock, NODE_OPTIONS: `--import=${preload}` }),
      ...options.env,
    };
    await mkdir(env.DATA_DIR, { recursive: true });
    await chmod(env.DATA_DIR, 0o755);
    members.push(new Member(name, { env, wire, ledger }));
  }
  const [node] = members;
  if (!node) throw new Error('a world needs a node');
  const databaseUrl = async () => {
    if (server) return server.url;
    const dataDir = join(folder, 'node-A');
    const url = findRunning(dataDir, (await readSecrets(dataDir)).databasePassword)?.url;
    if (!url) throw new Error('the embedded database is not running');
    return url;
  };
  const client = new Client(members, ledger, random.fork('client'));
  client.submissionPort = submissionPort;
  return {
    members,
    node,
    client,
    orders: new Orders(random.fork('orders')),
    ledger,
    zone,
    mx,
    endpoint,
    server() {
      if (!server) throw new Error("this world's database is the node's own");
      return server;
    },
    databaseUrl,
    inboundPort,
    async quiet(withinMs) {
      for (const end = Date.now() + withinMs; Date.now() < end; await sleep(250)) {
        const open = await databaseUrl()
          .then(countOpen)
          .catch(() => null);
        if (open && open.recipients + open.calls + open.jobs === 0) return true;
      }
      return false;
    },
    async close() {
      mx.traps.liftAll();
      endpoint.traps.liftAll();
      for (const member of members) await member.remove();
      for (const { wire } of members) await wire?.close();
      await Promise.all([mx.close(), endpoint.close(), zone.close()]);
      await server?.stop();
      ledger.close();
    },
  };
}

/** Starts all nodes, with an account that can send, is charged for it, and whose endpoint gets all events. */
export async function populate(world: World): Promise<void> {
  for (const member of world.members) await member.start();
  const { app } = world.node;
  if (!app) throw new Error('the node is not running');
  world.client.apiKey = await prepareSender(app, world.zone, sender);
  const login = { email: 'admin@example.test', password: adminPassword };
  const { token } = (await app.call('POST', '/api/v1/auth/login', { body: login })).body;
  const events = ['queued', 'delivered', 'failed', 'suppressed', 'sent', 'delayed', 'uncertain', 'bounced'];
  const body = { url: world.endpoint.url, events: events.map((name) => `email.${name}`) };
  const made = await app.call('POST', '/api/v1/webhooks', { token, body });
  if (made.status !== 201 && made.status !== 200) throw new Error(JSON.stringify(made.body));
  // Only plans with a limit are charged for.
  await withClient(await world.databaseUrl(), (ask) => ask(`UPDATE accounts SET plan = 'pro', credit = 1000000`));
}
