/**
 * SQL: a parameter whose value the planner does not see. PostgreSQL replans a prepared statement with each call as long as the
 * actual values promise a cheaper plan, and a short array always does; with partitions, planning takes ten times as long as
 * the statement itself. Use this if the values cannot improve the plan: the statement is then planned once.
 */
export const unseen = (parameter: string) => `(SELECT ${parameter})`;

/**
 * SQL: the rows of a table that its index finds by this condition, for a LATERAL join. The OFFSET keeps the planner from
 * turning the join around: a plan made and kept while one of the tables is small would scan all of it later.
 */
export const rowOf = (table: string, condition: string, columns = '*') =>
  `(SELECT ${columns} FROM ${table} WHERE ${condition} OFFSET 0)`;
