import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import { certify, forHosts, selfSignedCertificate, type TlsCertificate } from '../../src/crypto/certificate.ts';
import { readCertificate } from '../../src/inbound/certificate.ts';
import { ServedCertificate } from '../../src/inbound/served-certificate.ts';
import { silentLog } from '../../src/log.ts';
import { StartError } from '../../src/process/start-error.ts';

const folder = await mkdtemp(join(tmpdir(), 'sendwright-tls-'));
t.teardown(() => rm(folder, { recursive: true }));
/** Does not exist yet: a node whose database is elsewhere may not need it otherwise. */
const dataDir = join(folder, 'data');
const own = (host: string) => readCertificate({ dataDir, host, files: null });

/** One whose key is too short for TLS. */
function weakCertificate() {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 512 });
  const { privateKey: signer } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const times = { from: new Date(Date.now() - 1_000), to: new Date(Date.now() + 86_400_000) };
  const cert = certify({
    issuer: 'c.test',
    subject: 'c.test',
    publicKey,
    signer,
    ...times,
    extension: forHosts(['c.test']),
  });
  return { cert, key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })) };
}

t.test('without files we make our own certificate, keep it between starts and protect its file', async (t) => {
  const [first, second] = await Promise.all([own('a.test'), own('a.test')]);
  const third = await own('a.test');
  t.strictSame(third, await own('a.test'));
  t.ok([first.cert, second.cert].includes(third.cert));
  t.equal(new X509Certificate(third.cert).checkHost('a.test'), 'a.test');
  t.equal(new X509Certificate(third.cert).checkHost('localhost'), 'localhost', 'where programs of this machine submit');
  t.equal((await stat(join(dataDir, 'smtp-tls.pem'))).mode & 0o777, 0o600);
});

t.test('a new one is made for another host, if it is damaged, and before it expires', async (t) => {
  const first = await own('b.test');
  t.equal(new X509Certificate(first.cert).subject, 'CN=b.test');
  const file = join(dataDir, 'smtp-tls.pem');
  await writeFile(file, (await readFile(file, 'utf8')).slice(0, 100));
  t.not((await own('b.test')).cert, first.cert);
  const old = selfSignedCertificate('b.test', new Date(Date.now() - 300 * 86_400_000));
  await writeFile(file, old.key + old.cert);
  t.not((await own('b.test')).cert, old.cert);
});

t.test('one that cannot be kept is no start, and leaves nothing behind', async (t) => {
  const full = join(folder, 'full');
  await mkdir(join(full, 'smtp-tls.pem'), { recursive: true });
  await t.rejects(readCertificate({ dataDir: full, host: 'a.test', files: null }), /cannot be used/);
  t.same(await readdir(full), ['smtp-tls.pem']);
});

t.test('files of the operator are used as they are, or the start says what is wrong with them', async (t) => {
  const [one, other] = [selfSignedCertificate('c.test'), selfSignedCertificate('c.test')];
  const weak = weakCertificate();
  const put = async (name: string, text: string) => {
    await writeFile(join(dataDir, name), text);
    return join(dataDir, name);
  };
  const [cert, key] = [await put('c.pem', one.cert + other.cert), await put('k.pem', one.key)];
  const from = (files: { cert: string; key: string }) => readCertificate({ dataDir, host: 'c.test', files });
  t.strictSame(await from({ cert, key }), { cert: one.cert + other.cert, key: one.key });
  const missing = join(dataDir, 'missing.pem');
  const cases: [files: { cert: string; key: string }, message: RegExp][] = [
    [{ cert: missing, key }, /^SMTP_TLS_CERT cannot be read \(ENOENT.*\): set it to a PEM file/],
    [{ cert, key: missing }, /^SMTP_TLS_KEY cannot be read/],
    [{ cert: key, key }, /^SMTP_TLS_CERT .*k\.pem does not contain a certificate/],
    [{ cert, key: cert }, /^SMTP_TLS_KEY .*c\.pem does not contain a private key/],
    [{ cert, key: await put('o.pem', other.key) }, /^SMTP_TLS_KEY .*o\.pem is not the key of SMTP_TLS_CERT .*c\.pem/],
    [
      { cert: await put('w.pem', weak.cert), key: await put('wk.pem', weak.key) },
      /^SMTP_TLS_CERT .*w\.pem is refused by OpenSSL \(ee key too small\): set it to another/,
    ],
  ];
  for (const [files, message] of cases) {
    const error = await from(files).catch((reason: unknown) => reason);
    t.ok(error instanceof StartError);
    t.match((error as Error).message, message);
  }
});

