/** What two clocks may be apart by, in seconds, without anybody's minding. */
const tolerated = 10;

/** Times from here on stand for "not before somebody says so". */
const never = '9000-01-01';

/**
 * SQL for a moment that this process has named by its own clock, on the clock of the database, which says when it has come:
 * a node whose clock is a day ahead must not make its mail wait for a day.
 *
 * @param moment SQL of the moment, or null
 * @param now the parameter that says what this process's clock shows
 */
export const onDatabaseClock = (moment: string, now: string): string =>
  `CASE WHEN ${moment} < '${never}' AND abs(extract(epoch FROM clock_timestamp() - ${now}::timestamptz)) > ${tolerated}
        THEN ${moment} + (clock_timestamp() - ${now}::timestamptz) ELSE ${moment} END`;
