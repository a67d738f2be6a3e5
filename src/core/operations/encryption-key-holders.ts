import { hostname } from 'node:os';
import type { Keyring } from '../../crypto/seal.ts';
import type { Database, Sql } from '../../db/client.ts';
import { newId } from '../../ids.ts';
import type { Logger } from '../../log.ts';
import { Trouble } from '../../trouble.ts';
import { type Admission, admit } from '../secrets/encryption-key.ts';

const everyMs = 10_000;

/** A process not seen for this long is taken to have ended; if it comes back later, its log says so. */
const goneAfterMs = 60_000;

/** The entry of a process in the list of key holders; `stop` removes it. */
export interface Holding {
  admission: Admission;
  stop(): Promise<void>;
}

/**
 * Checks whether this process may work with the database. If so, adds it to the list of key holders: from then on no key
 * that it does not know starts to seal.
 */
export async function hold(db: Database, keyring: Keyring, log: Logger): Promise<Holding> {
  const id = newId();
  const admission = await db.transaction(async (tx) => {
    const answer = await admit(tx, keyring);
    if (answer === 'admitted') await updateEntry(tx, id, keyring);
    return answer;
  });
  if (admission !== 'admitted') return { admission, stop: async () => {} };
  const trouble = new Trouble(log, { failing: 'the list of encryption keys could not be kept up' });
  let checkingIn: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    checkingIn = checkIn(db, id, keyring, log).then(
      () => trouble.worked(),
      (error: Error) => trouble.failed(error),
    );
  }, everyMs);
  timer.unref();
  return {
    admission,
    async stop() {
      clearInterval(timer);
      await checkingIn;
      await db.query({ text: 'DELETE FROM key_holders WHERE id = $1', values: [id] });
    },
  };
}

/** The machine names of the running processes that do not know this key. */
export async function strangersTo(tx: Sql, keyId: string): Promise<string[]> {
  const rows = await tx.query<{ hostname: string }>({
    text: `SELECT hostname FROM key_holders
            WHERE seen_at > now() - make_interval(secs => $2) AND NOT $1 = ANY(key_ids) ORDER BY hostname, id`,
    values: [keyId, goneAfterMs / 1_000],
  });
  return rows.map((row) => row.hostname);
}

async function checkIn(db: Database, id: string, keyring: Keyring, log: Logger): Promise<void> {
  const keyIds = await updateEntry(db, id, keyring);
  const unknown = keyIds.filter((keyId) => !keyring.find(keyId));
  if (unknown.length > 0)
    log.error(
      { unknown },
      'secrets are sealed with a key that this process does not know: restart it with ENCRYPTION_KEY_NEXT',
    );
}

/** @returns the keys that are in use */
async function updateEntry(tx: Sql, id: string, keyring: Keyring): Promise<string[]> {
  await tx.query({
    text: `INSERT INTO key_holders (id, hostname, key_ids) VALUES ($1, $2, $3)
           ON CONFLICT (id) DO UPDATE SET seen_at = now()`,
    values: [id, hostname(), keyring.ids],
  });
  await tx.query({ text: `DELETE FROM key_holders WHERE seen_at < now() - interval '1 day'` });
  const [row] = await tx.query<{ ids: (string | null)[] }>({
    text: 'SELECT ARRAY[key_id, retiring_key_id] AS ids FROM encryption_check',
  });
  return (row?.ids ?? []).filter((keyId) => keyId !== null);
}
