import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { open, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { startErrorOf } from '../../src/db/failure.ts';
import { startNode } from '../../src/node/node.ts';
import { unusableEmbedded } from '../../src/process/data-dir.ts';
import { portError } from '../../src/process/start-error.ts';
import type { Stops } from '../../src/process/stops.ts';
import { createDatabase } from '../support/db.ts';
import { foundationOf, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { firstScreenOf, makeFolder, refusalOf, takePort } from '../support/start.ts';

const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'out.sender.test', DNS_SERVERS: '127.0.0.1:1' };

const noSiblings = { tellName: () => undefined, tell: () => undefined, onNews: () => undefined };

t.test('SENDING_IPS that this machine does not have', async (t) => {
  const env = testEnv(await createDatabase(), { ...direct, DATA_DIR: await makeFolder(t) });
  for (const address of ['192.0.2.9', '2001:db8::9']) {
    t.equal(
      await refusalOf({ ...env, SENDING_IPS: `127.0.0.1,${address}` }),
      `SENDING_IPS: ${address} is not an address of this machine: add it to a network interface, or remove it from the list; behind a NAT leave SENDING_IPS unset`,
    );
  }
  for (const more of [{ SENDING_IPS: '127.0.0.1' }, { SENDING_IPS: '192.0.2.9', ROLES: 'api' }]) {
    await t.resolves(firstScreenOf({ ...env, ...more }), 'one of our own, and a node that sends nothing itself');
  }
});

t.test('an HTTP_HOST that this machine does not have', async (t) => {
  const env = testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t), HTTP_HOST: '192.0.2.1' });
  t.match(
    await refusalOf(env),
    /^cannot listen on HTTP_HOST 192\.0\.2\.1 \(.*\): set it to an address of this machine$/,
  );
  const ports = { INBOUND_SMTP_PORT: String(await freePort()), SUBMISSION_PORT: String(await freePort()) };
  t.match(await refusalOf({ ...env, ...ports }), /^cannot listen on HTTP_HOST 192/, 'which SMTP_HOST is taken from');
});

t.test('ports that other programs listen on are all named at once', async (t) => {
  const env = testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t) });
  const [http, metrics] = [await takePort(t), await takePort(t)];
  const [submission, submissions] = [await takePort(t), await takePort(t)];
  const taken = { HTTP_PORT: http, SUBMISSION_PORT: submission, SUBMISSIONS_PORT: submissions, METRICS_PORT: metrics };
  t.equal(
    await refusalOf({ ...env, ...taken }),
    `SUBMISSION_PORT ${submission}, SUBMISSIONS_PORT ${submissions}, HTTP_PORT ${http} and METRICS_PORT ${metrics} are in use by other programs: stop them, or set these variables to free ports`,
  );
  const config = readConfig({ ...env, METRICS_PORT: metrics });
  const port = { name: 'METRICS_PORT', port: Number(metrics) };
  const message = `METRICS_PORT ${metrics} is in use by another program: stop it, or set METRICS_PORT to a free one`;
  await t.rejects(startNode(config, foundationOf(config)), { message }, 'before anything is sent');
  const worker = { ...foundationOf(config), siblings: noSiblings, taken: [port] };
  await t.rejects(startNode(config, worker), { message }, 'nor by the workers of such a process');
});

t.test('a node that is ended while it opens its ports leaves none of them open', async (t) => {
  const folder = await makeFolder(t);
  const port = await freePort();
  const files = { SMTP_TLS_CERT: join(folder, 'cert.pipe'), SMTP_TLS_KEY: join(folder, 'key.pem') };
  const { cert, key } = selfSignedCertificate('mail.sendwright.test');
  execFileSync('mkfifo', [files.SMTP_TLS_CERT]);
  await writeFile(files.SMTP_TLS_KEY, key);
  const env = testEnv(await createDatabase(), { ...files, DATA_DIR: folder, SUBMISSION_PORT: String(port) });
  const config = readConfig(env);
  const stops: Stops = [];
  const starting = startNode(config, foundationOf(config), stops);
  // Opened once the node reads it.
  const pipe = await open(files.SMTP_TLS_CERT, 'w');
  const stopped = stops[0]?.();
  await pipe.writeFile(cert);
  await pipe.close();
  await t.rejects(starting, /ended during its start/);
  await stopped;
  await t.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' });
});

t.test('a port for which the user has no right', async (t) => {
  // Not tried: containers often let everybody listen on all ports, and root may.
  const error = Object.assign(new Error('listen EACCES: permission denied 0.0.0.0:80'), { code: 'EACCES' });
  t.equal(
    portError({ port: 'HTTP_PORT', host: 'HTTP_HOST' }, { port: 80, host: null }, error).message,
    'HTTP_PORT 80 needs privileges that this user does not have: set HTTP_PORT to 1024 or more',
  );
});

t.test('words of another program become one line', async (t) => {
  const words = 'the server did not start:\n\tFATAL:  out of memory\n\n  HINT:  there is none \n';
  t.equal(
    unusableEmbedded('/data', new Error(words)).message,
    'the server did not start: FATAL:  out of memory HINT:  there is none',
  );
});

t.test('a limit of open files that is too low', async (t) => {
  const limit = /^too many files are open \(EMFILE\): raise the limit to 1024 or more, with ulimit -n, .* Docker$/;
  const error = Object.assign(new Error('open EMFILE'), { code: 'EMFILE', syscall: 'open' });
  t.match(startErrorOf(error)?.message, limit, 'a file of ours');
  t.match(startErrorOf(new Error('the query failed', { cause: error }), true)?.message, limit, 'the database');
  t.match(unusableEmbedded('/data', error).message, limit, 'DATA_DIR');
  const names = { port: 'HTTP_PORT', host: 'HTTP_HOST' };
  t.match(portError(names, { port: 3_000, host: null }, error).message, limit, 'a port');
});
