import { SendwrightError } from './errors.ts';
import type { EmailEvent, EventType, WebhookTest } from './types.ts';

/** What is posted to an endpoint, told apart by its `type`. */
export type WebhookEvent = { [Type in EventType]: EmailEvent & { type: Type } }[EventType] | WebhookTest;

export interface ReceivedWebhook {
  /** As they came, in any case: a `Headers`, pairs of names and values, or an object such as Node's. */
  headers: Headers | Iterable<readonly [string, string]> | Record<string, string | readonly string[] | undefined>;
  /** The body as it came, before anything parsed it. */
  body: string | Uint8Array;
  /** The endpoint's secret, or several of which one must be right. */
  secret: string | readonly string[];
  /** How far the clock of the sender may be from this one; 300 where it is omitted. */
  toleranceSeconds?: number | undefined;
  /** What time it is; now where it is omitted. */
  now?: Date | undefined;
}

/** A way to sign. The service signs in both of them, each in three headers. */
interface Scheme {
  prefix: string;
  /** A signature and the bytes that it stands for. */
  pattern: RegExp;
  bytes(signature: string): Uint8Array<ArrayBuffer>;
  /** The bytes that a secret stands for. */
  key(secret: string): Uint8Array<ArrayBuffer>;
}

const utf8 = new TextEncoder();
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

const schemes: Scheme[] = [
  {
    prefix: 'x-service-webhook-',
    pattern: /^v1=((?:[0-9a-f]{2}){32})$/,
    bytes: (hex) => Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16)),
    key: (secret) => utf8.encode(secret),
  },
  {
    // Standard Webhooks.
    prefix: 'webhook-',
    pattern: /^v1,([A-Za-z0-9+/]{43}=)$/,
    bytes: fromBase64,
    key: (secret) => fromBase64(secret.replace(/^whsec_/, '')),
  },
];

/** During a rotation there are two. */
const mostSignatures = 10;

/**
 * Whether a call is from the service and is no old one that somebody recorded, and if so what it says. An event may come
 * more than once: its id is in the header `X-Service-Webhook-Id`, the same each time.
 *
 * @throws SendwrightError `webhook not verified`, which says why: answer 400
 */
export async function verifyWebhook(received: ReceivedWebhook): Promise<WebhookEvent> {
  const { body, secret, toleranceSeconds = 300, now = new Date() } = received;
  if (typeof body !== 'string' && !(body instanceof Uint8Array))
    refuse('the body must be a string or bytes, as it came: what was parsed and written again has another signature');
  // A file ends with a line end, which is no part of what is in it.
  const secrets = (typeof secret === 'string' ? [secret] : (secret ?? [])).map((one) => one?.trim()).filter(Boolean);
  if (secrets.length === 0) refuse('there is no secret to verify it with');

  const headers = collect(received.headers ?? {});
  const scheme = schemes.find(({ prefix }) => headers.has(`${prefix}signature`));
  if (!scheme) refuse('it has no signature header');
  const id = only(headers, `${scheme.prefix}id`, /^[\x21-\x2d\x2f-\x7e]{1,256}$/);
  const timestamp = only(headers, `${scheme.prefix}timestamp`, /^\d{1,12}$/);
  const signatures = (headers.get(`${scheme.prefix}signature`) ?? [])
    .flatMap((value) => value.split(/\s+/))
    .flatMap((value) => scheme.pattern.exec(value)?.[1] ?? [])
    .slice(0, mostSignatures);
  if (signatures.length === 0) refuse('its signature header has no signature of a kind that is known');
  // Not the other way round: what is not a number must not pass.
  if (!(Math.abs(now.getTime() / 1000 - Number(timestamp)) <= toleranceSeconds))
    refuse(`it was signed at ${timestamp}, which is not within ${toleranceSeconds} s of now`);

  const bytes = typeof body === 'string' ? utf8.encode(body) : body;
  const signed = joined(utf8.encode(`${id}.${timestamp}.`), bytes);
  if (!(await isGenuine(scheme, secrets, signatures, signed))) refuse('its signature is not made with this secret');
  return eventOf(bytes);
}

function refuse(detail: string): never {
  throw new SendwrightError({ error: 'webhook not verified', detail });
}

/** The values of each header, by its name in lower case. */
function collect(headers: ReceivedWebhook['headers']): Map<string, string[]> {
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  const collected = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    if (value === undefined) continue;
    const values = typeof value === 'string' ? [value] : value;
    collected.set(name.toLowerCase(), [...(collected.get(name.toLowerCase()) ?? []), ...values]);
  }
  return collected;
}

function only(headers: Map<string, string[]>, name: string, form: RegExp): string {
  const [value, ...others] = headers.get(name) ?? [];
  if (value === undefined) refuse(`it has no header ${name}`);
  if (others.length > 0 || !form.test(value)) refuse(`its header ${name} is malformed`);
  return value;
}

/** Compared by the platform, in a time that says nothing about where they differ. */
async function isGenuine(
  scheme: Scheme,
  secrets: readonly string[],
  signatures: string[],
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  for (const secret of secrets) {
    const key = await crypto.subtle.importKey('raw', keyOf(scheme, secret), algorithm, false, ['verify']);
    for (const signature of signatures)
      if (await crypto.subtle.verify('HMAC', key, scheme.bytes(signature), signed)) return true;
  }
  return false;
}

function keyOf(scheme: Scheme, secret: string): Uint8Array<ArrayBuffer> {
  try {
    const key = scheme.key(secret);
    if (key.length > 0) return key;
  } catch {
    // It is not base64.
  }
  return refuse('the secret must be the one from the service, with whsec_ at its beginning');
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function eventOf(bytes: Uint8Array): WebhookEvent {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as WebhookEvent;
  } catch {
    return refuse('its body is not JSON');
  }
}
