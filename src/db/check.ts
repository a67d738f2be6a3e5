import { type Database, reliedOn, type Sql } from './client.ts';
import { remedyOfReadOnly } from './failure.ts';

const oldestVersion = 150_000;

interface Facts {
  version: number;
  versionName: string;
  database: string;
  role: string;
  encoding: string;
  readOnly: boolean;
  /** The schema of a table that is named without one; null if there is none. */
  schema: string | null;
  makesTables: boolean;
  makesSchemas: boolean;
  /** Settings that are off, comma separated. */
  unsafe: string | null;
  /** Connections that the role, the database and the server allow; null: no limit. */
  ofRole: number | null;
  ofDatabase: number | null;
  ofServer: number;
}

/** What one node demands of its database. */
export interface Demands {
  /** The most connections it opens. */
  connections: number;
  /** Accepts a database that may forget what it has committed. */
  allowUnsafe: boolean;
}

/**
 * Why this database must not be used and what to do about it, in one line; null if it may. A database is refused if it is too
 * old, cannot hold every character, forbids what a node has to do, has a setting that lets it forget what it has
 * committed, which would make our 200 a lie, or is behind a pooler that gives a session to one client after the other or drops
 * what statements rely on.
 *
 * @param db with two connections at least
 */
export async function refuseDatabase(db: Database, demands: Demands): Promise<string | null> {
  const [facts] = await db.query<Facts>({ text: factsQuery });
  const refusal = facts ? (refuseKind(facts, demands) ?? refuseRights(facts) ?? refuseLimits(facts, demands)) : null;
  const pooler = async () =>
    (await refuseSettings(db)) ?? (await db.session((one) => db.session((other) => refuseSharing(one, other))));
  return refusal ?? (await pooler());
}

/**
 * A pooler that drops the options of a connection, or a DATABASE_URL with others, leaves what statements rely on to the role, the
 * database and the server.
 */
