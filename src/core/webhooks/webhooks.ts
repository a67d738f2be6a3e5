import { randomBytes } from 'node:crypto';
import type { Database, Sql } from '../../db/client.ts';
import { type Part, taking } from '../../db/part.ts';
import { unseen } from '../../db/prepared.ts';
import { invalidRequest, notFound } from '../../errors.ts';
import type { Webhook } from '../../generated/prisma/client.ts';
import type { WebhookStatus } from '../../generated/prisma/enums.ts';
import { isId, newId } from '../../ids.ts';
import type { Queue } from '../../queue.ts';
import { type Keyring, open, seal } from '../../seal.ts';
import { sealingKey } from '../secrets/encryption-key.ts';
import { type Draft, insert, roomOf } from './webhook-lines.ts';

export const eventTypes = [
  'email.queued',
  'email.delivered',
  'email.failed',
  'email.suppressed',
  'email.sent',
  'email.delayed',
  'email.uncertain',
  'email.bounced',
  'email.complained',
  'email.unsubscribed',
] as const;
export type EventType = (typeof eventTypes)[number];

/** A fact about an email. `to` is shown to endpoints as it stands here: blind copies do not belong into it. */
export interface EmailEvent {
  type: EventType;
  accountId: string;
  createdAt: Date;
  email: { id: string; from: string; to: string[]; subject: string; tags: string[]; status: string; createdAt: Date };
  /** Whom it is about, where that says more than the email's status. */
  recipients?: { address: string; status: string; response: string | null }[];
}

/** A fact about an email of which no more is at hand than its id. */
export type EventAbout = Omit<EmailEvent, 'email'> & { emailId: string };

/** More would multiply every email: each event is stored and sent once for each endpoint. */
const mostEndpoints = 20;

const secretBytes = 32;

/** How long the secret before a rotation goes on signing beside the new one. */
const rotationMs = 24 * 3_600_000;

/**
 * Turns facts into deliveries inside the caller's transaction: one for each event and each enabled endpoint of its
 * account that subscribes to it, with their jobs. However many there are, it is the same few statements, until their payloads
 * come to several megabytes: none for no events, one when nobody subscribes.
 *
 * @returns how many deliveries were made; when there are any, call `queue.webhooks.wake()` after the commit
 */
export async function emit(tx: Sql, queue: Queue, events: EmailEvent[]): Promise<number> {
  return addAll(tx, queue, events, await subscribersOf(tx, events));
}

/** As `emit` does, and where somebody subscribes it reads the emails first, as the transaction has left them. */
export async function emitAbout(tx: Sql, queue: Queue, events: EventAbout[]): Promise<number> {
  const endpoints = await subscribersOf(tx, events);
  if (endpoints.length === 0) return 0;
  const emails = await tx.query<EmailEvent['email']>({
    name: 'webhooks-emails',
    text: `SELECT id, "from", "to", subject, tags, status, created_at AS "createdAt" FROM emails WHERE id = ANY(${unseen('$1::uuid[]')}::uuid[])`,
    values: [[...new Set(events.map(({ emailId }) => emailId))]],
  });
  const byId = new Map(emails.map((email) => [email.id, email]));
  const known = events.flatMap(({ emailId, ...event }) => {
    const email = byId.get(emailId);
    return email ? [{ ...event, email }] : [];
  });
  return addAll(tx, queue, known, endpoints);
}

/** An endpoint, and how many of its calls may be in the queue besides those that are. */
interface Subscriber {
  id: string;
  account_id: string;
  events: string[];
  room: number;
}

async function subscribersOf(tx: Sql, events: Pick<EmailEvent, 'accountId' | 'type'>[]): Promise<Subscriber[]> {
  if (events.length === 0) return [];
  return tx.query<Subscriber>({
    name: 'webhooks-subscribers',
    text: `SELECT w.id, w.account_id, w.events, ${roomOf('w')} AS room
             FROM webhooks w WHERE w.account_id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND w.status = 'enabled' AND w.events && ${unseen('$2::text[]')}`,
    values: [[...new Set(events.map((event) => event.accountId))], [...new Set(events.map((event) => event.type))]],
  });
}

async function addAll(tx: Sql, queue: Queue, events: EmailEvent[], endpoints: Subscriber[]): Promise<number> {
  const drafts = events.flatMap((event) => {
    const subscribed = endpoints.filter(
      (endpoint) => endpoint.account_id === event.accountId && endpoint.events.includes(event.type),
    );
    if (subscribed.length === 0) return [];
    const payload = payloadOf(event);
    return subscribed.map((endpoint): Draft => {
      // Past its room an endpoint's deliveries wait as rows.
      const woken = endpoint.room > 0;
      endpoint.room -= 1;
      const { accountId, type, email } = event;
      return { id: newId(), accountId, webhookId: endpoint.id, emailId: email.id, event: type, payload, woken };
    });
  });
  if (drafts.length > 0) await insert(tx, queue, drafts);
  return drafts.length;
}

function payloadOf({ type, createdAt, email, recipients }: EmailEvent): string {
  return JSON.stringify({
    type,
    created_at: createdAt.toISOString(),
    data: {
      email_id: email.id,
      from: email.from,
      to: email.to,
      subject: email.subject,
      // "Delivered" is no status that an email has: it is `sent` then, and the event says it in the receiver's words.
      status: type === 'email.delivered' ? 'delivered' : email.status,
      created_at: email.createdAt.toISOString(),
      ...(email.tags.length > 0 ? { tags: email.tags } : {}),
      ...(recipients ? { recipients } : {}),
    },
  });
}

