import { randomBytes } from 'node:crypto';
import { type Keyring, open, seal } from '../../crypto/seal.ts';
import type { Database, Sql } from '../../db/client.ts';
import { type Part, taking } from '../../db/part.ts';
import { unseen } from '../../db/prepared.ts';
import { invalidRequest, notFound } from '../../errors.ts';
import type { Webhook } from '../../generated/prisma/client.ts';
import type { EmailStatus, RecipientStatus, WebhookStatus } from '../../generated/prisma/enums.ts';
import { isId, newId } from '../../ids.ts';
import { givingWay } from '../../pace/give-way.ts';
import type { Queue } from '../../queue.ts';
import { sealingKey } from '../secrets/encryption-key.ts';
import { type Draft, insert, roomOf } from './webhook-lines.ts';

/**
 * What endpoints can subscribe to: what became of a whole email (`queued`, `delivered`, `failed`, `suppressed`), what happened to
 * one of its recipients (`sent`, `delayed`, `uncertain`), and what came back (`bounced`, `complained`, `unsubscribed`).
 */
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

/** What an event says of a recipient for whom something came back: in rows it keeps the status that it was sent with. */
type ReturnStatus = 'bounced' | 'delayed' | 'complained' | 'unsubscribed';

/** A fact about an email. Endpoints see `to` exactly as it is here, so leave out blind copies. */
export interface EmailEvent {
  type: EventType;
  accountId: string;
  createdAt: Date;
  email: {
    id: string;
    from: string;
    to: string[];
    subject: string;
    tags: string[];
    status: EmailStatus;
    createdAt: Date;
  };
  /** The recipients that it is about, if they say more than the email's status. */
  recipients?: { address: string; status: RecipientStatus | ReturnStatus; response: string | null }[];
}

/** A fact about an email that is given by its id, and that has just come to be. */
export type EventAbout = Omit<EmailEvent, 'email' | 'createdAt'> & { emailId: string };

/** A limit, because each event is stored and sent once for each endpoint. */
const mostEndpoints = 20;

const secretBytes = 32;

/** How long the old secret keeps signing beside the new one after a rotation. */
const rotationMs = 24 * 3_600_000;

/**
 * Turns facts into deliveries and their jobs, inside the caller's transaction: one for each event and each enabled endpoint
 * of its account that subscribes to it. The number of statements does not depend on the number of events until the
 * payloads reach several megabytes: none without events, one without subscribers, a few otherwise.
 *
 * @returns how many deliveries were made; if there are any, call `queue.webhooks.wake()` after the commit
 */
export async function emit(tx: Sql, queue: Queue, events: EmailEvent[]): Promise<number> {
  return addAll(tx, queue, events, await subscribersOf(tx, events));
}

/**
 * Like `emit`. If anybody subscribes, it first reads the emails, as the transaction has left them, and the database's time: by
 * another clock an email might be delivered before it was queued.
 *
 * @param queue null: the deliveries wait as rows, which the next round wakes
 * @param redact changes the payload of an event about this email before it is stored
 */
export async function emitAbout(
  tx: Sql,
  queue: Queue | null,
  events: EventAbout[],
  redact: Redact | null = null,
): Promise<number> {
  const endpoints = await subscribersOf(tx, events);
  if (endpoints.length === 0) return 0;
  const emails = await tx.query<EmailEvent['email'] & { now: Date }>({
    name: 'webhooks-emails',
    text: `SELECT id, "from", "to", subject, tags, status, created_at AS "createdAt", statement_timestamp() AS now FROM emails WHERE id = ANY(${unseen('$1::uuid[]')}::uuid[])`,
    values: [[...new Set(events.map(({ emailId }) => emailId))]],
  });
  const byId = new Map(emails.map((email) => [email.id, email]));
  const known = events.flatMap(({ emailId, ...event }) => {
    const email = byId.get(emailId);
    return email ? [{ ...event, createdAt: email.now, email }] : [];
  });
  return addAll(tx, queue, known, endpoints, redact);
}

type Redact = (payload: string, emailId: string) => string;

/** An endpoint, and how many more of its calls may be in the queue. */
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

