import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { readCertificate } from '../../src/inbound/certificate.ts';
import { StartError } from '../../src/process/start-error.ts';

const folder = await mkdtemp(join(tmpdir(), 'sendwright-tls-'));
t.teardown(() => rm(folder, { recursive: true }));
/** Does not exist yet: a node whose database is elsewhere may not need it otherwise. */
const dataDir = join(folder, 'data');
const own = (host: string) => readCertificate({ dataDir, host, files: null });

t.test('without files we make our own certificate, keep it between starts and protect its file', async (t) => {
  const [first, second] = await Promise.all([own('a.test'), own('a.test')]);
  const third = await own('a.test');
  t.strictSame(third, await own('a.test'));
  t.ok([first.cert, second.cert].includes(third.cert));
  t.equal(new X509Certificate(third.cert).checkHost('a.test'), 'a.test');
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
  ];
  for (const [files, message] of cases) {
    const error = await from(files).catch((reason: unknown) => reason);
    t.ok(error instanceof StartError);
    t.match((error as Error).message, message);
  }
});
