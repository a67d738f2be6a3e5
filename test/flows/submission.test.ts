import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { createTransport } from 'nodemailer';
import t from 'tap';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { certificate, Dialog, plain, serverName } from '../inbound/scene.ts';
import { createDatabase } from '../support/db.ts';
import { adminPassword, eventually, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { type SendwrightProcess, startSendwright } from '../support/process.ts';
import { firstScreenOf, makeFolder, refusalOf, takePort } from '../support/start.ts';

const keyOf = (app: SendwrightProcess) => /X-API-Key: (sk_live_\w+)/.exec(app.stderr())?.[1] ?? '';
const submissionEnv = async (dataDir: string, env: Record<string, string> = {}) =>
  testEnv(await createDatabase(), {
    DATA_DIR: dataDir,
    SUBMISSION_PORT: String(await freePort()),
    SUBMISSIONS_PORT: String(await freePort()),
    ...env,
  });

const message = { from: 'hello@example.test', to: 'ann@anywhere.test', subject: 'by SMTP', text: 'text' };

t.test('a started service accepts mail by SMTP as its first screen says, delivers it, and stops cleanly', async (t) => {
  const dataDir = join(await makeFolder(t), 'data');
  const env = await submissionEnv(dataDir);
  const app = await startSendwright(env);
  t.teardown(() => app.end('SIGKILL'));
  const { SUBMISSION_PORT: submission, SUBMISSIONS_PORT: submissions } = env;
  t.match(
    app.stderr(),
    `SMTP         localhost, port ${submission} (STARTTLS), port ${submissions} (TLS); the password is an API key`,
  );
  const file = join(dataDir, 'smtp-tls.pem');
  t.equal((await stat(file)).mode & 0o777, 0o600);
  const key = keyOf(app);
  const common = { host: '127.0.0.1', auth: { user: 'x', pass: key }, tls: { rejectUnauthorized: false } };
  const ids: string[] = [];
  for (const port of [submission, submissions]) {
    const transport = createTransport({ ...common, port: Number(port), secure: port === submissions });
    ids.push(/queued as (\S+)/.exec((await transport.sendMail(message)).response)?.[1] ?? '');
  }
  const login = { email: 'admin@example.test', password: adminPassword };
  const token = (await app.call('POST', '/api/v1/auth/login', { body: login })).body.token;
  const arrived = await eventually(async () => {
    const { messages } = (await app.call('GET', '/api/v1/sandbox/messages', { token })).body;
    return messages.length === 2 && messages;
  });
  t.match(arrived[0], { subject: 'by SMTP', dkim: [{ result: 'pass' }] });
  t.strictSame(arrived.map(({ email_id }: { email_id: string }) => email_id).sort(), ids.sort());
  t.equal(await app.end('SIGTERM'), 0);
});

t.test("the operator's certificate is used, and an unusable one stops the start", async (t) => {
  const folder = await makeFolder(t);
  const files = { SMTP_TLS_CERT: join(folder, 'cert.pem'), SMTP_TLS_KEY: join(folder, 'key.pem') };
  await writeFile(files.SMTP_TLS_CERT, certificate.cert);
  await writeFile(files.SMTP_TLS_KEY, certificate.key);
  const env = await submissionEnv(join(folder, 'none'), { ...files, RATE_LIMIT: '1/1000' });
  const app = await startSendwright({ ...env, ROLES: 'smtp,api' });
  t.teardown(() => app.end('SIGKILL'));
  // Trusts that certificate and no other.
  const dialog = await Dialog.open(t, Number(env.SUBMISSIONS_PORT), true);
  await dialog.ask('EHLO client.test');
  t.match(await dialog.ask(`AUTH PLAIN ${plain(keyOf(app))}`), /^235 /);

  for (let n = 0; n < 50; n++) {
    t.match(await dialog.ask(`MAIL FROM:<${message.from}>`), /^250 /);
    await dialog.ask('RSET');
  }
  const { headers } = await app.call('GET', '/api/v1/emails', { key: keyOf(app) });
  const left = Number(/r=(\d+)/.exec(headers.get('RateLimit') ?? '')?.[1]);
  t.ok(left < 999, `REST and SMTP share one budget: ${left} are left`);
  dialog.end();
  t.equal(await app.end('SIGTERM'), 0);
  await t.rejects(stat(env.DATA_DIR ?? ''), 'then we create none ourselves');
  await writeFile(files.SMTP_TLS_KEY, selfSignedCertificate(serverName).key);
  t.match(await refusalOf(env), /^SMTP_TLS_KEY .* is not the key of SMTP_TLS_CERT/);
});

t.test(
  'a renewed certificate is shown on every port without a restart, and connections that are there go on',
  async (t) => {
    const folder = await makeFolder(t);
    const files = { SMTP_TLS_CERT: join(folder, 'cert.pem'), SMTP_TLS_KEY: join(folder, 'key.pem') };
    const put = ({ cert, key }: { cert: string; key: string }) =>
      Promise.all([writeFile(files.SMTP_TLS_CERT, cert), writeFile(files.SMTP_TLS_KEY, key)]);
    await put(certificate);
    const env = await submissionEnv(folder, { ...files, INBOUND_SMTP_PORT: String(await freePort()) });
    const app = await startSendwright({ ...env, ROLES: 'smtp,api' });
    t.teardown(() => app.end('SIGKILL'));
    const ports = [env.SUBMISSION_PORT, env.SUBMISSIONS_PORT, env.INBOUND_SMTP_PORT].map(Number);
    const shown = () => Promise.all(ports.map((port) => certificateOn(port, port === Number(env.SUBMISSIONS_PORT))));
    const old = await Dialog.open(t, Number(env.SUBMISSIONS_PORT), true);
    const fingerprints = (cert: string) => ports.map(() => new X509Certificate(cert).fingerprint256);
    t.strictSame(await shown(), fingerprints(certificate.cert));

    const renewed = selfSignedCertificate(serverName);
    await put(renewed);
    const expected = fingerprints(renewed.cert).join();
    t.ok(await eventually(async () => (await shown()).join() === expected));
    t.match(await old.ask('EHLO client.test'), /^250/);
    old.end();
    t.equal(await app.end('SIGTERM'), 0);
  },
);

t.test('a port that is in use stops the start, unless this node has no SMTP role', async (t) => {
  const taken = await takePort(t);
  const env = await submissionEnv(await makeFolder(t), { SUBMISSION_PORT: taken });
  t.equal(
    await refusalOf(env),
    `SUBMISSION_PORT ${taken} is in use by another program: stop it, or set SUBMISSION_PORT to a free one`,
  );
  t.notMatch(await firstScreenOf({ ...env, ROLES: 'api' }), /SMTP {3}/);
});

/** The fingerprint of the certificate that a server shows. */
async function certificateOn(port: number, secure: boolean): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const ask = async (command: string) => {
    socket.write(command);
    for (let answer = ''; !/^\d{3} .*\r\n$/m.test(answer); ) answer += (await once(socket, 'data'))[0];
  };
  if (!secure) for (const command of ['', 'EHLO client.test\r\n', 'STARTTLS\r\n']) await ask(command);
  const encrypted = connectTls({ socket, servername: serverName, rejectUnauthorized: false });
  await once(encrypted, 'secureConnect');
  const { fingerprint256 } = encrypted.getPeerCertificate();
  encrypted.destroy();
  return fingerprint256;
}
