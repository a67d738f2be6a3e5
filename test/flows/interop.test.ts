import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { mailHostname } from '../support/direct.ts';
import { adminPassword, eventually, startTestNode } from '../support/node.ts';
import { answersAt, freePort } from '../support/ports.ts';

const dnsmasq = '/usr/sbin/dnsmasq';
const smtpSink = '/usr/sbin/smtp-sink';
const missing = [dnsmasq, smtpSink].filter((path) => !existsSync(path));

t.test(
  "a DNS server and an SMTP server by others: Debian's dnsmasq and Postfix's smtp-sink",
  { skip: missing.length > 0 && `${missing.join(' and ')} not installed (apt-get install dnsmasq-base postfix)` },
  async (t) => {
    const [dnsPort, mxPort] = [await freePort(), await freePort()];
    const node = await startTestNode(t, {
      DELIVERY_MODE: 'direct',
      MAIL_HOSTNAME: mailHostname,
      DNS_SERVERS: `127.0.0.1:${dnsPort}`,
      MX_PORT: String(mxPort),
      ALLOW_PRIVATE_NETWORKS: 'true',
      SENDING_IPS: '127.0.0.1',
    });
    const login = await node.call('POST', '/api/v1/auth/login', {
      body: { email: 'admin@example.test', password: adminPassword },
    });
    const token = login.body.token;
    const added = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'interop.test' } });
    const { verification, dkim, spf } = added.body.dns_records;
    const id = added.body.domain.id;

    const early = await node.call('POST', `/api/v1/domains/${id}/verify`, { token });
    t.match(
      [early.status, early.body],
      [400, { error: 'dns verification failed', missing: ['verification', 'dkim', 'spf'] }],
    );

    const txt = (name: string, text: string) => `--txt-record=${name},${text}`;
    run(t, dnsmasq, [
      '--keep-in-foreground',
      '--conf-file=/dev/null',
      '--no-resolv',
      '--no-hosts',
      '--bind-interfaces',
      '--listen-address=127.0.0.1',
      `--port=${dnsPort}`,
      '--local=/test/',
      '--pid-file',
      txt(verification.name, verification.value),
      txt(dkim.name, dkim.value),
      txt(spf.name, spf.value),
      txt(mailHostname, 'v=spf1 ip4:127.0.0.1 -all'),
      '--mx-host=receiver.test,mx.receiver.test,10',
      '--mx-host=nobody.test,nowhere.receiver.test,10',
      '--host-record=mx.receiver.test,127.0.0.1',
    ]);
    const verified = await eventually(async () => {
      const answer = await node.call('POST', `/api/v1/domains/${id}/verify`, { token });
      return answer.status === 200 && answer.body;
    });
    t.equal(verified.domain.status, 'verified');

    const mail = await mkdtemp(join(tmpdir(), 'sendwright-sink-'));
    t.teardown(() => rm(mail, { recursive: true, force: true }));
    await chmod(mail, 0o777);
    const asNobody = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
    run(t, smtpSink, [
      ...asNobody,
      '-d',
      join(mail, 'message.'),
      '-h',
      'mx.receiver.test',
      `127.0.0.1:${mxPort}`,
      '50',
    ]);
    await eventually(() => answersAt('127.0.0.1', mxPort));

    const key = (await node.call('POST', '/api/v1/keys', { token, body: { name: 'interop' } })).body.key;
    const send = async (to: string[]) =>
      (
        await node.call('POST', '/api/v1/emails', {
          key,
          body: { from: 'Ann <a@interop.test>', to, subject: 'Grüße', text: 'one\n.\n..two', html: '<p>three</p>' },
        })
      ).body.email.id;
    const settled = (email: string) =>
      eventually(async () => {
        const { body } = await node.call('GET', `/api/v1/emails/${email}`, { key });
        return body.email.status !== 'queued' && body.email;
      });
    const done = await settled(await send(['b@receiver.test', 'c@receiver.test']));
    t.equal(done.status, 'sent', JSON.stringify(done.recipients));
    t.equal((await settled(await send(['x@missing.test']))).status, 'failed', 'dnsmasq says NXDOMAIN');

    const [file, ...others] = (await readdir(mail)).filter((name) => name.startsWith('message.'));
    t.equal(others.length, 0, 'two recipients, one message');
    const dumped = await readFile(join(mail, file ?? ''), 'utf8');
    t.match(dumped, /X-Rcpt-Args: <b@receiver\.test>/);
    t.match(dumped, /X-Rcpt-Args: <c@receiver\.test>/);
    // smtp-sink writes its own lines about the envelope before the message, and ends lines with LF.
    const message = Buffer.from(
      dumped.slice(dumped.indexOf('DKIM-Signature:')).replace(/\n+$/, '\n').replaceAll('\n', '\r\n'),
    );
    const resolver = createResolver([`127.0.0.1:${dnsPort}`]);
    const { results } = await dkimVerify(message, {
      resolver: async (name, type) => (await resolver.resolve(name, type)) as string[][],
    });
    t.equal(results[0]?.status.result, 'pass', JSON.stringify(results[0]?.status));
  },
);

function run(t: { teardown(work: () => void): void }, command: string, args: string[]): void {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  t.teardown(() => {
    child.kill();
  });
}
