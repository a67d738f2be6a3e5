import type { Outcome } from './chaos.ts';

/** One line per scenario, and below it its figures and findings. */
export function tableOf(outcomes: Outcome[]): string {
  const head = [
    'scenario',
    'rounds',
    'blows',
    '200s',
    'copies',
    'lost',
    'twice',
    'of it S9',
    'answered',
    'ms before',
    'calls again',
    'slowest, s',
    'wrong',
  ];
  const rows = outcomes.map(({ name, rounds, totals, findings }) => [
    name,
    rounds,
    totals.blows,
    totals.accepted,
    totals.copies,
    findings.filter(({ rule }) => rule === 'A1').length,
    totals.unanswered + totals.unrecorded,
    totals.unanswered,
    totals.unrecorded,
    totals.unrecordedMs,
    totals.calledAgain,
    (totals.slowestMs / 1000).toFixed(1),
    findings.length,
  ]);
  const lines = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const table = lines
    .map((line) => line.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  '))
    .join('\n');
  const figures = outcomes.flatMap(({ name, figures }) =>
    Object.entries(figures).map(([what, figure]) => `${name}: ${what}: ${figure}`),
  );
  const wrong = outcomes.flatMap(({ name, findings }) => findings.map(({ rule, what }) => `${name}: ${rule}: ${what}`));
  return [table, '', ...figures, ...(wrong.length > 0 ? ['', ...wrong.slice(0, 100)] : [])].join('\n');
}
