/** A number and its noun. */
export const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

/**
 * For the person who reads a list and might take it for all there is.
 *
 * @param shown how many it shows of all these
 * @param options by which the others are found
 * @returns null if it shows all, or nothing, which is taken for what it is
 */
export function notShown(shown: number, all: number, one: string, many: string, options: string): string | null {
  if (shown === 0 || shown >= all) return null;
  return `${counted(all - shown, `more ${one} is`, `more ${many} are`)} not shown: see ${options}.`;
}

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
