import { floorId } from '../ids.ts';
import type { Sql } from './client.ts';

const partitioned = ['emails', 'email_contents', 'recipients', 'attempts', 'webhook_deliveries'];

/**
 * Rows of these change after they were written. In the room that is left on their page the new version finds place, and none
 * of the indexes has to be told.
 */
const withRoom = new Set(['emails', 'recipients']);

const weekMs = 7 * 24 * 3_600_000;

/** How far ahead partitions exist: a node that nobody restarts, or whose clock is wrong by weeks, still finds one. */
const weeksAhead = 4;

/**
 * Makes the weekly partitions from last week to four weeks ahead where they are missing. A week begins on Monday
 * 00:00 UTC and is cut on the ids of that moment. Safe to call from several nodes at once.
 */
export async function ensurePartitions(db: Sql, now: Date): Promise<void> {
  const names = partitioned.flatMap((table) => weeks(now).map((week) => ({ table, week, name: nameOf(table, week) })));
  const rows = await db.query<{ relname: string }>({
    text: `SELECT relname FROM pg_class WHERE relname = ANY($1) AND relnamespace = current_schema()::regnamespace`,
    values: [names.map((entry) => entry.name)],
  });
  const existing = new Set(rows.map((row) => row.relname));
  for (const { table, week, name } of names) {
    if (existing.has(name)) continue;
    // Attaching takes a lock that lets reads and writes go on, which CREATE TABLE … PARTITION OF does not.
    await db.query({
      text: `DO $$ BEGIN
        PERFORM pg_advisory_xact_lock(hashtext('sendwright partitions'));
        IF to_regclass('${name}') IS NULL THEN
          CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) ${withRoom.has(table) ? 'WITH (fillfactor = 50)' : ''};
          ALTER TABLE ${table} ATTACH PARTITION ${name}
            FOR VALUES FROM ('${floorId(week)}') TO ('${floorId(new Date(week.getTime() + weekMs))}');
        END IF;
      END $$`,
    });
  }
}

function weeks(now: Date): Date[] {
  const midnight = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate());
  const monday = midnight - ((now.getUTCDay() + 6) % 7) * 24 * 3_600_000;
  return Array.from({ length: weeksAhead + 2 }, (_, index) => new Date(monday + (index - 1) * weekMs));
}

function nameOf(table: string, week: Date): string {
  return `${table}_${week.toISOString().slice(0, 10).replaceAll('-', '')}`;
}
