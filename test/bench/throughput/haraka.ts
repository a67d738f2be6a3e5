import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { eventually } from '../../support/node.ts';
import { answersAt, freePort } from '../../support/ports.ts';
import { complaintsOf, fillIn, makeKey, untilEmpty } from './peers.ts';
import { sinkHosts } from './sink.ts';
import type { System } from './system.ts';
import { verifySignatures } from './verification.ts';

/** The second peer: Haraka with its DKIM plugin, a process per processor and one above them, only for this run. */

const domain = 'haraka.test';

/**
 * Per process. With the total of 20 that others get, it delivers three fifths as much: each message takes 40 ms to
 * leave.
 */
const connectionsOut = 50;

/** Submission sessions, for the same reason. */
export const usualSessions = 60;

export interface HarakaOptions {
  /** The folder whose node_modules have Haraka and haraka-plugin-dkim. */
  haraka: string;
  /** Its queue's folder: on the file system of PostgreSQL's data. */
  folder: string;
  sinkPort: number;
}

/** Why it cannot be measured; null: it can. */
export function noHaraka(folder: string): string | null {
  const missing = ['Haraka', 'haraka-plugin-dkim'].filter((name) => !existsSync(join(folder, 'node_modules', name)));
  return missing.length === 0 ? null : `${folder}/node_modules has no ${missing.join(' and no ')}`;
}

export async function startBenchedHaraka({ haraka, folder, sinkPort }: HarakaOptions): Promise<System> {
  const home = await mkdtemp(join(folder, 'sendwright-haraka-'));
  const port = await freePort();
  const installed = join(resolve(haraka), 'node_modules/Haraka');
  const record = await layOut(home, { port, sinkPort, installed }).catch(async (error) => {
    await rm(home, { recursive: true, force: true });
    throw error;
  });
  const child = spawn(process.execPath, [join(installed, 'bin/haraka'), '-c', home], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log = createWriteStream(join(home, 'log'));
  child.stdout.pipe(log);
  const complaints = complaintsOf(child);
  const left = once(child, 'exit');
  const stop = async () => {
    child.kill();
    const hard = setTimeout(() => child.kill('SIGKILL'), 40_000);
    await left;
    clearTimeout(hard);
    await rm(home, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await Promise.race([
      eventually(() => answersAt('127.0.0.1', port), 30_000),
      left.then(() => Promise.reject(new Error('it ended'))),
    ]);
  } catch (error) {
    await stop();
    throw new Error(`Haraka did not start (${(error as Error).message}): ${complaints()}`);
  }

  return {
    name: `Haraka, ${availableParallelism()} processes`,
    from: `orders@${domain}`,
    target: () => ({ host: '127.0.0.1', port, key: null, startTls: false }),
    server: { roots: [child.pid ?? 0], except: [] },
    database: null,
    settle: () => untilEmpty('Haraka', join(home, 'queue/*')),
    audit: (recipe, kept) =>
      verifySignatures(recipe, kept, (name) => (name === `bench._domainkey.${domain}` ? record : null)),
    stop,
  };
}

/** Creates the folders and fills in the templates; returns the public half of the key, as in DNS. */
async function layOut(
  home: string,
  { port, sinkPort, installed }: { port: number; sinkPort: number; installed: string },
): Promise<string> {
  const { pem, record } = makeKey();
  for (const each of ['config', 'plugins', 'queue']) await mkdir(join(home, each));
  const values = {
    ...{ PORT: port, NODES: availableParallelism(), CONCURRENCY: connectionsOut, DOMAIN: domain },
    ...{ SINKPORT: sinkPort, PLAINHOST: sinkHosts.plain, TLSHOST: sinkHosts.tls },
  };
  for (const name of ['smtp.ini', 'outbound.ini', 'log.ini', 'dkim.ini'])
    await fillIn(`haraka/${name}`, join(home, 'config', name), values);
  await fillIn('haraka/relay.cjs', join(home, 'plugins/relay.js'), values);
  await writeFile(join(home, 'config/plugins'), 'relay\ndkim\n');
  await writeFile(join(home, 'config/me'), 'out.sender.test\n');
  await writeFile(join(home, 'config/dkim.private.key'), pem);
  await copyFile(join(installed, 'config/connection.ini'), join(home, 'config/connection.ini'));
  return record;
}
