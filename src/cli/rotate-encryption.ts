import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config/environment.ts';
import { type Config, readConfig } from '../config.ts';
import { RotationRefused, rotate } from '../core/operations/encryption-key-rotation.ts';
import { type EncryptionKey, type Keyring, keyringOf } from '../crypto/seal.ts';
import { connect, type Database } from '../db/client.ts';
import { migrate, schemaOf } from '../db/migrate.ts';
import { silentLog } from '../log.ts';
import { keyringIn, readSecrets, type Secrets, writeSecrets } from '../process/data-dir.ts';
import { StartError } from '../process/start-error.ts';
import type { Command, Output, Say } from './command.ts';
import { existingSecrets, onEmbedded, refuseUnprepared } from './database.ts';

export const rotateEncryption = {
  help: [
    'Usage: sendwright keys rotate-encryption',
    '',
    'Re-encrypts every secret in the database (DKIM keys, webhook secrets, token keys) with a new key.',
    '',
    'With DATABASE_URL:',
    '  1. Generate a key (openssl rand -hex 32), set it as ENCRYPTION_KEY_NEXT beside ENCRYPTION_KEY on every node,',
    '     and restart them, one after the other.',
    '  2. Run this command with the same two keys. You can interrupt it and run it again at any time.',
    '  3. Set ENCRYPTION_KEY to the new key, remove ENCRYPTION_KEY_NEXT, and restart the nodes, one after the other.',
    '',
    'With the embedded database (if ENCRYPTION_KEY is set, the three steps above are those for it too):',
    '  Stop Sendwright and run this command. If Sendwright must keep running: run it, restart Sendwright, and run it again.',
    '',
    'Backups made before still need the old key: keep it for as long as you keep them.',
  ].join('\n'),
  async run(env, say) {
    const config = readConfig(env);
    if (config.databaseUrl) return rotateExternal(config, config.databaseUrl, say);
    if (config.encryptionKey)
      return withNextStep(await rotateEmbedded(config, await existingSecrets(config), keysOf(config), say));
    return rotateGenerated(config, say);
  },
} satisfies Command;

interface Keys {
  keyring: Keyring;
  next: EncryptionKey;
}

/** The two keys in the environment. */
function keysOf({ encryptionKey, nextEncryptionKey }: Config): Keys {
  if (!encryptionKey || !nextEncryptionKey)
    throw new ConfigError(
      'ENCRYPTION_KEY_NEXT is missing: generate one with openssl rand -hex 32, set it beside ENCRYPTION_KEY on every node, restart them, and run this again with both',
    );
  return { keyring: keyringOf(encryptionKey, nextEncryptionKey), next: keyringOf(nextEncryptionKey, null).first };
}

async function rotateExternal(config: Config, databaseUrl: string, say: Say): Promise<Output> {
  return withNextStep(await rotateIn(databaseUrl, keysOf(config), say));
}

/** With what the operator has to do about keys in the environment. */
function withNextStep({ json, text }: Output): Output {
  const then =
    'Nothing uses the old key any more: on every node set ENCRYPTION_KEY to the new key, remove ENCRYPTION_KEY_NEXT, and restart it. Keep the old key for as long as you keep backups made before.';
  return { json, text: `${text}\n${then}` };
}

/** Of the embedded database, if its key was generated: the key is in `secrets.json`, and only there. */
async function rotateGenerated(config: Config, say: Say): Promise<Output> {
  const { dataDir } = config;
  let secrets = await existingSecrets(config);
  if (secrets.nextEncryptionKey === undefined) {
    secrets = { ...secrets, nextEncryptionKey: randomBytes(32).toString('base64') };
    // Stored before anything is encrypted with it.
    await writeSecrets(dataDir, secrets);
  }
  const { nextEncryptionKey = '' } = secrets;
  const next = keyringOf(Buffer.from(nextEncryptionKey, 'base64'), null).first;
  const { json, text } = await rotateEmbedded(config, secrets, { keyring: keyringIn(secrets), next }, say);
  // Read again: a start may have added its sandbox key meanwhile.
  const { nextEncryptionKey: _, ...others } = await readSecrets(dataDir);
  await writeSecrets(dataDir, { ...others, encryptionKey: nextEncryptionKey });
  return { json, text: `${text}\nNothing uses the old key any more, and secrets.json has only the new one.` };
}

async function rotateEmbedded(config: Config, secrets: Secrets, keys: Keys, say: Say): Promise<Output> {
  return onEmbedded(config, secrets, say, async (url, joined) => {
    if (!joined) await migrate(url);
    return rotateIn(url, keys, say);
  });
}

/** The schema may be in use by running nodes, so this does not migrate it. */
async function demandTables(db: Database): Promise<void> {
  const [row] = await db.query<{ there: boolean }>({ text: `SELECT to_regclass('erasures') IS NOT NULL AS there` });
  if (row?.there) return;
  if ((await schemaOf(db)) === 'none') await refuseUnprepared();
  throw new StartError(
    'the database belongs to an older version of Sendwright: start this version on it once, and run this again',
  );
}

const connections = 3;

async function rotateIn(databaseUrl: string, { keyring, next }: Keys, say: Say): Promise<Output> {
  const db = connect(databaseUrl, silentLog, connections);
  try {
    await demandTables(db);
    const done = await rotate(db, keyring, next, (sealed, all) => say(`  ${sealed} of ${all} re-encrypted`));
    return {
      json: { key_id: next.id, re_encrypted: done },
      text: `Everything is encrypted with the key ${next.id}; ${done} secrets were re-encrypted now.`,
    };
  } catch (error) {
    throw error instanceof RotationRefused ? new StartError(error.message) : error;
  } finally {
    await db.close();
  }
}
