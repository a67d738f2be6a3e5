/** How many of something, as people say it. */
export const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

/** Rows for people, with columns as wide as what stands in them; an empty list is said in words. */
export function table(heads: string[], rows: (string | number | null)[][], nothing: string): string {
  if (rows.length === 0) return nothing;
  const lines = [heads, ...rows.map((row) => row.map((cell) => String(cell ?? '-')))];
  const widths = heads.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