/**
 * Registers an endpoint. The secret is in the answer and can be read nowhere again.
 *
 * @throws ApiError 400 when the account has as many as it may have
 */
export async function create(
  db: Database,
  accountId: string,
  input: { url: string; events: EventType[] },
  keys: { keyring: Keyring },
): Promise<{ webhook: Webhook; secret: string }> {
  const id = newId();
  return db.transaction(async (tx) => {
    // Locked, so that several at once are counted.
    await tx.query({ text: 'SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE', values: [accountId] });
    const there = await tx.query({ text: 'SELECT FROM webhooks WHERE account_id = $1', values: [accountId] });
    if (there.length >= mostEndpoints)
      throw invalidRequest(`an account may have ${mostEndpoints} endpoints at the most`);
    const { secret, sealed } = await makeSecret(tx, id, keys.keyring);
    const [webhook] = await tx.query<Webhook>({
      text: `INSERT INTO webhooks (id, account_id, url, events, secret) VALUES ($1, $2, $3, $4, $5) RETURNING ${columns}`,
      values: [id, accountId, input.url, input.events, sealed],
    });
    if (!webhook) throw notFound();
    return { webhook, secret };
  });
}

/**
 * As Prisma reads it. What is made or renewed is answered with what its own statement returns: an error after it would lose
 * the secret, and whoever asks again would have a second endpoint, or a second rotation.
 */
const columns = `id, account_id AS "accountId", url, events, status, disabled_reason AS "disabledReason",
  times_enabled AS "timesEnabled", secret, previous_secret AS "previousSecret", previous_secret_until AS "previousSecretUntil",
  failing_since AS "failingSince", answered_at AS "answeredAt", created_at AS "createdAt"`;

/** One page, newest first; without a limit all of them. */
export async function list(db: Database, accountId: string, part: Part = {}): Promise<Webhook[]> {
  return db.prisma.webhook.findMany({
    where: { accountId },
    orderBy: { id: 'desc' },
    ...taking(part),
  });
}

/** @throws ApiError 404 */
export async function get(db: Database, accountId: string, id: string): Promise<Webhook> {
  const webhook = isId(id) ? await db.prisma.webhook.findFirst({ where: { id, accountId } }) : null;
  if (!webhook) throw notFound();
  return webhook;
}

/**
 * Changes what is given. A new URL holds for deliveries that are waiting too; disabling ends them, and enabling begins
 * with a clean slate.
 *
 * @throws ApiError 404
 */
export async function change(
  db: Database,
  accountId: string,
  id: string,
  input: { url?: string | undefined; events?: EventType[] | undefined; status?: WebhookStatus | undefined },
): Promise<Webhook> {
  if (!isId(id)) throw notFound();
  const { url, events, status } = input;
  const data = {
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { events }),
    ...(status === undefined ? {} : { status, disabledReason: null }),
    ...(status === 'enabled' ? { timesEnabled: { increment: 1 } } : {}),
    // Somebody else may answer at the new address, and whoever enables says that it works again.
    ...(url !== undefined || status === 'enabled' ? { failingSince: null } : {}),
  };
  await db.prisma.webhook.updateMany({ where: { id, accountId }, data });
  return get(db, accountId, id);
}

/**
 * Removes an endpoint. Deliveries that wait for it end without another attempt; the log keeps them.
 *
 * @throws ApiError 404
 */
export async function remove(db: Database, accountId: string, id: string): Promise<Webhook> {
  const webhook = await get(db, accountId, id);
  const { count } = await db.prisma.webhook.deleteMany({ where: { id, accountId } });
  if (count === 0) throw notFound();
  return webhook;
}

/**
 * Gives the endpoint a new secret. For 24 hours calls are signed with the old one as well; of two rotations within
 * that time the first one's old secret ends at once.
 *
 * @throws ApiError 404
 */
export async function rotateSecret(
  db: Database,
  accountId: string,
  id: string,
  keys: { keyring: Keyring },
): Promise<{ webhook: Webhook; secret: string }> {
  // An id may be written in capitals: the secret is sealed to it as it is stored.
  const known = await get(db, accountId, id);
  return db.transaction(async (tx) => {
    const { secret, sealed } = await makeSecret(tx, known.id, keys.keyring);
    const [webhook] = await tx.query<Webhook>({
      text: `UPDATE webhooks SET previous_secret = secret, previous_secret_until = now() + make_interval(secs => $4), secret = $3
              WHERE id = $1 AND account_id = $2 RETURNING ${columns}`,
      values: [known.id, accountId, sealed, rotationMs / 1000],
    });
    if (!webhook) throw notFound();
    return { webhook, secret };
  });
}

/** Forgets secrets whose time after a rotation is over. */
export async function forgetOldSecrets(db: Database): Promise<void> {
  await db.query({
    text: 'UPDATE webhooks SET previous_secret = NULL, previous_secret_until = NULL WHERE previous_secret_until < now()',
  });
}

async function makeSecret(tx: Sql, webhookId: string, keyring: Keyring): Promise<{ secret: string; sealed: Buffer }> {
  const secret = `whsec_${randomBytes(secretBytes).toString('base64')}`;
  return { secret, sealed: seal(await sealingKey(tx, keyring), Buffer.from(secret), sealContext(webhookId)) };
}

/** The secret as its owner knows it. */
export function openSecret(keyring: Keyring, webhookId: string, sealed: Uint8Array): string {
  return open(keyring, sealed, sealContext(webhookId)).toString();
}

export const sealContext = (webhookId: string) => `webhook:${webhookId}`;
