import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asked, nothing } from '../support/command-line.ts';
import { directEnv, prepareSender } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { startZone } from '../support/zone.ts';

/**
 * How long an email takes from its 200 to the receiving server on an idle node: the real process with its embedded
 * PostgreSQL (fsync on), one email of 2 KB at a time, to an SMTP server in this process. Run it with `npm run latency`.
 */

asked('npm run latency: how long an email takes on an idle node, from its 200 to the receiving server', nothing);

const warmUp = 10;
const rounds = 200;

const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-latency-'));
await chmod(dataDir, 0o755);
const arrivals = new Map<string, number>();
const sink = await startSink({
  onMessage: ({ raw }) => {
    arrivals.set(/^Subject: (.*)\r$/m.exec(raw.toString('latin1'))?.[1] ?? '', performance.now());
    return null;
  },
});
const zone = await startZone({
  'out.sender.test': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  'receiver.test': { A: ['127.0.0.1'] },
});
const app = await startSendwright({
  ...directEnv(zone, sink.port),
  ADMIN_EMAIL: 'admin@example.test',
  ADMIN_PASSWORD: adminPassword,
  DATA_DIR: dataDir,
  LOG_LEVEL: 'warn',
});
const key = await prepareSender(app, zone, 'latency.test');

const accepted: number[] = [];
const delivered: number[] = [];
for (let round = 0; round < warmUp + rounds; round += 1) {
  const subject = `round ${round}`;
  const body = {
    from: 'a@latency.test',
    to: `b${round}@receiver.test`,
    subject,
    html: '<p>x</p>'.repeat(120),
    text: 'x\n'.repeat(500),
  };
  const asked = performance.now();
  const answer = await app.call('POST', '/api/v1/emails', { key, body });
  const answered = performance.now();
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  await eventually(async () => arrivals.has(subject));
  if (round < warmUp) continue;
  accepted.push(answered - asked);
  delivered.push((arrivals.get(subject) ?? 0) - answered);
}
const at = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))]?.toFixed(1);
console.log(`${rounds} emails, one at a time, in ms (median, p99):`);
console.log(`  request to 200:                     ${at(accepted, 0.5)}  ${at(accepted, 0.99)}`);
console.log(`  200 to the message at the receiver: ${at(delivered, 0.5)}  ${at(delivered, 0.99)}`);

await app.end('SIGTERM');
await sink.close();
await zone.close();
await rm(dataDir, { recursive: true, force: true });
