import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '../../src/db/client.ts';
import { startEmbedded } from '../../src/db/embedded.ts';
import { silentLog } from '../../src/log.ts';
import { buildSender } from '../support/build.ts';
import { asked, onlyNumber } from '../support/command-line.ts';
import { directEnv } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { eventually, testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { scheduleMany } from '../support/scheduled.ts';
import { startZone } from '../support/zone.ts';

/**
 * How long another account's single email takes while one account has a million scheduled for this minute: the real
 * process, PostgreSQL with fsync on, a receiver in this process. Run it with `npm run bench:lines`; with a number for
 * fewer.
 */

const scheduled = asked(
  'npm run bench:lines [-- emails]: how long a single email takes while another account has this many scheduled (1000000)',
  (args) => onlyNumber(args, 1_000_000),
);
const singles = 100;
/** P9: the most scheduled emails that half of the singles may wait behind. The queue holds 2,000 of that account. */
const mostBehind = 500;

const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-lines-'));
await chmod(dataDir, 0o755);
const postgres = await startEmbedded({ dataDir, password: 'bench', log: silentLog });
/** When each arrived, and how many others before it. */
const arrivals = new Map<string, { at: number; before: number }>();
const sink = await startSink({
  onMessage: ({ raw }) => {
    const subject = /^Subject: (.*)\r$/m.exec(raw.toString('latin1'))?.[1] ?? '';
    arrivals.set(subject, { at: performance.now(), before: arrivals.size });
    return null;
  },
});
const zone = await startZone({
  'out.sender.test': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  'crowd.test': { A: ['127.0.0.1'] },
  'single.test': { A: ['127.0.0.1'] },
});
const env = testEnv(postgres.url, { ...directEnv(zone, sink.port), DATA_DIR: dataDir, LOG_LEVEL: 'warn' });
let app = await startSendwright({ ...env, ROLES: 'api' });
const db = connect(postgres.url, silentLog);
const encryptionKey = Buffer.from(env.ENCRYPTION_KEY ?? '', 'hex');
const crowd = await buildSender(db, encryptionKey);
const other = await buildSender(db, encryptionKey);
console.log(`Scheduling ${scheduled} emails of one account for now`);
for (let done = 0; done < scheduled; done += 20_000) {
  await scheduleMany(db, crowd, { emails: Math.min(20_000, scheduled - done), to: 'crowd.test', at: new Date() });
}
// With a million emails it takes longer than a statement may.
await db.session((session) => session.query({ text: 'VACUUM ANALYZE' }), 600_000);
await app.end('SIGTERM');

app = await startSendwright(env);
const started = performance.now();
const waits: Record<string, { ms: number; behind: number }[]> = { 'single.test': [], 'crowd.test': [] };
for (let round = 0; round < singles; round += 1) {
  const [to, times] = Object.entries(waits)[round % 2] ?? ['', []];
  const subject = `single ${round}`;
  const body = { from: other.from, to: `a@${to}`, subject, text: 'x' };
  const answer = await app.call('POST', '/api/v1/emails', { key: other.key, body });
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  const answered = performance.now();
  const already = arrivals.size;
  await eventually(async () => arrivals.has(subject), 120_000);
  const { at, before } = arrivals.get(subject) ?? { at: 0, before: 0 };
  times.push({ ms: at - answered, behind: before - already });
}
const seconds = (performance.now() - started) / 1_000;
console.log(`${arrivals.size - singles} of the scheduled went out in ${seconds.toFixed(0)} s meanwhile`);
let isDelayed = false;
for (const [to, times] of Object.entries(waits)) {
  const of = (what: 'ms' | 'behind', share: number) =>
    times.map((one) => one[what]).toSorted((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? 0;
  const where = to === 'crowd.test' ? 'to the same receiver' : 'to another receiver';
  console.log(
    `200 to the message at the receiver, ${where}: median ${of('ms', 0.5).toFixed(0)} ms, worst ${of('ms', 1).toFixed(0)} ms, after ${of('behind', 0.5)} and ${of('behind', 1)} of the scheduled`,
  );
  isDelayed ||= of('behind', 0.5) > mostBehind;
}

await app.end('SIGTERM');
await db.close();
await sink.close();
await zone.close();
await postgres.stop();
await rm(dataDir, { recursive: true, force: true });
process.exit(isDelayed ? 1 : 0);
