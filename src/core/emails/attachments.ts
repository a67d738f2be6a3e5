import type { Sql } from '../../db/client.ts';
import { byWeight } from '../../pace/by-weight.ts';

/** The most bytes that one statement carries, except for a single larger file. */
const heaviestStatement = 4 * 1024 * 1024;

/** Bytes of a file in one row: `pg` collects each row in memory that doubles until it fits. */
const pieceBytes = 1024 * 1024;

/** A file that an account sends. */
export interface NewFile {
  /** In hex. */
  sha256: string;
  content: Buffer;
  /** When the last email with this file is due. */
  lastUsedAt: Date;
}

/** Stores files in the caller's transaction. Bytes that repeat, among these or since earlier, are stored once. */
export async function storeFiles(tx: Sql, accountId: string, files: NewFile[]): Promise<void> {
  const byHash = new Map<string, NewFile>();
  for (const file of files) {
    const known = byHash.get(file.sha256);
    if (!known || known.lastUsedAt < file.lastUsedAt) byHash.set(file.sha256, file);
  }
  // In one order on every node: two batches that share attachments must not deadlock.
  const sorted = [...byHash.values()].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1));
  for (const some of byWeight(sorted, heaviestStatement, ({ content }) => content.length))
    await insert(tx, accountId, some);
}

async function insert(tx: Sql, accountId: string, files: NewFile[]): Promise<void> {
  let end = 0;
  const places = files.map(({ content }) => {
    const at = end + 1;
    end += content.length;
    return at;
  });
  const [first] = files;
  await tx.query({
    name: 'attachments-store',
    // The bytes of all files are one binary value: as elements of an array they would be sent as hex digits.
    text: `INSERT INTO attachments (account_id, sha256, content, last_used_at)
           SELECT $1, sha256, substring($6::bytea FROM at FOR bytes), last_used_at
             FROM unnest($2::bytea[], $3::integer[], $4::integer[], $5::timestamptz[]) AS f (sha256, at, bytes, last_used_at)
           ON CONFLICT (account_id, sha256) DO UPDATE SET last_used_at = greatest(attachments.last_used_at, excluded.last_used_at)`,
    values: [
      accountId,
      files.map(({ sha256 }) => Buffer.from(sha256, 'hex')),
      places,
      files.map(({ content }) => content.length),
      files.map(({ lastUsedAt }) => lastUsedAt),
      files.length === 1 ? first?.content : Buffer.concat(files.map(({ content }) => content)),
    ],
  });
}

/** Identifies a file. */
export interface FileName {
  accountId: string;
  /** In hex. */
  sha256: string;
}

const keyOf = ({ accountId, sha256 }: FileName) => `${accountId} ${sha256}`;

/**
 * Reads the bytes of files, each once however often it is named, a few megabytes per statement: many files, or a slow
 * connection to the database, must not exceed the time that a statement may take.
 *
 * @returns a function that returns the bytes of one of them, and throws if they are missing: an email that is kept has its files
 */
export async function loadFiles(db: Sql, wanted: FileName[]): Promise<(file: FileName) => Buffer> {
  const contents = new Map<string, { bytes: Buffer; missing: number }>();
  for (let from = 0, total = wanted.length; from < total; from += heaviestStatement) {
    const some = await pieces(db, wanted, from);
    total = some[0]?.total ?? 0;
    for (const { accountId, sha256, size, at, base64 } of some) {
      const key = keyOf({ accountId, sha256 });
      const content = contents.get(key) ?? { bytes: Buffer.allocUnsafe(size), missing: size };
      content.missing -= content.bytes.write(base64, at - 1, 'base64');
      contents.set(key, content);
    }
  }
  return (file) => {
    const content = contents.get(keyOf(file));
    // If a file was deleted between two statements, only a part of it was read.
    if (!content || content.missing > 0)
      throw new Error(`the bytes of attachment ${file.sha256} are not in the database`);
    return content.bytes;
  };
}

interface Piece extends FileName {
  /** Of the whole file, in bytes. */
  size: number;
  /** Where it begins in the file, counted from 1. */
  at: number;
  base64: string;
  /** Bytes of all files that are wanted. */
  total: number;
}

/** The pieces that begin in the next `heaviestStatement` bytes of all files together, which are in a fixed order. */
function pieces(db: Sql, wanted: FileName[], from: number): Promise<Piece[]> {
  return db.query<Piece>({
    name: 'attachments-load',
    // As base64, because pg receives binary values as hex, which is half as long again. An empty file counts as one byte, so that
    // it has a place in the order.
    text: `SELECT account_id AS "accountId", encode(sha256, 'hex') AS sha256, size, at, total,
                  encode(substring(content FROM at FOR ${pieceBytes}), 'base64') AS base64
             FROM (SELECT *, sum(bytes) OVER (ORDER BY account_id, sha256, at) - bytes AS begins, (sum(bytes) OVER ())::float8 AS total
                     FROM (SELECT a.account_id, a.sha256, a.content, octet_length(a.content) AS size, at,
                                  greatest(least(octet_length(a.content) - at + 1, ${pieceBytes}), 1) AS bytes
                             FROM attachments a
                             JOIN (SELECT DISTINCT * FROM unnest($1::uuid[], $2::bytea[]) AS w (account_id, sha256)) w USING (account_id, sha256)
                            CROSS JOIN LATERAL generate_series(1, greatest(octet_length(a.content), 1), ${pieceBytes}) AS at) piece) piece
            WHERE begins >= $3 AND begins < $3 + ${heaviestStatement}`,
    values: [wanted.map(({ accountId }) => accountId), wanted.map(({ sha256 }) => Buffer.from(sha256, 'hex')), from],
  });
}

/**
 * Removes those of these files of an account that no email has any more. It is part of the caller's transaction, after the
 * statements that made them unneeded. A call that accepts one of them again at this moment waits, and then stores its bytes
 * anew.
 *
 * @param hashes SHA-256, in hex
 * @returns how many were removed
 */
export async function dropUnneeded(tx: Sql, accountId: string, hashes: string[]): Promise<number> {
  if (hashes.length === 0) return 0;
  const values = [accountId, [...new Set(hashes)].sort().map((hash) => Buffer.from(hash, 'hex'))];
  await tx.query({
    text: 'SELECT FROM attachments WHERE account_id = $1 AND sha256 = ANY($2) ORDER BY sha256 FOR UPDATE',
    values,
  });
  // A separate statement, to see what was committed while the locks were awaited. It looks up the emails with each hash, and
  // then the account of each: for a join the planner would read all emails of the account, or all emails with files.
  const gone = await tx.query({
    text: `DELETE FROM attachments a WHERE a.account_id = $1 AND a.sha256 = ANY($2) AND CASE WHEN EXISTS (
             SELECT FROM email_contents c
              WHERE c.attachments <> '[]' AND c.attachments @> jsonb_build_array(jsonb_build_object('sha256', encode(a.sha256, 'hex')))
                AND (SELECT e.account_id FROM emails e WHERE e.id = c.email_id) = a.account_id) THEN false ELSE true END RETURNING 1`,
    values,
  });
  return gone.length;
}
