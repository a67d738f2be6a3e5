/** A number and its noun. */
export const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

/**
 * For the person who reads a list and might take it for all there is.
 *
 * @param more how many it does not show
 * @param options by which they are found
 * @returns null if it shows all
 */
export const notShown = (more: number, one: string, many: string, options: string): string | null =>
  more > 0 ? `${counted(more, `more ${one} is`, `more ${many} are`)} not shown: see ${options}.` : null;

/** A table with columns as wide as their widest cell; without rows, the sentence instead. */
export function table(heads: string[], rows: (string | number | null)[][], sentence: string): string {
  if (rows.length === 0) return sentence;
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
