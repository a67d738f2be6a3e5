import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../../support/node.ts';
import { answersAt, freePort } from '../../support/ports.ts';
import { postfix } from '../../support/receivers.ts';
import { complaintsOf, fillIn, makeKey, untilEmpty } from './peers.ts';
import { siteName } from './recipe.ts';
import { sinkHosts } from './sink.ts';
import type { System } from './system.ts';
import { verifySignatures } from './verification.ts';

/** The peer: Postfix with OpenDKIM, started only for this run, with its own queue, configuration and ports. */

const opendkim = '/usr/sbin/opendkim';
const domain = 'peer.test';
const concurrency = 20;

export interface PostfixOptions {
  /** Its queue's folder: on the file system of PostgreSQL's data. */
  folder: string;
  sinkPort: number;
  sites: number;
  /** Simultaneous sessions to it. */
  sessions: number;
}

/** Why the peer cannot be measured here; null: it can. */
export function noPostfix(): string | null {
  if (!existsSync(postfix)) return 'Postfix is not installed (apt-get install postfix)';
  if (!existsSync(opendkim)) return 'OpenDKIM is not installed (apt-get install --no-install-recommends opendkim)';
  if (process.getuid?.() !== 0) return 'Postfix can only be started as root';
  return null;
}

export async function startBenchedPostfix(options: PostfixOptions): Promise<System> {
  const home = await mkdtemp(join(options.folder, 'sendwright-postfix-'));
  const port = await freePort();
  const key = await layOut(home, options, port);
  const signer = spawn(opendkim, ['-f', '-x', join(home, 'milter/opendkim.conf')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const complaints = complaintsOf(signer);
  await eventually(async () => existsSync(join(home, 'milter/socket'))).catch(async () => {
    signer.kill();
    await rm(home, { recursive: true, force: true });
    throw new Error(`OpenDKIM did not start: ${complaints()}`);
  });
  const control = (order: string) => spawnSync(postfix, ['-c', join(home, 'conf'), order], { encoding: 'utf8' });
  const stop = async () => {
    control('stop');
    signer.kill();
    await rm(home, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    const { status, stderr } = control('start');
    if (status !== 0) throw new Error(`Postfix did not start: ${stderr}`);
    await eventually(() => answersAt('127.0.0.1', port));
  } catch (error) {
    await stop();
    throw error;
  }
  const master = Number(await readFile(join(home, 'spool/pid/master.pid'), 'utf8'));

  return {
    name: 'Postfix + OpenDKIM',
    from: `orders@${domain}`,
    target: () => ({ host: '127.0.0.1', port, key: null, startTls: false }),
    server: { roots: [master, signer.pid ?? 0], except: [] },
    database: null,
    settle: () => untilEmpty('Postfix', join(home, 'spool/{incoming,active,deferred}/**/[0-9A-F]*')),
    audit: (recipe, kept) =>
      verifySignatures(recipe, kept, (name) => (name === `bench._domainkey.${domain}` ? key : null)),
    stop,
  };
}

/** Creates the folders and fills in the templates; returns the public half of the key, as in DNS. */
async function layOut(home: string, options: PostfixOptions, port: number): Promise<string> {
  await chmod(home, 0o755);
  for (const folder of ['conf', 'spool', 'data', 'milter']) await mkdir(join(home, folder));
  const postfixUser = Number(spawnSync('id', ['-u', 'postfix'], { encoding: 'utf8' }).stdout);
  await chown(join(home, 'data'), postfixUser, 0);
  const { pem, record } = makeKey();
  await writeFile(join(home, 'milter/key.pem'), pem);
  for (const owned of ['milter', 'milter/key.pem']) await chown(join(home, owned), postfixUser, 0);

  const sinks = [false, true].map((tls) => `[${tls ? sinkHosts.tls : sinkHosts.plain}]:${options.sinkPort}`);
  const transports = sinks.flatMap((nexthop, tls) =>
    Array.from({ length: options.sites }, (_, site) => `{ .${siteName(tls === 1, site)} = smtp:${nexthop} }`),
  );
  const values = {
    HOME: home,
    PREFIX: options.folder,
    PORT: port,
    SESSIONS: options.sessions + 5,
    CONCURRENCY: concurrency,
    TRANSPORTS: transports.join(', '),
    TLSHOST: sinkHosts.tls,
    DOMAIN: domain,
  };
  await fillIn('postfix/main.cf', join(home, 'conf/main.cf'), values);
  await fillIn('postfix/master.cf', join(home, 'conf/master.cf'), values);
  await fillIn('postfix/opendkim.conf', join(home, 'milter/opendkim.conf'), values);
  return record;
}
