import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { lookingAtMachine } from '../../src/chores/machine.ts';
import { createAuthority } from '../support/authority.ts';
import { openDatabase } from '../support/db.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { makeFolder } from '../support/start.ts';

const hourMs = 3_600_000;
const begun = Date.now();

interface Line {
  level: number;
  check: string;
  found: string;
  advice?: string;
  msg: string;
}

t.test('what is wrong with the machine is in the log at once, then once a day, and when it is over', async (t) => {
  const db = await openDatabase(t);
  const folder = await makeFolder(t);
  const smtpCertificate = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const authority = createAuthority();
  const certify = async (to: number) => {
    const { cert, key } = authority.issue(['mx.test'], { to: new Date(begun + to) });
    await Promise.all([writeFile(smtpCertificate.cert, cert), writeFile(smtpCertificate.key, key)]);
  };
  let said: Line[] = [];
  const log = pino({ base: null }, { write: (line: string) => said.push(JSON.parse(line)) });
  let now = 0;
  const look = lookingAtMachine(db, { dataDir: '.', embedded: false, smtpCertificate }, log, () => now);
  const heard = async () => {
    said = [];
    await look();
    // The tests' own disk may be a small one.
    return said.filter(({ check }) => check !== 'disk_space').map(({ level, check, found }) => [level, check, found]);
  };
  const day = (at: number) => new Date(begun + at).toISOString().slice(0, 10);
  const valid = 20 * 24 * hourMs;

  await certify(valid);
  t.strictSame(await heard(), [], 'nothing is said while nothing is wrong');
  await certify(hourMs);
  const expires = [40, 'smtp_certificate', `It expires on ${day(hourMs)}.`];
  t.strictSame(await heard(), [expires]);
  t.match(said.find(({ check }) => check === 'smtp_certificate')?.advice, /^Renew it/);
  for (now = hourMs; now < 24 * hourMs; now += hourMs) t.strictSame(await heard(), []);
  t.strictSame(await heard(), [expires], 'a day later');
  await rm(smtpCertificate.cert);
  t.strictSame(await heard(), [], 'it is still the same check that fails');
  await certify(valid);
  t.strictSame(await heard(), [[30, 'smtp_certificate', `It is valid until ${day(valid)}.`]]);
  t.strictSame(await heard(), []);
  await certify(hourMs);
  t.strictSame(await heard(), [expires], 'and when it comes again');
});

t.test('a node looks at its machine by itself', async (t) => {
  const folder = await makeFolder(t);
  const files = { SMTP_TLS_CERT: join(folder, 'cert.pem'), SMTP_TLS_KEY: join(folder, 'key.pem') };
  const { cert, key } = createAuthority().issue(['mx.test'], { to: new Date(begun + hourMs) });
  await Promise.all([writeFile(files.SMTP_TLS_CERT, cert), writeFile(files.SMTP_TLS_KEY, key)]);
  const said: Line[] = [];
  const log = pino({ base: null }, { write: (line: string) => said.push(JSON.parse(line)) });
  await startTestNode(t, { ...files, ROLES: 'smtp', INBOUND_SMTP_PORT: String(await freePort()) }, { log });
  t.match(await eventually(async () => said.find(({ check }) => check === 'smtp_certificate')), {
    found: /^It expires on /,
    msg: 'something is wrong with this machine: see sendwright doctor',
  });
});
