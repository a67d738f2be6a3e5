import { middleOf, type Result } from './measure.ts';
import { nameOf } from './plan.ts';
import type { Measured, Spread } from './round.ts';

/**
 * The figures for people, in Markdown.
 *
 * ¶ @param peers each one's results: the ratios are to the first one, those to the others are below the table
 */
export function tableOf(results: Result[], peers: Result[][]): string {
  const like = ({ size, tls }: Result, peer: Result[] = []) =>
    peer.find((each) => each.size === size && each.tls === tls);
  const [first, ...others] = peers;
  const rows = [
    ...results.map((result) => rowOf(nameOf(result), result, like(result, first))),
    ...peers.flat().map((result) => rowOf(nameOfPeer(result), result, like(result, first))),
  ];
  const ratios = results.flatMap((result) =>
    others.flatMap((peer) => {
      const other = like(result, peer);
      return other ? [`${nameOf(result)}: ${timesOf(result, other)} times ${other.system}`] : [];
    }),
  );
  return [grid([heads, ...rows]), ...ratios].join('\n');
}

const heads = [
  '',
  'accepted/s',
  'delivered/s',
  'x peer',
  'CPU-s per 1,000',
  'server',
  'database',
  'x peer',
  'ms idle: p50, p99',
  'ms loaded: p50, p99',
  'MB',
  'SQL per email',
  'sink + generator + DNS',
];

/** Round by round, because the medians may come from rounds in which the machine was not equally fast. */
const ratioOf = (result: Result, peer: Result, figure: (round: Measured) => number) =>
  middleOf(
    result.rounds.flatMap((round, index) => {
      const beside = peer.rounds[index];
      return beside ? [figure(round) / figure(beside)] : [];
    }),
  ).toFixed(2);

const timesOf = (result: Result, peer: Result) => ratioOf(result, peer, ({ deliveredPerSecond }) => deliveredPerSecond);

const cpuOf = ({ cpu }: Measured) => cpu.server + cpu.database;

const nameOfPeer = (result: Result) => `${result.system}, ${nameOf(result).replace('smtp, ', '')}`;

function rowOf(name: string, result: Result, peer: Result | undefined): string[] {
  const { median, idle, statements } = result;
  const { server, database, sink, generator, dns } = median.cpu;
  const compared = peer !== undefined && peer !== result;
  return [
    name,
    median.acceptedPerSecond.toFixed(0),
    median.deliveredPerSecond.toFixed(0),
    compared ? timesOf(result, peer) : '',
    (server + database).toFixed(2),
    server.toFixed(2),
    database > 0 ? database.toFixed(2) : '',
    compared ? ratioOf(result, peer, cpuOf) : '',
    idle ? spread(idle.deliverMs) : '',
    spread(median.deliverMs),
    (median.peakMemory / 1e6).toFixed(0),
    statements?.perEmail.toFixed(2) ?? '',
    (sink + generator + dns).toFixed(2),
  ];
}

const spread = ({ p50, p99 }: Spread) => `${short(p50)}, ${short(p99)}`;
const short = (ms: number) => ms.toFixed(Math.abs(ms) < 100 ? 1 : 0);

export function grid(rows: string[][]): string {
  const [first = []] = rows;
  const widths = first.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = `|${widths.map((width, column) => `${'-'.repeat(width + 1)}${column === 0 ? '-' : ':'}`).join('|')}|`;
  return [line(first), rule, ...rows.slice(1).map(line)].join('\n');
}
