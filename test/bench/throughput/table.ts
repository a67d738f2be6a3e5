import type { Result } from './measure.ts';
import { nameOf } from './plan.ts';
import type { Spread } from './round.ts';

/** The figures as a person reads them, in Markdown. */
export function tableOf(results: Result[], peers: Result[]): string {
  const peerOf = ({ size, tls }: Result) => peers.find((peer) => peer.size === size && peer.tls === tls);
  const rows = [...results, ...peers].map((result) => rowOf(result, peerOf(result)));
  return grid([heads, ...rows]);
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

function rowOf(result: Result, peer: Result | undefined): string[] {
  const { median, idle, statements } = result;
  const { server, database, sink, generator, dns } = median.cpu;
  const isPeer = peer === result;
  const times = (ratio: number | undefined) => (ratio === undefined || isPeer ? '' : `${ratio.toFixed(2)}`);
  return [
    isPeer ? `${result.system}, ${nameOf(result).replace('smtp, ', '')}` : nameOf(result),
    median.acceptedPerSecond.toFixed(0),
    median.deliveredPerSecond.toFixed(0),
    times(peer && median.deliveredPerSecond / peer.median.deliveredPerSecond),
    (server + database).toFixed(2),
    server.toFixed(2),
    isPeer ? '' : database.toFixed(2),
    times(peer && (server + database) / peer.median.cpu.server),
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
