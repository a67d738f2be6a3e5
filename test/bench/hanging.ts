import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asked, nothing } from '../support/command-line.ts';
import { directEnv, prepareSender } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

/**
 * How much hanging servers slow down other mail: one email at a time and batches of a thousand to a healthy server,
 * first alone, then while 500 connections wait for servers that never say a word. Run it with `npm run bench:hanging`;
 * it takes two minutes.
 */

asked('npm run bench:hanging: how much hanging servers slow down other mail, in two minutes', nothing);

const hanging = 500;
const perSite = 5;
const singles = 300;
const batches = 5;
const batchSize = 1_000;

const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-hanging-'));
await chmod(dataDir, 0o755);
const arrivals = new Map<string, number>();
const sink = await startSink({
  onMessage: ({ raw }) => {
    arrivals.set(/^Subject: (.*)\r$/m.exec(raw.toString('latin1'))?.[1] ?? '', performance.now());
    return null;
  },
});
const held = new Set<Socket>();
const silent = createServer((socket) => {
  held.add(socket);
  socket.on('error', () => undefined).on('close', () => held.delete(socket));
}).listen(sink.port, '127.0.0.2');
await once(silent, 'listening');
// Each is its own site, because a single one does not get as many connections before it has answered once.
const sites = Array.from({ length: hanging / perSite }, (_, n) => `silent${n}.test`);
const zone = await startZone({
  'out.sender.test': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  'receiver.test': { A: ['127.0.0.1'] },
  ...Object.fromEntries(sites.map((site) => [site, { A: ['127.0.0.2'] }])),
});
const app = await startSendwright({
  ...directEnv(zone, sink.port),
  ADMIN_EMAIL: 'admin@example.test',
  ADMIN_PASSWORD: adminPassword,
  DATA_DIR: dataDir,
  LOG_LEVEL: 'warn',
});
const key = await prepareSender(app, zone, 'hanging.test');
let sent = 0;
const email = (domain: string) => {
  sent += 1;
  return {
    from: 'a@hanging.test',
    to: `b${sent}@${domain}`,
    subject: `${sent}`,
    html: '<p>x</p>'.repeat(120),
    text: 'x\n'.repeat(500),
  };
};

async function post(path: string, body: unknown): Promise<void> {
  const answer = await app.call('POST', path, { key, body });
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
}

/** The time from its 200 to the receiver, in ms, of each of these emails, one at a time. */
async function one(count: number): Promise<number[]> {
  const took: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const next = email('receiver.test');
    await post('/api/v1/emails', next);
    const answered = performance.now();
    await eventually(async () => arrivals.has(next.subject));
    took.push(Math.max(0, (arrivals.get(next.subject) ?? 0) - answered));
  }
  return took;
}

/** How many emails of a batch arrive per second, from the request on. */
async function batch(): Promise<number> {
  const emails = Array.from({ length: batchSize }, () => email('receiver.test'));
  const started = performance.now();
  await post('/api/v1/emails/batch', { emails });
  await eventually(async () => emails.every(({ subject }) => arrivals.has(subject)), 60_000);
  const last = Math.max(...emails.map(({ subject }) => arrivals.get(subject) ?? 0));
  return (batchSize * 1_000) / (last - started);
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

async function measure(): Promise<{ single: number; rate: number }> {
  const rates: number[] = [];
  const single = median(await one(singles));
  for (let n = 0; n < batches; n += 1) rates.push(await batch());
  return { single, rate: median(rates) };
}

await one(50);
await batch();
const before = await measure();
await post('/api/v1/emails/batch', {
  emails: sites.flatMap((site) => Array.from({ length: perSite }, () => email(site))),
});
await eventually(async () => held.size >= hanging, 60_000);
const during = await measure();
if (held.size < hanging) throw new Error(`only ${held.size} connections still hang`);

const change = (a: number, b: number) => `${b >= a ? '+' : ''}${(((b - a) / a) * 100).toFixed(0)} %`;
console.log(`Mail to a healthy server, alone and with ${held.size} connections to silent servers (medians):`);
console.log(
  `  200 to the message there, one at a time: ${before.single.toFixed(1)} and ${during.single.toFixed(1)} ms (${change(before.single, during.single)})`,
);
console.log(
  `  a batch of ${batchSize}: ${before.rate.toFixed(0)} and ${during.rate.toFixed(0)} a second (${change(before.rate, during.rate)})`,
);

await app.end('SIGKILL');
for (const socket of held) socket.destroy();
silent.close();
await sink.close();
await zone.close();
await rm(dataDir, { recursive: true, force: true });
