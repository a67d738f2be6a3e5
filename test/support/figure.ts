import { appendFileSync } from 'node:fs';

/**
 * Reports the figure of this run for a numbered promise of docs/reliability.md. `npm test` prints them all at its end,
 * whatever the reporter shows.
 */
export function figure(promise: `P${number}`, words: string): void {
  const file = process.env.TEST_FIGURES;
  if (file) appendFileSync(file, `${promise}: ${words}\n`);
  else process.stderr.write(`${promise}: ${words}\n`);
}
