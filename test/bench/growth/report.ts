import type { Measured } from '../throughput/round.ts';
import { grid } from '../throughput/table.ts';
import type { Drained } from './drain.ts';
import type { LogTime } from './log-times.ts';
import type { Drop, Dropped } from './retention.ts';
import type { Seen } from './watching.ts';

/** The effect of one state of the tables on an email. */
export interface Measurement {
  batches: Measured;
  singles: Measured;
  seen: Seen;
}

export interface Figures {
  emails: number;
  fillSeconds: number;
  databaseBytes: number;
  empty: Measurement;
  /** Filled, and no statistics gathered yet. */
  unanalyzed: Measurement;
  full: Measurement;
  log: LogTime[];
  drained: Drained | null;
  dropped: Dropped;
}

const rate = (value: number) => value.toFixed(0);
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
const ms = (value: number) => value.toFixed(value < 100 ? 1 : 0);

/** The figures for people, in Markdown. */
export function reportOf(figures: Figures): string {
  const { emails, databaseBytes, empty, unanalyzed, full, log, drained, dropped } = figures;
  const states = { empty, [`${emails} emails, no statistics`]: unanalyzed, [`${emails} emails`]: full };
  const rows = (['batches', 'singles'] as const).flatMap((how) =>
    Object.entries(states).map(([name, state]) => rowOf(`${how}, ${name}`, state[how], empty[how], state.seen)),
  );
  return [
    `The database has ${(databaseBytes / 1e9).toFixed(1)} GB.`,
    grid([heads, ...rows]),
    grid([
      ['log', 'matching', 'ms: p50', 'p99'],
      ...log.map(({ filter, matching, ms: { p50, p99 } }) => [filter, String(matching), ms(p50), ms(p99)]),
    ]),
    ...(drained ? [backlogOf(drained)] : []),
    weekOf(dropped),
  ].join('\n\n');
}

const heads = [
  '',
  'accepted/s',
  'delivered/s',
  'x empty',
  'CPU-s per 1,000',
  'x empty',
  'server',
  'database',
  'fetch ms: p50',
  'p95',
  'BEGIN p95',
  'MB',
];

function rowOf(name: string, one: Measured, empty: Measured, { fetch, nothing }: Seen): string[] {
  const cpu = ({ cpu: { server, database } }: Measured) => server + database;
  return [
    name,
    rate(one.acceptedPerSecond),
    rate(one.deliveredPerSecond),
    (one.deliveredPerSecond / empty.deliveredPerSecond).toFixed(2),
    cpu(one).toFixed(2),
    (cpu(one) / cpu(empty)).toFixed(2),
    one.cpu.server.toFixed(2),
    one.cpu.database.toFixed(2),
    ms(fetch.p50),
    ms(fetch.p95),
    ms(nothing.p95),
    megabytes(one.peakMemory),
  ];
}

function backlogOf({ emails, perSecond, perSecondOfTenth, seen }: Drained): string {
  const { fetch, nothing, rss } = seen;
  return `A backlog of ${emails} of one account went out at ${rate(perSecond)}/s (by tenths: ${perSecondOfTenth.map(rate).join(', ')}); ${fetch.calls} fetches of jobs took ${ms(fetch.p50)} ms at the median, ${ms(fetch.p95)} at p95, ${ms(fetch.p99)} at p99 (a BEGIN, which does nothing: ${ms(nothing.p50)}, ${ms(nothing.p95)}); memory ${megabytes(rss.median)} MB at the median, ${megabytes(rss.most)} at the most.`;
}

function weekOf({ emails, bytes, quiet, busy, before, during }: Dropped): string {
  return `Dropping a week of ${emails} emails (${megabytes(bytes)} MB) took ${told(quiet)} on an idle machine, and ${told(busy)} while single emails came in: their 200 took ${ms(during.acceptMs.p50)} ms at the median and ${ms(during.acceptMs.p99)} at p99, without it ${ms(before.acceptMs.p50)} and ${ms(before.acceptMs.p99)}.`;
}

const told = ({ seconds, parts: { detach, remove, rest } }: Drop) =>
  `${seconds.toFixed(2)} s (statements, several at a time: detaching ${detach.toFixed(2)}, removing files ${remove.toFixed(2)}, all else ${rest.toFixed(2)})`;