export async function refuseSettings(sql: Sql): Promise<string | null> {
  const rows = await sql.query<{ role: string; value: string }>({
    text: `SELECT session_user AS role, current_setting(name) AS value FROM unnest($1::text[]) WITH ORDINALITY AS s (name, at) ORDER BY at`,
    values: [reliedOn.map(([name]) => name)],
  });
  const isSet = (wanted: string, value = '') => value.replace(/^Etc\//, '').startsWith(wanted);
  const lost = reliedOn.filter(([, wanted], at) => !isSet(wanted, rows[at]?.value));
  if (lost.length === 0) return null;
  const remedies = lost.map(
    ([name, wanted]) => `ALTER ROLE ${quoted(rows[0]?.role ?? '')} SET ${name} = ${literal(wanted)}`,
  );
  return `the sessions of DATABASE_URL lack settings that statements rely on, as a pooler drops the options of connections: run ${remedies.join('; ')}`;
}

/**
 * Behind such a pooler the lock of a session, as migrating and the chores take it, stays when its owner is done: the next start
 * would wait for it forever.
 *
 * @param one a connection
 * @param other another one, open at the same time
 */
export async function refuseSharing(one: Sql, other: Sql): Promise<string | null> {
  const [ofOne, ofOther] = [new Set<number>(), new Set<number>()];
  const asked: [Sql, Set<number>][] = [
    [one, ofOne],
    [other, ofOther],
  ];
  // Whoever else uses the pooler may come between once, and it may give its sessions in turn.
  for (let round = 0; round < 3; round += 1) {
    for (const [sql, pids] of round === 1 ? asked.toReversed() : asked) pids.add(await processOf(sql));
  }
  const isShared = ofOne.size > 1 || ofOther.size > 1 || [...ofOne].some((pid) => ofOther.has(pid));
  if (!isShared) return null;
  return 'DATABASE_URL leads to a pooler that shares sessions between clients, such as PgBouncer in transaction mode: set it to PostgreSQL itself, or pool_mode to session';
}

async function processOf(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
  return row?.pid ?? 0;
}

function refuseKind({ version, versionName, database, encoding, readOnly, unsafe }: Facts, { allowUnsafe }: Demands) {
  if (version < oldestVersion) return `DATABASE_URL must name PostgreSQL 15 or later; this is ${versionName}`;
  if (encoding !== 'UTF8') {
    return `the database ${quoted(database)} has the encoding ${encoding}, which cannot hold all mail: set DATABASE_URL to one made with ENCODING 'UTF8' TEMPLATE template0`;
  }
  if (readOnly) {
    return `the database ${quoted(database)} is read-only: ${remedyOfReadOnly}`;
  }
  if (unsafe && !allowUnsafe) {
    return `the database has ${unsafe} off, so accepted mail can be lost: switch it on, or set ALLOW_UNSAFE_DATABASE=true`;
  }
  return null;
}

/** A right that the role of `DATABASE_URL` needs and does not have. */
export interface MissingRight {
  /** What it cannot do, as the beginning of a sentence. */
  lacks: string;
  /** The SQL that gives it to the role. */
  remedy: string;
}

/** The first right that the role lacks to make tables, or those of the queue; null if it has all. */
export async function missingRight(sql: Sql): Promise<MissingRight | null> {
  const [facts] = await sql.query<Facts>({ text: factsQuery });
  return facts ? missingOf(facts) : null;
}

/** SQL: the schemas of our tables. */
const ours = `to_regnamespace('public'), to_regnamespace('pgboss')`;

/**
 * Why the role cannot change tables: a backup that was restored by somebody else made them that one's. Mail goes on with rights
 * on them alone, until the first week without a table and the first migration. Null if they are the role's, or of one whose
 * member it is.
 */
export async function foreignTables(sql: Sql): Promise<MissingRight | null> {
  const [row] = await sql.query<{ role: string; database: string; owner: string; example: string; tables: number }>({
    text: `SELECT session_user AS role, current_database() AS database, r.rolname AS owner, count(*)::int AS tables, min(c.relname::text) AS example
             FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
            WHERE c.relnamespace IN (${ours}) AND c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'USAGE')
              AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
            GROUP BY r.rolname ORDER BY tables DESC, owner LIMIT 1`,
  });
  if (!row) return null;
  const { owner, tables, example } = row;
  const [who, where] = [quoted(row.role), quoted(row.database)];
  const belong = tables === 1 ? `the table ${example} belongs` : `${tables} tables, such as ${example}, belong`;
  // Not REASSIGN OWNED: it is refused for the first superuser, and takes that role's other databases along.
  const each = `DO $$ DECLARE t text; BEGIN FOR t IN SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace IN (${ours}) AND relowner = ${literal(quoted(owner))}::regrole LOOP EXECUTE 'ALTER TABLE ' || t || ${literal(` OWNER TO ${who}`)}; END LOOP; FOR t IN SELECT oid::regtype FROM pg_type WHERE typtype = 'e' AND typnamespace IN (${ours}) AND typowner = ${literal(quoted(owner))}::regrole LOOP EXECUTE 'ALTER TYPE ' || t || ${literal(` OWNER TO ${who}`)}; END LOOP; END $$`;
  return {
    lacks: `${belong} to ${quoted(owner)} and not to the role ${who} of DATABASE_URL, which can neither make tables for new weeks nor migrate`,
    remedy: `this as a superuser in the database ${where}, or restore the backup as ${who}: ${each}`,
  };
}

function refuseRights(facts: Facts) {
  const missing = missingOf(facts);
  return missing && `${missing.lacks}: run ${missing.remedy}`;
}

function missingOf({ schema, makesTables, makesSchemas, role, database }: Facts): MissingRight | null {
  const [who, where] = [quoted(role), quoted(database)];
  const whose = `the role ${who} of DATABASE_URL`;
  if (!makesTables) {
    return {
      lacks: `${whose} cannot create tables`,
      remedy: `GRANT CREATE, USAGE ON SCHEMA public TO ${who} in the database ${where}`,
    };
  }
  if (schema !== 'public') {
    return {
      lacks: `${whose} creates its tables in ${schema === null ? 'no schema' : `the schema ${quoted(schema)}`}, not in public`,
      remedy: `ALTER ROLE ${who} IN DATABASE ${where} SET search_path = public`,
    };
  }
  if (!makesSchemas) {
    return {
      lacks: `${whose} cannot create the queue's schema`,
      remedy: `GRANT CREATE ON DATABASE ${where} TO ${who}`,
    };
  }
  return null;
}

function refuseLimits({ role, database, ofRole, ofDatabase, ofServer }: Facts, { connections }: Demands) {
  const [who, where] = [quoted(role), quoted(database)];
  const tooFew = (limit: number | null) => limit !== null && limit < connections;
  if (tooFew(ofRole)) {
    return `the role ${who} of DATABASE_URL can have ${ofRole} connections, but a node needs ${connections}: run ALTER ROLE ${who} CONNECTION LIMIT ${connections}, or as many for each node`;
  }
  if (tooFew(ofDatabase)) {
    return `the database ${where} accepts ${ofDatabase} connections, but a node needs ${connections}: run ALTER DATABASE ${where} CONNECTION LIMIT ${connections}, or as many for each node`;
  }
  if (tooFew(ofServer)) {
    return `the server of DATABASE_URL accepts ${ofServer} connections, but a node needs ${connections}: raise its max_connections, by as many for each node`;
  }
  return null;
}

/** A text as a literal of SQL. */
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** A name quoted for SQL, so that the statement can be pasted. */
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** The limit that counts is that of the role that logged in; superusers have only the server's own limit. */
const factsQuery = `
  SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS "versionName",
         d.datname AS database, r.rolname AS role, pg_encoding_to_char(d.encoding) AS encoding,
         current_setting('transaction_read_only') = 'on' AS "readOnly",
         current_schema() AS schema,
         coalesce(has_schema_privilege(to_regnamespace('public'), 'CREATE')
                  AND has_schema_privilege(to_regnamespace('public'), 'USAGE'), false) AS "makesTables",
         to_regnamespace('pgboss') IS NOT NULL OR has_database_privilege(d.oid, 'CREATE') AS "makesSchemas",
         (SELECT string_agg(name, ', ') FROM pg_settings
           WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off') AS unsafe,
         CASE WHEN r.rolconnlimit >= 0 AND NOT r.rolsuper THEN r.rolconnlimit END AS "ofRole",
         CASE WHEN d.datconnlimit >= 0 AND NOT r.rolsuper THEN d.datconnlimit END AS "ofDatabase",
         current_setting('max_connections')::int
           - CASE WHEN r.rolsuper THEN 0
                  ELSE current_setting('superuser_reserved_connections')::int
                       + coalesce(current_setting('reserved_connections', true)::int, 0) END AS "ofServer"
    FROM pg_database d, pg_roles r
   WHERE d.datname = current_database() AND r.rolname = session_user`;
