import { SendwrightError } from './errors.ts';
import type { EmailEvent, EventType, WebhookTest } from './types.ts';

/** The body of a call to an endpoint, discriminated by its `type`. */
export type WebhookEvent = { [Type in EventType]: EmailEvent & { type: Type } }[EventType] | WebhookTest;

export interface ReceivedWebhook {
  /** The received headers, names in any case: a `Headers`, pairs of names and values, or an object such as Node's. */
  headers: Headers | Iterable<readonly [string, string]> | Record<string, string | readonly string[] | undefined>;
  /** The raw body, before anything parsed it. */
  body: string | Uint8Array;
  /** The secret of the endpoint, or several, one of which must match. */
  secret: string | readonly string[];
  /** How far the sender's clock may differ from this one. Defaults to 300. */
  toleranceSeconds?: number | undefined;
  /** The current time. Defaults to the clock. */
  now?: Date | undefined;
}

/** A way to sign. The service signs each call in both ways, with three headers each. */
interface Scheme {
  prefix: string;
  /** Matches a signature and captures its encoded bytes. */
  pattern: RegExp;
  bytes(signature: string): Uint8Array<ArrayBuffer>;
  /** The bytes of the key in a secret. */
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

/** There are two during a rotation. */
const mostSignatures = 10;

/**
 * Verifies that a call comes from the service and is not a replay of an old one, and returns its event. The same event may come
 * more than once, with the same id in the header `X-Service-Webhook-Id`.
 *
 * @throws SendwrightError `webhook not verified`, with the reason: answer with a 400
 */
export async function verifyWebhook(received: ReceivedWebhook): Promise<WebhookEvent> {
  const { body, secret, toleranceSeconds = 300, now = new Date() } = received;
  if (typeof body !== 'string' && !(body instanceof Uint8Array))
    refuse('the body must be the raw string or bytes: JSON that was parsed and serialized again has another signature');
  // A secret read from a file may have a line end after it.
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
  // Negated so that NaN does not pass.
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

/** The platform compares in constant time. */
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
