/**
 * SQL: a parameter whose value the planner does not look at. PostgreSQL plans a prepared statement anew with each call for as
 * long as the values in hand promise a cheaper plan, and a short array always does; with partitions that takes ten times as
 * long as the statement itself. Where the values cannot change the plan for the better, this way it is planned once.
 */
export const unseen = (parameter: string) => `(SELECT ${parameter})`;

/**
 * SQL: the rows of a table that its index finds by this condition, for a LATERAL join. The OFFSET keeps the planner from
 * turning the join around: a plan that is made while one of the tables is small, and kept, would read all of it later.
 */
export const rowOf = (table: string, condition: string, columns = '*') =>
  `(SELECT ${columns} FROM ${table} WHERE ${condition} OFFSET 0)`;
