/** A statement; a named one is prepared once per connection, for the hot path. */
export interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
}

/** Anything that runs SQL: the pool, or one transaction. */
export interface Sql {
  query<Row>(statement: Statement): Promise<Row[]>;
}
