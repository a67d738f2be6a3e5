import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../src/config.ts';
import { hashPassword } from '../../src/crypto/password.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { startEmbedded } from '../../src/db/embedded.ts';
import { silentLog } from '../../src/log.ts';
import { startNode } from '../../src/node/node.ts';
import { buildAccount, builtPassword } from '../support/build.ts';
import { asked, onlyNumber } from '../support/command-line.ts';
import { call, testEnv } from '../support/node.ts';

/*
 * AUTH-07: does the time of a refused login reveal whether the user exists? Tries a wrong password for an existing user
 * and for some that do not exist, in turn, and compares the medians: `npm run -s login-times -- [tries]`.
 */

const tries = asked(
  'npm run login-times [-- tries]: whether the time of a refused login reveals that the user exists (200 tries)',
  (args) => onlyNumber(args, 200),
);
const most = 0.1;

const dataDir = await mkdtemp(join(tmpdir(), 'sendwright-login-'));
await chmod(dataDir, 0o755);
const postgres = await startEmbedded({ dataDir, password: 'bench', log: silentLog });
const config = readConfig(testEnv(postgres.url, { ROLES: 'api' }));
const node = await startNode(config, {
  databaseUrl: postgres.url,
  alone: true,
  jwtSecret: config.jwtSecret ?? '',
  keyring: new Keyring(config.encryptionKey ?? Buffer.alloc(0)),
  log: silentLog,
});
const { email } = await buildAccount(node.db, await hashPassword(builtPassword));

const times = { known: [] as number[], unknown: [] as number[] };
for (let n = -10; n < tries; n += 1) {
  for (const kind of n % 2 ? (['known', 'unknown'] as const) : (['unknown', 'known'] as const)) {
    await node.db.prisma.loginFailure.deleteMany();
    const body = { email: kind === 'known' ? email : `${n + 10}@nobody.test`, password: 'wrong' };
    const began = performance.now();
    const { status } = await call(node.baseUrl, 'POST', '/api/v1/auth/login', { body });
    if (status !== 401) throw new Error(`a login was answered with ${status}`);
    // The first ones warm it up.
    if (n >= 0) times[kind].push(performance.now() - began);
  }
}

const median = (all: number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
const [known, unknown] = [median(times.known), median(times.unknown)];
const difference = Math.abs(known - unknown) / Math.max(known, unknown);
console.log(
  `${tries} tries each: ${known.toFixed(1)} ms for an existing user, ${unknown.toFixed(1)} ms for one that does not exist: ${(difference * 100).toFixed(1)} % apart (at most ${most * 100} %)`,
);

await node.stop();
await postgres.stop();
await rm(dataDir, { recursive: true, force: true });
process.exit(difference > most ? 1 : 0);