async function addAll(
  tx: Sql,
  queue: Queue | null,
  events: EmailEvent[],
  endpoints: Subscriber[],
  redact: Redact | null = null,
): Promise<number> {
  const subscribed = events.flatMap((event) => {
    const subscribers = endpoints.filter(
      (endpoint) => endpoint.account_id === event.accountId && endpoint.events.includes(event.type),
    );
    return subscribers.length > 0 ? [{ event, subscribers, payload: payloadOf(event) }] : [];
  });
  const told = redact
    ? await givingWay(subscribed, (one) => ({ ...one, payload: redact(one.payload, one.event.email.id) }))
    : subscribed;
  const drafts = told.flatMap(({ event: { accountId, type, email }, subscribers, payload }) =>
    subscribers.map((endpoint): Draft => {
      // Beyond its room, an endpoint's deliveries wait as rows.
      const woken = endpoint.room > 0;
      endpoint.room -= 1;
      return { id: newId(), accountId, webhookId: endpoint.id, emailId: email.id, event: type, payload, woken };
    }),
  );
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
      // No email has the status "delivered": it is `sent` then, and the event uses the receiver's term.
      status: type === 'email.delivered' ? 'delivered' : email.status,
      created_at: email.createdAt.toISOString(),
      ...(email.tags.length > 0 ? { tags: email.tags } : {}),
      ...(recipients ? { recipients } : {}),
    },
  });
}

/**
 * Registers an endpoint. Only this answer has the secret; it cannot be read again.
 *
 * @throws ApiError 400 when the account has as many endpoints as it may have
 */
export async function create(
  db: Database,
  accountId: string,
  input: { url: string; events: EventType[] },
  keyring: Keyring,
): Promise<{ webhook: Webhook; secret: string }> {
  const id = newId();
  return db.transaction(async (tx) => {
    // Locked, so that concurrent calls count each other's endpoint.
    await tx.query({ text: 'SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE', values: [accountId] });
    const there = await tx.query({ text: 'SELECT FROM webhooks WHERE account_id = $1', values: [accountId] });
    if (there.length >= mostEndpoints) throw invalidRequest(`an account may have at most ${mostEndpoints} endpoints`);
    const { secret, sealed } = await makeSecret(tx, id, keyring);
    const [webhook] = await tx.query<Webhook>({
      text: `INSERT INTO webhooks (id, account_id, url, events, secret) VALUES ($1, $2, $3, $4, $5) RETURNING ${columns}`,
      values: [id, accountId, input.url, input.events, sealed],
    });
    if (!webhook) throw notFound();
    return { webhook, secret };
  });
}

/**
 * In the shape of Prisma. The answer to a creation or a rotation comes from its own statement: an error in a later read
 * would lose the secret, and the caller's second try would make a second endpoint, or a second rotation.
 */
const columns = `id, account_id AS "accountId", url, events, status, disabled_reason AS "disabledReason",
  times_enabled AS "timesEnabled", secret, previous_secret AS "previousSecret", previous_secret_until AS "previousSecretUntil",
  failing_since AS "failingSince", failed_at AS "failedAt", steady_failure_since AS "steadyFailureSince",
  answered_at AS "answeredAt", created_at AS "createdAt"`;

/** One page, newest first; all of them without a limit. */
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
 * Changes the given fields. A new URL also holds for waiting deliveries; disabling ends them, and enabling starts with a
 * clean slate.
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
    // A new URL may be another server's, of which nothing is known yet; enabling an endpoint says that it works again.
    ...(url === undefined ? {} : { answeredAt: null }),
    ...(url !== undefined || status === 'enabled' ? { failingSince: null } : {}),
  };
  await db.prisma.webhook.updateMany({ where: { id, accountId }, data });
  return get(db, accountId, id);
}

/**
 * Removes an endpoint. Its waiting deliveries end without another attempt; the log keeps them.
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
 * Gives the endpoint a new secret. For 24 hours calls are signed with the old one as well; a second rotation within that
 * time ends the first one's old secret at once.
 *
 * @throws ApiError 404
 */
export async function rotateSecret(
  db: Database,
  accountId: string,
  id: string,
  keyring: Keyring,
): Promise<{ webhook: Webhook; secret: string }> {
  // An id may be in capitals: the secret is sealed to the stored form.
  const known = await get(db, accountId, id);
  return db.transaction(async (tx) => {
    const { secret, sealed } = await makeSecret(tx, known.id, keyring);
    const [webhook] = await tx.query<Webhook>({
      text: `UPDATE webhooks SET previous_secret = secret, previous_secret_until = now() + make_interval(secs => $4), secret = $3
              WHERE id = $1 AND account_id = $2 RETURNING ${columns}`,
      values: [known.id, accountId, sealed, rotationMs / 1000],
    });
    if (!webhook) throw notFound();
    return { webhook, secret };
  });
}

/** Deletes old secrets whose time after a rotation is over. */
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

/** The context that an endpoint's secrets are sealed to. */
export const sealContext = (webhookId: string) => `webhook:${webhookId}`;
