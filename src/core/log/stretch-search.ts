import type { Database } from '../../db/client.ts';
import { floorId } from '../../ids.ts';
import type { Stretch } from './email-counts.ts';
import { conditions, type Filter, type Page } from './email-filter.ts';

export interface Found {
  /** How many emails there are up to the end of the page. */
  found: number;
  ids: string[];
}

/**
 * Searches the emails of these stretches, newest first: no email between them is read.
 *
 * @returns a page of them
 */
export async function findInStretches(
  db: Database,
  filter: Filter,
  stretches: Stretch[],
  { cursor, limit, offset }: Page,
): Promise<Found> {
  const { where, values } = conditions(filter);
  const [first, past, after, most, skipped] = [1, 2, 3, 4, 5].map((place) => `$${values.length + place}`);
  const runs = runsOf(stretches);
  const [row] = await db.query<Found>({
    text: `WITH found AS (
             SELECT of_run.id
               FROM unnest(${first}::uuid[], ${past}::uuid[]) AS run (first, past)
              CROSS JOIN LATERAL (
                    SELECT id FROM emails
                     WHERE ${where} AND id >= run.first AND id < run.past AND (${after}::uuid IS NULL OR id < ${after})
                     ORDER BY id DESC LIMIT ${most}::bigint) of_run
              ORDER BY of_run.id DESC LIMIT ${most}::bigint)
           SELECT (SELECT count(*)::int FROM found) AS found, ARRAY(SELECT id FROM found ORDER BY id DESC OFFSET ${skipped}) AS ids`,
    values: [
      ...values,
      runs.map(({ from }) => floorId(from)),
      runs.map(({ to }) => floorId(to)),
      cursor,
      offset + limit,
      offset,
    ],
  });
  return row ?? { found: 0, ids: [] };
}

/** Stretches that follow each other, put together. */
function runsOf(stretches: Stretch[]): { from: Date; to: Date }[] {
  const runs: { from: Date; to: Date }[] = [];
  for (const { from, to } of stretches) {
    const later = runs.at(-1);
    if (later && later.from.getTime() === to.getTime()) later.from = from;
    else runs.push({ from, to });
  }
  return runs;
}
