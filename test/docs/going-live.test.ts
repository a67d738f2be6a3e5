import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { createEmptyDatabase } from '../cli/empty-database.ts';
import { sendwright } from '../cli/terminal.ts';
import { directEnv } from '../support/direct.ts';
import { startScriptedMx } from '../support/mx.ts';
import { adminPassword, startTestNode, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { makeFolder } from '../support/start.ts';
import { startZone, type Zone } from '../support/zone.ts';
import { isLike } from './comparison.ts';
import { documentOf, repository } from './reading.ts';

const path = 'docs/going-live.md';
const host = 'mail.example.com';
const lists = ['zen.spamhaus.org', 'bl.spamcop.net', 'psbl.surriel.com'];

/** The settings in the document. */
const settings = Object.fromEntries(
  documentOf(path)
    .filter(({ file }) => file !== null)
    .flatMap(({ text }) => text.split('\n'))
    .map((line): [string, string] => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
);

/** What is shown below a comment, as lines. */
function shown(name: string): string[] {
  const text = readFileSync(join(repository, path), 'utf8');
  return new RegExp(`<!-- doctor: ${name} -->\n\`\`\`text\n([^\`]+)\n\`\`\``).exec(text)?.[1]?.split('\n') ?? [];
}

/** The tests' database is not durable, but every reader's is; figures differ between machines. */
const comparable = (lines: string[]) =>
  lines.filter((line) => !/durability|-> Set \w+ = on|^Problems: |^All is well/.test(line));
const pattern = (line: string) =>
  line
    .replaceAll(/\d+\.\d+ (s (ahead of|behind)|GB are free \(\d+ %\))/g, '…')
    .replace('./data', '…')
    .replace(/until [\d-]+/, '…');

/** This machine's output, as it would be on the document's server. */
const elsewhere = (printed: string, port: number, dataDir: string) =>
  printed
    .replaceAll(join(dataDir, 'fullchain.pem'), settings.SMTP_TLS_CERT ?? '')
    .replaceAll(dataDir, './data')
    .replaceAll(`(127.0.0.1)`, '(203.0.113.9)')
    .replaceAll(`127.0.0.1:${port}`, '203.0.113.9:25')
    .replaceAll('127.0.0.1 greets', '203.0.113.9 greets')
    .replaceAll(`:${port}`, ':25')
    .replaceAll('127.0.0.1', '203.0.113.5')
    .split('\n');

/** Whether the last line shown counts the others. */
function sumOf(lines: string[]): string {
  const count = (sign: string) => lines.filter((line) => line.startsWith(sign)).length;
  const [problems, unknown] = [count('PROBLEM'), count('unknown')];
  return problems + unknown === 0 ? 'All is well.' : `Problems: ${problems}, unknown: ${unknown}.`;
}

/** What the document tells readers to publish for the server. */
function publish(zone: Zone): void {
  zone.set(host, { A: ['127.0.0.1'], MX: [[10, host]], TXT: ['v=spf1 ip4:127.0.0.1 -all'] });
  zone.set('1.0.0.127.in-addr.arpa', { PTR: [host] });
}

t.test(`${path}: the doctor before and after, and the steps in between`, async (t) => {
  const zone = await startZone({
    'mx.mailbox.example': { A: ['127.0.0.1'] },
    [`1.0.0.127.${lists[2]}`]: { A: ['127.0.0.2'], TXT: ['Listed in PSBL, see http://psbl.org/listing?ip=127.0.0.1'] },
  });
  t.teardown(() => zone.close());
  for (const list of lists.slice(1)) zone.set(`2.0.0.127.${list}`, { A: ['127.0.0.2'] });
  const mxPort = await freePort();
  const inbound = await freePort();
  // An existing folder: whether the tests' own exists depends on what ran before.
  const dataDir = await makeFolder(t);
  const files = { SMTP_TLS_CERT: join(dataDir, 'fullchain.pem'), SMTP_TLS_KEY: join(dataDir, 'privkey.pem') };
  const { cert, key } = selfSignedCertificate(host);
  writeFileSync(files.SMTP_TLS_CERT, cert);
  writeFileSync(files.SMTP_TLS_KEY, key);
  const env = testEnv(await createEmptyDatabase(), {
    ...directEnv(zone, mxPort),
    DATA_DIR: dataDir,
    MAIL_HOSTNAME: host,
    DNS_BLOCKLISTS: lists.join(','),
    BASE_URL: settings.BASE_URL ?? '',
    INBOUND_SMTP_PORT: String(inbound),
    SMTP_HOST: '127.0.0.1',
    ...files,
  });
  const holds = async (name: string) => {
    const { printed } = await sendwright(env, 'doctor', '--mx', 'mx.mailbox.example');
    const [wanted, found] = [comparable(shown(name)), comparable(elsewhere(printed, mxPort, dataDir))];
    t.equal(found.length, wanted.length, printed);
    for (const [index, line] of wanted.entries())
      t.ok(isLike(pattern(line), found[index] ?? '', new Map()), `${found[index]} is shown as: ${line}`);
    t.equal(shown(name).at(-1), sumOf(shown(name)));
  };
  await holds('before');

  const node = await startTestNode(t, env);
  const mx = await startScriptedMx(
    async (peer) => {
      peer.send('220 mx.mailbox.example ESMTP\r\n');
      await peer.line();
    },
    { port: mxPort },
  );
  t.teardown(() => mx.close());
  publish(zone);
  zone.set(`2.0.0.127.${lists[0]}`, { A: ['127.0.0.2'] });
  zone.set(`1.0.0.127.${lists[2]}`, undefined);
  const login = { email: 'admin@example.test', password: adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const added = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'shop.example.com' } });
  const { dns_records: records, recommended_records: recommended } = added.body;
  for (const { name, value } of [...Object.values(records), recommended[0]]) zone.set(name, { TXT: [value] });
  const verified = await node.call('POST', `/api/v1/domains/${added.body.domain.id}/verify`, { token });
  t.equal(verified.status, 200);
  await holds('after');

  const command = documentOf(path).find(({ text }) => text.startsWith('curl --max-time'))?.text ?? '';
  const asked = command.replace(`${host}:25`, `127.0.0.1:${inbound}`);
  const { stdout } = await promisify(execFile)('bash', ['-c', asked]);
  t.match(stdout, /^< 220 mail\.example\.com /);
});

t.test(`${path}: its settings are variables that a start knows and accepts`, async (t) => {
  const known = readFileSync(join(repository, 'docs/config.md'), 'utf8');
  t.ok(Object.keys(settings).length > 10);
  for (const name of Object.keys(settings)) t.ok(known.includes(`| \`${name}\` |`), name);
  const given = Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, value === '…' ? randomBytes(32).toString('hex') : value]),
  );
  const config = readConfig({ ...given, DATABASE_URL: given.DATABASE_URL?.replace('…', 'secret') });
  t.equal(config.deliveryMode, 'direct');
  t.same(config.sendingIps, ['203.0.113.5']);
});
