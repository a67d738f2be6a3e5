import { within } from '../pace/within.ts';
import type { Sql } from './client.ts';

/** Much less than a statement waits for a database that silently vanished, and than Prometheus and load balancers wait for us. */
const answerWithinMs = 3_000;

/** What the database answers, or `late` if it takes longer than that. */
export const answerInTime = <Answer>(asked: Promise<Answer>, late: Answer): Promise<Answer> =>
  within(answerWithinMs, asked, late);

/** @returns a function that tells within three seconds whether the database answers; all who ask meanwhile get one answer */
export function watchAnswers(db: Sql): () => Promise<boolean> {
  let asked: Promise<boolean> | null = null;
  return () => {
    asked ??= db
      .query({ text: 'SELECT 1' })
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        asked = null;
      });
    return answerInTime(asked, false);
  };
}
