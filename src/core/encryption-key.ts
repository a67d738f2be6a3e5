import type { Database } from '../db/client.ts';
import { open, seal } from '../seal.ts';

/** What the check's row is, opened: the words do not matter, only that they come out whole. */
const knownText = 'sendwright';
const context = 'encryption check';

interface Sealed {
  context: string;
  sealed: Uint8Array;
}

/**
 * Whether this is the key that the database's secrets are sealed with. The first key that comes to a database without
 * any secrets becomes that: of nodes that come at once with different ones, one is told true.
 */
export async function isKeyOf(db: Database, key: Buffer): Promise<boolean> {
  const known = await readCheck(db);
  if (known) return opens(key, known);
  const samples = await sampleSecrets(db);
  if (samples.length > 0 && !samples.some((sample) => opens(key, sample))) return false;
  await db.query({
    text: 'INSERT INTO encryption_check (sealed) VALUES ($1) ON CONFLICT DO NOTHING',
    values: [seal(key, Buffer.from(knownText), context)],
  });
  const agreed = await readCheck(db);
  return agreed !== null && opens(key, agreed);
}

async function readCheck(db: Database): Promise<Sealed | null> {
  const [row] = await db.query<{ sealed: Uint8Array }>({ text: 'SELECT sealed FROM encryption_check' });
  return row ? { context, sealed: row.sealed } : null;
}

/**
 * What a database from before there was the check has to try a key on. Several, as one start with a wrong key may have
 * sealed something: the key that opens any of them is worth starting with.
 */
async function sampleSecrets(db: Database): Promise<Sealed[]> {
  return db.query<Sealed>({
    text: `(SELECT 'domain:' || id AS context, dkim_private_key AS sealed FROM domains ORDER BY id LIMIT 50)
           UNION ALL (SELECT 'webhook:' || id, secret FROM webhooks ORDER BY id LIMIT 50)`,
  });
}

function opens(key: Buffer, { sealed, context }: Sealed): boolean {
  try {
    open(key, sealed, context);
    return true;
  } catch {
    return false;
  }
}
