import { setImmediate } from 'node:timers/promises';
import type { Test } from 'tap';
import type { SiteLimits } from '../../src/smtp/connections/site-connections.ts';
import { type Delivery, deliver, type RecipientResult, type Transport } from '../../src/smtp/deliver.ts';
import type { TlsDemand } from '../../src/smtp/policies/tls-policy.ts';
import { createTransport, type TransportOptions } from '../../src/smtp/transport.ts';
import { type Peer, type ScriptedMx, startScriptedMx } from '../support/mx.ts';
import { startZone, type Zone, type ZoneEntry } from '../support/zone.ts';

const steps = [
  'connect',
  'greeting',
  'ehlo',
  'starttls',
  'mail',
  'rcpt',
  'data',
  'content',
  'dot',
  'transaction',
] as const;

const deadlinesOf = (ms: number) => ({
  ...(Object.fromEntries(steps.map((step) => [step, ms])) as Record<(typeof steps)[number], number>),
  // A megabyte per millisecond: the length of a message gives it no more time.
  minBytesPerSecond: 1e9,
});

/**
 * A test about a deadline shortens the deadline of that step alone: if the machine stalls, any other short one might
 * end the attempt.
 */
const patient = deadlinesOf(20_000);

export const message = (body = 'Hello.\r\n') =>
  Buffer.from(
    `From: a@sender.test\r\nTo: b@example.test\r\nSubject: A test\r\nMessage-ID: <1@sender.test>\r\n\r\n${body}`,
  );

/** `example.test` with two MX hosts of different preference, at 127.0.0.1 and 127.0.0.2. */
export const twoHosts: Record<string, ZoneEntry> = {
  'example.test': {
    MX: [
      [10, 'mx1.example.test'],
      [20, 'mx2.example.test'],
    ],
  },
  'mx1.example.test': { A: ['127.0.0.1'] },
  'mx2.example.test': { A: ['127.0.0.2'] },
};

export interface SendOptions {
  to?: string[];
  from?: string;
  /** One message, or its pieces. */
  message?: Buffer | Buffer[];
  smtpUtf8?: boolean;
  beforeDot?: () => boolean | Promise<boolean>;
  afterDot?: (results: RecipientResult[]) => void;
  signal?: AbortSignal;
  destination?: string;
  tls?: TlsDemand;
  sendingIps?: string[];
  site?: SiteLimits;
}

export interface Scene {
  zone: Zone;
  transport: Transport;
  /** Sends to `example.test` unless told otherwise. */
  send(options?: SendOptions): Promise<Delivery>;
}

/** A zone where `example.test` has its MX at 127.0.0.1, and a transport that sends there, to this port. */
export async function startScene(
  t: Test,
  port: number,
  zoneOf: Record<string, ZoneEntry> = {},
  options: Partial<TransportOptions> = {},
): Promise<Scene> {
  const zone = await startZone({
    'example.test': { MX: [[10, 'mx.example.test']] },
    'mx.example.test': { A: ['127.0.0.1'] },
    ...zoneOf,
  });
  const transport = createTransport({
    ehloName: 'client.test',
    resolver: zone.resolver,
    mxPort: port,
    allowPrivate: true,
    ...options,
    deadlines: { ...patient, ...options.deadlines },
  });
  t.teardown(async () => {
    await transport.close();
    await zone.close();
  });
  const send = ({ to = ['b@example.test'], from = 'a@sender.test', ...rest }: SendOptions = {}) =>
    deliver(transport, {
      destination: rest.destination ?? 'example.test',
      envelope: { from, recipients: to, smtpUtf8: rest.smtpUtf8 ?? false },
      message: [rest.message ?? message()].flat(),
      beforeDot: rest.beforeDot ?? (() => true),
      ...(rest.afterDot ? { afterDot: rest.afterDot } : {}),
      ...(rest.signal ? { signal: rest.signal } : {}),
      ...(rest.tls ? { tls: rest.tls } : {}),
      site: rest.site,
      ...(rest.sendingIps ? { sendingIps: rest.sendingIps } : {}),
    });
  return { zone, transport, send };
}

export async function startMx(
  t: Test,
  script: (peer: Peer, number: number) => Promise<void> | void,
  where: { host?: string; port?: number } = {},
): Promise<ScriptedMx> {
  const mx = await startScriptedMx(script, where);
  t.teardown(() => mx.close());
  return mx;
}

/** A scene whose only MX follows this script. */
export async function startScripted(
  t: Test,
  script: (peer: Peer, number: number) => Promise<void> | void,
  options: Partial<TransportOptions> = {},
): Promise<Scene & { mx: ScriptedMx }> {
  const mx = await startMx(t, script);
  return { mx, ...(await startScene(t, mx.port, {}, options)) };
}

/** The final result: from the last session that names the recipient. */
export function resultOf(delivery: Delivery, recipient = 'b@example.test'): RecipientResult {
  const results = delivery.sessions.flatMap((session) => session.results);
  const last = results.findLast((result) => result.recipient === recipient);
  if (last === undefined) throw new Error(`no result for ${recipient}`);
  return last;
}

/** Waits for a delivery whose look-ups wait in `asked`: all that wait at a time are given up together, which is counted as one wait. */
export async function countWaits(
  sending: Promise<Delivery>,
  asked: (() => void)[],
): Promise<{ waits: number; delivery: Delivery }> {
  let waits = 0;
  const over = sending.then(() => true);
  const turns = async () => {
    for (let left = 10; left > 0; left -= 1) await setImmediate();
    return false;
  };
  while (!(await Promise.race([over, turns()]))) {
    if (asked.length > 0) waits += 1;
    for (const giveUp of asked.splice(0)) giveUp();
  }
  return { waits, delivery: await sending };
}
