import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import * as domains from '../../src/core/domains/domains.ts';
import { examine, examineMachine, isWell, type Patient } from '../../src/core/operations/doctor.ts';
import { checkBaseUrl, checkCertificate, checkClock } from '../../src/core/operations/doctor-machine.ts';
import { checkEhloNames, checkReverse } from '../../src/core/operations/doctor-names.ts';
import { checkNames, type Finding } from '../../src/core/operations/finding.ts';
import { type CertificateFiles, certify, forHosts, selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { connect } from '../../src/db/client.ts';
import { listPartitions } from '../../src/db/partitions.ts';
import { silentLog } from '../../src/log.ts';
import { createResolver, resolveWith } from '../../src/smtp/dns/resolver.ts';
import { buildAccount, buildSender, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { startScriptedMx } from '../support/mx.ts';
import { packet, startRawDns } from '../support/raw-dns.ts';
import { makeFolder, makeRole, urlFor } from '../support/start.ts';
import { startZone, type ZoneEntry } from '../support/zone.ts';

const ip = '127.0.0.1';
const host = 'out.sender.test';
const reverse = '1.0.0.127.in-addr.arpa';
const key = testKey(3);

async function certificateFiles(pem: { cert: string; key: string }): Promise<CertificateFiles> {
  const folder = await makeFolder(t);
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await Promise.all([writeFile(files.cert, pem.cert), writeFile(files.key, pem.key)]);
  return files;
}

/** A server in a small internet where everything is right. */
async function healthyServer() {
  const db = await openDatabase(t);
  const smtpCertificate = await certificateFiles(selfSignedCertificate(host));
  const sender = await buildSender(db, key);
  const zone = await startZone();
  t.teardown(() => zone.close());
  const signed = await startZone();
  signed.sign();
  t.teardown(() => signed.close());
  const mx = await startScriptedMx(async (peer) => {
    peer.send('220 mx.sender.test \x07ready\r\n');
    await peer.line();
  });
  t.teardown(() => mx.close());
  const domain = await domains.get(db, sender.account.id, sender.domainId);
  const { verification, dkim } = domains.dnsRecords(domain, host, []);
  const right: Record<string, ZoneEntry> = {
    [host]: { A: [ip], MX: [[10, host]], TXT: [`v=spf1 ip4:${ip} -all`] },
    [reverse]: { PTR: [host] },
    [sender.domain]: { MX: [[10, 'mx.sender.test']], TXT: [`v=spf1 include:${host} -all`] },
    [verification.name]: { TXT: [verification.value] },
    [dkim.name]: { TXT: [dkim.value] },
    [`_dmarc.${sender.domain}`]: { TXT: ['v=DMARC1; p=none'] },
    'mx.sender.test': { A: [ip] },
    '2.0.0.127.bl.test': { A: ['127.0.0.2'] },
  };
  for (const [name, entry] of Object.entries(right)) zone.set(name, entry);
  const patient: Patient = {
    db,
    surroundings: {
      resolve: resolveWith(zone.resolver),
      mailHostname: host,
      ehloNames: new Map(),
      sendingIps: [ip],
      keyring: new Keyring(key),
    },
    lookUp: { resolver: zone.resolver, ownHosts: [host], ownAddresses: [ip], allowPrivate: true },
    installation: {
      deliveryMode: 'direct',
      baseUrl: 'https://send.sender.test',
      dataDir: '.',
      embedded: false,
      mxPort: mx.port,
      blocklists: ['bl.test'],
      daneResolver: signed.address,
      smtpCertificate,
    },
  };
  return { db, zone, right, patient, domain: sender.domain, mx, dkim: dkim.name };
}

const shown = (findings: Finding[]) =>
  findings
    .filter(({ health }) => health !== 'ok')
    .map((one) => `${one.check} ${one.health}: ${one.found} ${one.advice}`);

/** Without the checks that the tests' own database server cannot pass. */
const ofNames = (findings: Finding[]) =>
  findings.filter(({ check }) => check !== 'database_durability' && check !== 'disk_space');

t.test('the doctor finds everything that is wrong, and says what to do about it', async (t) => {
  const { zone, right, patient, domain, mx, dkim } = await healthyServer();
  const found = await examine(patient, null);
  t.strictSame(shown(ofNames(found)), []);
  t.ok(isWell(ofNames(found)));
  const looked = new Set(found.map(({ check }) => check));
  t.strictSame(
    checkNames.filter((name) => !looked.has(name)),
    ['delivery_mode'],
  );
  const at = found.find(({ check }) => check === 'outbound_port_25');
  t.match(at, { subject: `mx.sender.test:${mx.port} from ${ip}`, found: `${ip} greets with 220 mx.sender.test ready` });
  for (const one of found)
    t.equal(one.advice === null, one.health === 'ok', 'advice only where there is something to do');

  const cases: [name: string, entry: ZoneEntry | undefined, expected: RegExp][] = [
    [reverse, undefined, /^reverse_dns problem: .*no name .*set its PTR record to out\.sender\.test/],
    [reverse, { PTR: ['other.test'] }, /^reverse_dns problem: .*other\.test, which does not resolve back/],
    [reverse, 'SERVFAIL', /^reverse_dns unknown/],
    [
      host,
      { MX: [[10, host]], TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
      /^mail_hostname problem: .*has no address.* 127\.0\.0\.1/,
    ],
    [
      host,
      { A: ['192.0.2.9'], MX: [[10, host]], TXT: ['v=spf1 +all'] },
      /^mail_hostname problem: It has 192\.0\.2\.9\. Add 127/,
    ],
    [host, { A: [ip], TXT: [`v=spf1 ip4:${ip} -all`] }, /^return_path problem: .*no MX record/],
    [host, { A: [ip], MX: [[10, host]] }, /^return_path problem: SPF answers none .*v=spf1 ip4:127\.0\.0\.1 -all/],
    ['1.0.0.127.bl.test', { A: ['127.0.0.3'], TXT: ['why'] }, /^blocklist problem: It is listed \(127\.0\.0\.3\): why/],
    ['2.0.0.127.bl.test', { A: ['127.255.255.254'] }, /^blocklist unknown: .*refuses queries/],
    [domain, { MX: [[10, 'mx.sender.test']] }, /^domain problem: .*no TXT record at/],
    [dkim, 'SERVFAIL', /^domain unknown: .*failed temporarily/],
    [`_dmarc.${domain}`, undefined, /^dmarc problem: There is no policy.*v=DMARC1; p=none/],
    [`_dmarc.${domain}`, { TXT: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] }, /^dmarc problem: .*more than one policy/],
    [`_dmarc.${domain}`, { TXT: ['v=DMARC1; rua=mailto:a@b.test'] }, /^dmarc problem: .*no valid p=/],
    [
      domain,
      { MX: [[0, '.']], TXT: [`v=spf1 include:${host} -all`] },
      /^outbound_port_25 unknown: None of your domains/,
    ],
    ['mx.sender.test', undefined, /^outbound_port_25 unknown: .*has no address/],
  ];
  for (const [name, entry, expected] of cases) {
    zone.set(name, entry);
    t.ok(
      shown(ofNames(await examine(patient, null))).some((line) => expected.test(line)),
      String(expected),
    );
    zone.set(name, right[name]);
  }

  // As the domain that the sandbox has made, once its database goes to the internet.
  for (const name of [domain, dkim, `_sendwright.${domain}`, `_dmarc.${domain}`]) zone.set(name, undefined);
  const ofDomain = (await examine(patient, 'mx.sender.test')).filter(({ subject }) => subject.endsWith(domain));
  t.match(shown(ofDomain), [/^domain problem: It is a name for tests, .* Delete it on the dashboard/]);
  t.equal(ofDomain.length, 1, 'and not a record to publish');
});

t.test('domains that are not verified yet are listed, and are no problem if others can send', async (t) => {
  const { db, patient, domain } = await healthyServer();
  const options = { keyring: new Keyring(key) };
  const [one, other] = [await buildAccount(db), await buildAccount(db)];
  // The second account adds the same name, and a name that another account has verified.
  for (const [account, name] of [
    [one, 'p2.test'],
    [other, 'p2.test'],
    [other, domain],
  ] as const)
    await domains.add(db, account.id, { domain: name }, options.keyring);
  const ofDomains = (findings: Finding[]) => shown(findings.filter(({ check }) => check === 'domain'));
  const words =
    'It is not verified yet: no mail can be sent from it. Publish its DNS records: sendwright domains check p2.test shows which are missing. Or delete the domain.';
  const found = await examine(patient, null);
  t.strictSame(ofDomains(found), [`domain note: ${words}`]);
  t.equal(found.find(({ health }) => health === 'note')?.subject, 'p2.test');
  t.ok(isWell(ofNames(found)));

  await db.prisma.domain.deleteMany({ where: { status: 'verified' } });
  await db.prisma.domain.deleteMany({ where: { domain } });
  const nobodySends = await examine(patient, 'mx.sender.test');
  t.strictSame(ofDomains(nobodySends), [`domain problem: ${words}`]);
  t.notOk(isWell(ofNames(nobodySends)));

  for (let n = 0; n < 20; n += 1) await buildVerifiedDomain(db, one.id, key, `q${n}.test`);
  await db.query({ text: `UPDATE domains SET status = 'pending', verified_at = NULL WHERE domain LIKE 'q%.test'` });
  const many = await examine(patient, 'mx.sender.test');
  const subjects = many.filter(({ check }) => check === 'domain').map(({ subject }) => subject);
  t.strictSame([subjects.length, subjects[0], subjects.at(-1)], [21, 'q19.test', 'the others']);

  // More verified domains than the doctor looks up. The service checks the others daily.
  await db.query({ text: `UPDATE domains SET status = 'verified' WHERE account_id = $1`, values: [one.id] });
  const about = async (name: string) =>
    (await examine(patient, 'mx.sender.test')).find(({ subject }) => subject === name);
  t.match(await about('the others'), { check: 'domain', health: 'note', found: /^Only the 20 newest domains were/ });
  t.equal(await about('p2.test'), undefined);
  const warning = 'spf: no TXT record at p2.test';
  await db.query({ text: `UPDATE domains SET dns_warning = $1 WHERE domain = 'p2.test'`, values: [warning] });
  t.match(await about('p2.test'), { health: 'problem', found: `The last daily check found: ${warning}.` });
});

t.test('port 25 is tried at the named host, and at no other', async (t) => {
  const { zone, patient, mx } = await healthyServer();
  zone.set('given.test', { A: [ip] });
  const port = async (one: Patient) =>
    (await examine(one, 'given.test')).filter(({ check }) => check === 'outbound_port_25');
  t.match(await port(patient), [{ health: 'ok', subject: `given.test:${mx.port} from ${ip}` }]);
  t.notOk(
    zone.queries.some((query) => query.startsWith('mx ') && !query.includes(host)),
    'no domain was asked for its MX',
  );
  const closed = { ...patient, installation: { ...patient.installation, mxPort: 1 } };
  t.match(await port(closed), [{ health: 'problem', found: /could not be reached/, advice: /open outbound port 25/ }]);
  const walled = { ...patient, lookUp: { ...patient.lookUp, allowPrivate: false, ownAddresses: [] } };
  t.match(await port(walled), [{ health: 'unknown', found: /only addresses by which a machine reaches itself/ }]);
  t.match(await port(walled), [{ advice: 'Name another MX host to test.' }]);
  const inTerminal = await examine(walled, 'given.test', { namedWith: 'with --mx' });
  t.match(
    inTerminal.filter(({ check }) => check === 'outbound_port_25'),
    [{ advice: 'Name another MX host to test with --mx.' }],
  );
});

t.test('a resolver for DANE that is dead, or does not validate, is found', async (t) => {
  const { zone, patient } = await healthyServer();
  const lookedAt = async (daneResolver: string | null) =>
    (await examine({ ...patient, installation: { ...patient.installation, daneResolver } }, null)).filter(
      ({ check }) => check === 'dane_resolver',
    );
  t.strictSame(await lookedAt(null), [], 'nothing is asked where DANE is not used');
  t.match(await lookedAt(zone.address), [{ health: 'problem', found: /does not say .* so DANE is not used/ }]);
  t.match(await lookedAt('127.0.0.1:1'), [{ health: 'problem', found: /^The name server could not .* so mail waits/ }]);
});

t.test('the doctor finishes, whatever does not answer', async (t) => {
  const { zone, right, patient } = await healthyServer();
  for (const name of [...Object.keys(right), '1.0.0.127.bl.test']) zone.set(name, 'drop');
  const healthy = (found: Finding[]) => found.filter(({ health }) => health === 'ok').map(({ check }) => check);
  let found: Finding[] = [];
  // It finishes however short the time is; checks without a name server may need more time on a busy machine.
  for (let withinMs = 200; withinMs < 4_000 && healthy(found).length < 5; withinMs *= 2)
    found = ofNames(await examine(patient, null, { withinMs }));
  t.notOk(isWell(found), 'what could not be checked is not well');
  t.strictSame(
    found.filter(({ found }) => /no answer within/.test(found)).map(({ check }) => check),
    ['domain', 'outbound_port_25', 'mail_hostname', 'reverse_dns', 'blocklist', 'return_path'],
  );
  t.strictSame(healthy(found), ['clock', 'database_rights', 'dane_resolver', 'base_url', 'smtp_certificate']);
});

t.test('many sending addresses are checked in parallel, however slow the name server is', async (t) => {
  const { zone, patient } = await healthyServer();
  const sendingIps = Array.from({ length: 10 }, (_, n) => `192.0.2.${n + 1}`);
  const many = { ...patient, surroundings: { ...patient.surroundings, sendingIps } };
  // One after another they would take at least ten times as long as an answer. A slow machine needs slower ones to show it.
  let subjects: string[] = [];
  for (let slowMs = 300; slowMs < 6_000 && subjects.length < sendingIps.length; slowMs *= 2) {
    zone.delay(slowMs);
    const found = await examine(many, null, { withinMs: 8 * slowMs });
    subjects = found
      .filter(({ check, health }) => check === 'return_path' && health === 'problem')
      .map(({ subject }) => subject);
  }
  t.match(
    subjects,
    sendingIps.map((one) => `${host} from ${one}`),
  );
});

t.test('behind a NAT the addresses of our name count, and in the sandbox there is one thing to do', async (t) => {
  const { patient } = await healthyServer();
  const { surroundings, installation } = patient;
  const behind = await examine({ ...patient, surroundings: { ...surroundings, sendingIps: [] } }, null);
  t.match(
    behind.find(({ check }) => check === 'mail_hostname'),
    { health: 'unknown', advice: /behind a NAT/ },
  );
  t.match(
    behind.find(({ check }) => check === 'reverse_dns'),
    { health: 'ok', subject: ip },
  );
  const sandbox = await examine({ ...patient, installation: { ...installation, deliveryMode: 'sandbox' } }, null);
  t.match(sandbox[0], { check: 'delivery_mode', health: 'problem', advice: /DELIVERY_MODE=direct/ });
  t.notOk(isWell(sandbox));
});

t.test('an address with an EHLO name of its own is checked against that name', async (t) => {
  const { zone, right, patient } = await healthyServer();
  const [other, second] = ['127.0.0.9', 'second.sender.test'];
  const reverseOfOther = '9.0.0.127.in-addr.arpa';
  const surroundings = { ...patient.surroundings, sendingIps: [ip, other], ehloNames: new Map([[other, second]]) };
  const said = async () =>
    shown(await examine({ ...patient, surroundings }, null)).filter((line) =>
      /^(mail_hostname|reverse_dns)/.test(line),
    );
  t.strictSame(await said(), [
    'mail_hostname problem: The name has no address. Publish an A or AAAA record at second.sender.test with 127.0.0.9.',
    'reverse_dns problem: The address has no name (PTR record). Ask the provider of the address to set its PTR record to second.sender.test.',
  ]);
  zone.set(second, { A: [ip] });
  t.match(await said(), [
    /^mail_hostname problem: It has 127\.0\.0\.1\. Add 127\.0\.0\.9 to the A and AAAA records of second\.sender\.test/,
  ]);
  zone.set(second, { A: [other] });
  zone.set(reverseOfOther, { PTR: ['Second.Sender.Test'] });
  t.strictSame(await said(), []);

  surroundings.ehloNames = new Map();
  zone.set(host, { A: [ip, other], MX: [[10, host]], TXT: [`v=spf1 ip4:${ip} ip4:${other} -all`] });
  t.strictSame(await said(), [
    'reverse_dns note: Its name is Second.Sender.Test, which resolves back to it, but mail from it says EHLO out.sender.test. Some receivers compare the two. If it is one of SENDING_IPS, put 127.0.0.9=Second.Sender.Test into EHLO_NAMES, or ask the provider of the address to set its PTR record to out.sender.test.',
  ]);
  for (const [name, entry] of Object.entries(right)) zone.set(name, entry);

  surroundings.ehloNames = new Map([
    [ip, 'first.sender.test'],
    [other, second],
  ]);
  zone.set('first.sender.test', right[host]);
  zone.set(reverse, { PTR: ['first.sender.test'] });
  t.strictSame(await said(), [], 'our own name is said by no address, and has one for its MX record');
  t.match(
    (await examine({ ...patient, surroundings }, null)).filter(({ check }) => check === 'mail_hostname'),
    [{ subject: host }, { subject: 'first.sender.test' }, { subject: second }],
  );
});

t.test('a base URL that only this machine reaches, or that is not https, is a problem', async (t) => {
  const healthOf = (url: string) => checkBaseUrl(url).map(({ health, found }) => `${health} ${found}`)[0];
  t.match(healthOf('http://localhost:3000'), /^problem It leads only to this machine/);
  t.match(healthOf('http://send.example.com'), /^problem It is not https/);
  t.match(healthOf('https://send.example.com'), /^ok/);
});

t.test('the machine alone is examined without a question to anybody else', async () => {
  const { patient, zone } = await healthyServer();
  const { db, installation } = patient;
  const before = zone.queries.length;
  const checks = async (smtpCertificate: CertificateFiles | null) =>
    (await examineMachine(db, { ...installation, smtpCertificate })).map(({ check }) => check);
  const always = ['clock', 'disk_space', 'database_rights'];
  t.strictSame(await checks(installation.smtpCertificate), [...always, 'smtp_certificate']);
  t.strictSame(await checks(null), always);
  t.equal(zone.queries.length, before);
});

t.test('a clock of this machine that differs from that of the database is a problem', async (t) => {
  const { db } = await healthyServer();
  const whenOff = async (offMs: number) => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() + offMs });
    return shown(await checkClock(db).finally(() => mock.timers.reset()))[0];
  };
  t.strictSame(shown(await checkClock(db)), []);
  t.match(await whenOff(40_000), /^clock problem: It is [34]\d\.\d s ahead of the database's\. Synchronize the clocks/);
  t.match(await whenOff(-3 * 3_600_000), /^clock problem: It is 3 hours behind the database's\. /);
});

t.test('a certificate of the SMTP ports that was not renewed in time is a problem', async (t) => {
  const now = new Date('2027-03-20T12:00:00Z');
  const { publicKey, privateKey: signer } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = String(signer.export({ type: 'pkcs8', format: 'pem' }));
  const shownOf = async (from: string, to: string) => {
    const times = { from: new Date(from), to: new Date(to) };
    const cert = certify({ issuer: host, subject: host, publicKey, signer, ...times, extension: forHosts([host]) });
    return shown(await checkCertificate(await certificateFiles({ cert, key }), now));
  };
  const renew = 'Renew it: the service shows the new one within seconds, without a restart.';
  const cases: [from: string, to: string, expected: string[]][] = [
    ['2027-01-10', '2027-04-04', []],
    ['2027-01-04', '2027-04-03', [`smtp_certificate problem: It expires on 2027-04-03. ${renew}`]],
    ['2026-12-20', '2027-03-20', [`smtp_certificate problem: It expired on 2027-03-20. ${renew}`]],
    ['2027-03-19', '2027-03-25', []],
    ['2027-03-15', '2027-03-21', [`smtp_certificate problem: It expires on 2027-03-21. ${renew}`]],
  ];
  for (const [from, to, expected] of cases) t.strictSame(await shownOf(from, to), expected, `${from} to ${to}`);
  t.match(await shownOf('2027-03-21', '2027-06-19'), [/problem: It is valid only from 2027-03-21\. Check the clock/]);
});

t.test('a certificate of the SMTP ports that cannot be read, or not be shown with its key, is a problem', async (t) => {
  const [own, other] = [selfSignedCertificate(host), selfSignedCertificate(host)];
  const foundOf = async (pem: { cert: string; key: string }, missing?: 'cert' | 'key') => {
    const files = await certificateFiles(pem);
    if (missing) await rm(files[missing]);
    return shown(await checkCertificate(files));
  };
  t.strictSame(await foundOf(own), []);
  t.match(await foundOf(own, 'cert'), [/problem: It cannot be read \(ENOENT\)\. Set SMTP_TLS_CERT/]);
  const none = { ...own, cert: 'no certificate' };
  t.match(await foundOf(none), [/problem: It cannot be read \(it is no certificate\)\. Set SMTP_TLS_CERT/]);
  t.match(await foundOf(own, 'key'), [/: Its key .*key\.pem cannot be read \(ENOENT\), so .* Set SMTP_TLS_KEY/]);
  t.match(await foundOf({ ...own, key: own.cert }), [/cannot be read \(it is no private key without a password\)/]);
  t.match(await foundOf({ ...own, key: other.key }), [/problem: The key .*key\.pem belongs to another certificate/]);
});

t.test(
  'a certificate that came through a pipe is not read again, which would wait for somebody to fill it',
  async (t) => {
    const files = await certificateFiles(selfSignedCertificate(host));
    await rm(files.cert);
    execFileSync('mkfifo', [files.cert]);
    t.match(shown(await checkCertificate(files)), [
      /^smtp_certificate note: It came through a pipe.* Restart the service/,
    ]);
  },
);

t.test('the doctor says that a name server is no resolver', async (t) => {
  const { address } = await startRawDns(t, (question) => {
    const bytes = packet(question, [], {
      authorities: [{ type: 'NS', name: 'test', data: 'ns.nic.test', ttl: 60, class: 'IN' }],
    });
    // No recursion is available.
    bytes.writeUInt8(bytes.readUInt8(3) & 0x7f, 3);
    return [bytes];
  });
  const resolver = createResolver([address]);
  const where = {
    resolve: resolveWith(resolver),
    mailHostname: host,
    ehloNames: new Map(),
    sendingIps: [ip],
    keyring: new Keyring(key),
  };
  const found = [...(await checkEhloNames(where, resolver)), ...(await checkReverse(ip, where, resolver))];
  t.equal(found.length, 2);
  for (const finding of found)
    t.match(finding, { health: 'unknown', found: /only refers to others: DNS_SERVERS must name resolvers/ });
});

t.test('the doctor says when the database role may make no more tables, and until when there are some', async (t) => {
  const { db, patient } = await healthyServer();
  const role = await makeRole(t, '');
  const database = (await db.query<{ name: string }>({ text: 'SELECT current_database() AS name' }))[0]?.name ?? '';
  const ends = (await listPartitions(db)).map(({ to }) => to.toISOString().slice(0, 10));
  // The tests' own role may do everything.
  const other = connect(await urlFor({ database, role: role.name }), silentLog, 2);
  t.teardown(() => other.close());
  const rights = async () =>
    shown((await examine({ ...patient, db: other }, null)).filter(({ check }) => check === 'database_rights'));
  t.strictSame(await rights(), [
    `database_rights problem: The role "${role.name}" of DATABASE_URL cannot create tables. There are tables for mail until ${ends.at(-1)}; after that it is refused. Run GRANT CREATE, USAGE ON SCHEMA public TO "${role.name}" in the database "${database}".`,
  ]);
});

t.test(
  'the doctor says when a restored backup made the tables those of another role, and what it says mends it',
  async (t) => {
    const { db, patient } = await healthyServer();
    const role = await makeRole(t, '');
    const database = (await db.query<{ name: string }>({ text: 'SELECT current_database() AS name' }))[0]?.name ?? '';
    await db.query({ text: `GRANT CREATE, USAGE ON SCHEMA public TO "${role.name}"` });
    await db.query({ text: `GRANT CREATE ON DATABASE "${database}" TO "${role.name}"` });
    await db.query({ text: `GRANT ALL ON ALL TABLES IN SCHEMA public TO "${role.name}"` });
    const other = connect(await urlFor({ database, role: role.name }), silentLog, 2);
    t.teardown(() => other.close());
    const rights = async () =>
      (await examine({ ...patient, db: other }, null)).filter(({ check }) => check === 'database_rights');
    const makePartition = () =>
      other.query({ text: `CREATE TABLE one_more PARTITION OF emails DEFAULT; DROP TABLE one_more` });
    const [finding] = await rights();
    t.match(finding, {
      health: 'problem',
      found: new RegExp(
        `^\\d+ tables, such as \\w+, belong to "\\w+" and not to the role "${role.name}" of DATABASE_URL, .* There are tables for mail until`,
      ),
      advice: /^Run this as a superuser in the database .*, or restore the backup as .*: DO /,
    });
    await t.rejects(makePartition());
    await db.query({ text: /DO [$][$].*[$][$]/s.exec(finding?.advice ?? '')?.[0] ?? '' });
    t.match(await rights(), [{ health: 'ok' }]);
    await makePartition();
    await other.query({ text: `ALTER TYPE email_status ADD VALUE 'another'` });
    // A member of the owner may do what the owner may.
    const member = await makeRole(t, '');
    await db.query({ text: `GRANT "${role.name}" TO "${member.name}"` });
    const third = connect(await urlFor({ database, role: member.name }), silentLog, 2);
    t.teardown(() => third.close());
    t.match(
      (await examine({ ...patient, db: third }, null)).filter(({ check }) => check === 'database_rights'),
      [{ health: 'ok' }],
    );
    await db.query({ text: `REASSIGN OWNED BY "${role.name}" TO CURRENT_USER` });
    await db.query({ text: `DROP OWNED BY "${role.name}"` });
  },
);
