import { appendFileSync } from 'node:fs';

/**
 * Says what a promise of docs/reliability.md came to in this run, with the number that it has there. `npm test` shows all of
 * them at its end, whatever the reporter shows.
 */
export function figure(promise: `P${number}`, words: string): void {
  const file = process.env.TEST_FIGURES;
  if (file) appendFileSync(file, `${promise}: ${words}\n`);
  else process.stderr.write(`${promise}: ${words}\n`);
}
