import { createHmac } from 'node:crypto';

/** What is signed: the delivery's id, the time of the attempt in Unix seconds, and the exact bytes of the body. */
export interface Signed {
  id: string;
  timestamp: number;
  body: string | Buffer;
}

/** HMAC-SHA256 over `id.timestamp.body`. */
export function hmac(key: string | Buffer, { id, timestamp, body }: Signed): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
}

/**
 * The headers that prove where a call comes from, in two forms: `X-Service-Webhook-…`, keyed with the whole secret as text and
 * written in hexadecimal, and those of Standard Webhooks, keyed with the bytes that follow `whsec_` in base64 and written in
 * base64. With several secrets each header has a signature for each, in their order, separated by a space.
 */
export function signatureHeaders(signed: Signed, secrets: string[]): Record<string, string> {
  const { id, timestamp } = signed;
  const all = (of: (secret: string) => string) => secrets.map(of).join(' ');
  return {
    'X-Service-Webhook-Id': id,
    'X-Service-Webhook-Timestamp': String(timestamp),
    'X-Service-Webhook-Signature': all((secret) => `v1=${hmac(secret, signed).toString('hex')}`),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': all((secret) => `v1,${hmac(keyBytes(secret), signed).toString('base64')}`),
  };
}

const keyBytes = (secret: string) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