t.test('files that are replaced are shown once both are there, and what cannot be used never', async (t) => {
  const files = { cert: join(dataDir, 'served.pem'), key: join(dataDir, 'served-key.pem') };
  const [first, second, third] = [1, 2, 3].map(() => selfSignedCertificate('d.test'));
  const put = (part: keyof typeof files, text = '') => writeFile(files[part], text);
  await put('cert', first?.cert);
  await put('key', first?.key);
  const served = new ServedCertificate({ dataDir, host: 'd.test', files }, silentLog);
  const shown: TlsCertificate[] = [];
  t.strictSame(await served.ofStart(), first);
  served.use({ showCertificate: (certificate) => shown.push(certificate) });
  await served.look();
  t.strictSame(shown, [], 'nothing has changed');

  await put('cert', second?.cert);
  for (let looks = 2; looks > 0; looks -= 1) await t.rejects(served.look(), /^SMTP_TLS_KEY .* is not the key/);
  t.strictSame(shown, []);
  await put('key', second?.key);
  await served.look();
  await served.look();
  t.strictSame(shown, [second]);
  // As a nightly copy of them is.
  await put('cert', second?.cert);
  await put('key', second?.key);
  await served.look();
  t.strictSame(shown, [second], 'the same files, written anew, are no new certificate');

  await rm(files.key);
  await served.look();
  const weak = weakCertificate();
  await put('cert', weak.cert);
  await put('key', weak.key);
  await t.rejects(served.look(), /is refused by OpenSSL/);
  t.strictSame(shown, [second], 'the servers keep what they have');
  await put('cert', third?.cert);
  await put('key', third?.key);
  await served.look();
  t.strictSame(shown, [second, third]);
});

t.test('our own is replaced before it expires, without a restart', async (t) => {
  const served = new ServedCertificate({ dataDir: join(folder, 'long'), host: 'f.test', files: null }, silentLog);
  const shown: TlsCertificate[] = [];
  await served.look();
  const first = await served.ofStart();
  served.use({ showCertificate: (certificate) => shown.push(certificate) });
  const after = (days: number) => mock.timers.setTime(begun + days * 86_400_000);
  const begun = Date.now();
  mock.timers.enable({ apis: ['Date'], now: begun });
  t.teardown(() => mock.timers.reset());
  after(274);
  await served.look();
  t.strictSame(shown, []);
  after(276);
  await served.look();
  await served.look();
  t.equal(shown.length, 1);
  const [second] = shown;
  t.ok(Date.parse(new X509Certificate(second?.cert ?? '').validTo) > Date.now() + 364 * 86_400_000);
  t.not(second?.key, first.key);
});

t.test('a certificate that came through a pipe is not read again', async (t) => {
  const files = { cert: join(dataDir, 'cert.pipe'), key: join(dataDir, 'piped-key.pem') };
  const { cert, key } = selfSignedCertificate('e.test');
  execFileSync('mkfifo', [files.cert]);
  await writeFile(files.key, key);
  const served = new ServedCertificate({ dataDir, host: 'e.test', files }, silentLog);
  const [read] = await Promise.all([served.ofStart(), writeFile(files.cert, cert)]);
  t.strictSame(read, { cert, key });
  served.use({ showCertificate: () => t.fail('there is no other') });
  await writeFile(files.key, selfSignedCertificate('e.test').key);
  await served.look();
});
