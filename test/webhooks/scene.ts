import { Socket } from 'node:net';
import { systemClock } from '../../src/clock.ts';
import * as lines from '../../src/core/webhooks/webhook-lines.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import type { WebhookDelivery } from '../../src/generated/prisma/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { Rounds } from '../../src/pace/rounds.ts';
import { Metrics } from '../../src/process/metrics.ts';
import type { Queue } from '../../src/queue.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import type { CallTools } from '../../src/webhooks/call.ts';
import { type Patience, WebhookDispatcher } from '../../src/webhooks/dispatch.ts';
import { defaultLimits, type Limits } from '../../src/webhooks/slots.ts';
import { buildAccount, buildNode } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { eventually } from '../support/node.ts';

type Test = { teardown(work: () => Promise<void>): void };

export const keyring = new Keyring(Buffer.alloc(32, 5));

/** A database with endpoints and no node that calls them, until one is started. */
export interface Scene {
  db: Database;
  queue: Queue;
  /** An endpoint of this account, or of a new one, for these events, or for all; it has just answered, unless it is new. */
  endpoint(
    url: string,
    options?: { accountId?: string; events?: webhooks.EventType[]; isNew?: boolean },
  ): Promise<Endpoint>;
  /** Tells the account's endpoints about one event of each type; returns how many deliveries were made. */
  emit(accountId: string, ...types: webhooks.EventType[]): Promise<number>;
  /** The endpoint's deliveries, oldest first. */
  deliveries(webhookId: string): Promise<WebhookDelivery[]>;
  /** The endpoint's deliveries once none is pending. */
  settled(webhookId: string): Promise<WebhookDelivery[]>;
  /** The only delivery, once it has had this many attempts. */
  attempted(webhookId: string, attempts: number): Promise<Omit<WebhookDelivery, 'attempts'> & { attempts: Attempt[] }>;
  /** A node that makes calls, and wakes what is due unless told otherwise; stopped when the test ends. */
  start(
    t: Test,
    options?: Partial<CallTools> & {
      limits?: Partial<Limits>;
      patience?: Patience;
      through?: Database;
      wakes?: boolean;
    },
  ): Promise<Worker>;
}

export interface Endpoint {
  id: string;
  accountId: string;
  secret: string;
}

export interface Attempt {
  at: string;
  response_status: number | null;
  response_body: string | null;
  error: string | null;
  duration_ms: number;
}

export interface Worker {
  nodeId: string;
  stop(): Promise<void>;
}

export function event(accountId: string, type: webhooks.EventType, fields = {}): webhooks.EmailEvent {
  const email = {
    id: newId(),
    from: 'Shop <s@shop.test>',
    to: ['a@one.test', 'b@two.test'],
    subject: 'Grüße ✓',
    tags: [],
    status: 'queued' as const,
    createdAt: new Date('2026-11-21T10:00:00.123Z'),
  };
  return { type, accountId, createdAt: new Date(), email: { ...email, ...fields } };
}

/** A socket that this host cannot open. */
export function unopened(code: string): Socket {
  const socket = new Socket();
  process.nextTick(() => socket.destroy(Object.assign(new Error(`connect ${code}`), { code })));
  return socket;
}

export async function openScene(t: Test): Promise<Scene> {
  const { db, queue } = await openQueue(t);
  const deliveries = (webhookId: string) =>
    db.prisma.webhookDelivery.findMany({ where: { webhookId }, orderBy: { id: 'asc' } });
  return {
    db,
    queue,
    deliveries,
    async endpoint(url, { accountId, events = [...webhooks.eventTypes], isNew = false } = {}) {
      const owner = accountId ?? (await buildAccount(db)).id;
      const { webhook, secret } = await webhooks.create(db, owner, { url, events }, keyring);
      const answeredAt = isNew ? null : new Date();
      await db.prisma.webhook.update({ where: { id: webhook.id }, data: { answeredAt } });
      return { id: webhook.id, accountId: owner, secret };
    },
    async emit(accountId, ...types) {
      const events = types.map((type) => event(accountId, type));
      const count = await db.transaction((tx) => webhooks.emit(tx, queue, events));
      queue.webhooks.wake();
      return count;
    },
    async settled(webhookId) {
      // Reading hundreds of deliveries again and again would slow down those who make them.
      await eventually(async () => {
        const [seen] = await db.query<{ some: number; pending: number }>({
          text: `SELECT count(*)::int AS some, (count(*) FILTER (WHERE status = 'pending'))::int AS pending
                   FROM webhook_deliveries WHERE webhook_id = $1`,
          values: [webhookId],
        });
        return seen !== undefined && seen.some > 0 && seen.pending === 0;
      });
      return deliveries(webhookId);
    },
    attempted: (webhookId, attempts) =>
      eventually(async () => {
        const [delivery] = await deliveries(webhookId);
        const made = (delivery?.attempts ?? []) as unknown as Attempt[];
        return delivery && made.length >= attempts && { ...delivery, attempts: made };
      }),
    async start(t, { limits = {}, patience, through = db, wakes = true, ...options } = {}) {
      const nodeId = newId();
      await buildNode(db, nodeId);
      const tools = {
        poster: { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 15_000 },
        keyring,
        lease: { nodeId, onHold: false, valid: () => true },
        clock: systemClock,
        log: silentLog,
        metrics: new Metrics(),
        schedule: [100, 100, 100],
        ...options,
      };
      const dispatcher = new WebhookDispatcher(through, queue, tools, { ...defaultLimits, ...limits }, patience);
      const rounds = new Rounds(silentLog);
      if (wakes)
        rounds.every(50, 'wake', async () => {
          await lines.wakeDue(db, queue);
        });
      dispatcher.start();
      let stopping: Promise<void> | undefined;
      const stop = () => {
        stopping ??= rounds.stop().then(() => dispatcher.stop());
        return stopping;
      };
      t.teardown(stop);
      return { nodeId, stop };
    },
  };
}
