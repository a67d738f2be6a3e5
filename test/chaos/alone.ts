import { chmod, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { directEnv, prepareSender } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { adminPassword } from '../support/node.ts';
import { type SendwrightProcess, startSendwright } from '../support/process.ts';
import { startZone, type Zone } from '../support/zone.ts';
import type { Finding } from './auditor.ts';
import { leaveBehind, quitEmbedded } from './leftovers.ts';
import type { Result, Run } from './run.ts';

/** One node with the embedded database, a healthy receiving server, and its mail in order of arrival. */
export interface Alone {
  node: SendwrightProcess;
  zone: Zone;
  /** Sends from `sender.test`. */
  key: string;
  token: string;
  mxPort: number;
  /** When mail with this subject arrived, each time, in ms of this process. */
  arrivals: Map<string, number[]>;
  figures: Result['figures'];
  findings: Finding[];
}

/** A healthy client's request: mail to the healthy receiving server. */
export const healthy = (subject: string) => ({
  from: 'a@sender.test',
  to: `${subject}@receiver.test`,
  subject,
  text: 'x',
});

/** Runs work that breaks nothing and collects its own figures; each mail to `receiver.test` must arrive once. */
export async function withNodeAlone(
  { folder }: Run,
  env: Record<string, string>,
  work: (alone: Alone) => Promise<void>,
): Promise<Result> {
  const dataDir = join(folder, 'data');
  await mkdir(dataDir, { recursive: true });
  for (const path of [folder, dataDir]) await chmod(path, 0o755);
  const arrivals = new Map<string, number[]>();
  const sink = await startSink({
    onMessage: ({ raw }) => {
      const subject = /^Subject: (.*)\r$/m.exec(raw.toString('latin1'))?.[1] ?? '';
      arrivals.set(subject, [...(arrivals.get(subject) ?? []), performance.now()]);
      return null;
    },
  });
  const zone = await startZone({
    'out.sender.test': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    'receiver.test': { A: ['127.0.0.1'] },
  });
  const forgetDatabase = leaveBehind(() => quitEmbedded(dataDir));
  const node = await startSendwright({
    ...directEnv(zone, sink.port),
    ADMIN_EMAIL: 'admin@example.test',
    ADMIN_PASSWORD: adminPassword,
    DATA_DIR: dataDir,
    LOG_LEVEL: 'warn',
    ...env,
  });
  const forgetNode = leaveBehind(() => process.kill(node.pid, 'SIGKILL'));
  const figures: Result['figures'] = {};
  const findings: Finding[] = [];
  try {
    const key = await prepareSender(node, zone, 'sender.test');
    const body = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;
    await work({ node, zone, key, token, mxPort: sink.port, arrivals, figures, findings });
  } finally {
    // What it still does with peers that never answer no longer matters.
    await node.end('SIGKILL');
    forgetNode();
    const runs = quitEmbedded(dataDir);
    while (runs()) await sleep(20);
    forgetDatabase();
    await sink.close();
    await zone.close();
  }
  for (const [subject, times] of arrivals)
    if (times.length > 1) findings.push({ rule: 'A2', what: `${subject} arrived ${times.length} times` });
  const copies = [...arrivals.values()].reduce((sum, times) => sum + times.length, 0);
  return { totals: { ...nothing, accepted: arrivals.size, copies }, figures, findings };
}

/** Of work that breaks nothing. */
export const nothing = {
  accepted: 0,
  copies: 0,
  blows: 0,
  unanswered: 0,
  unrecorded: 0,
  unrecordedMs: 0,
  calledAgain: 0,
  slowestMs: 0,
};

/** A process's current memory, in MB. */
export async function memoryOf(pid: number): Promise<number> {
  const pages = (await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')).match(/^VmRSS:\s+(\d+) kB$/m)?.[1];
  return Math.round(Number(pages ?? 0) / 1024);
}

/** The value below which this share of them is. */
export const at = (values: number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? 0;

export const change = (before: number, during: number): string =>
  `${during >= before ? '+' : ''}${(((during - before) / before) * 100).toFixed(0)} %`;
