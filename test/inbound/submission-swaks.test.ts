import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { certificate, startSubmitter } from './scene.ts';

const swaks = '/usr/bin/swaks';

t.test(
  'a foreign client: swaks, over STARTTLS and over TLS, with PLAIN and with LOGIN',
  { skip: !existsSync(swaks) && `${swaks} not installed (apt-get install swaks libnet-ssleay-perl)` },
  async (t) => {
    const { sender, ports } = await startSubmitter(t);
    const { from, key, read, count } = await sender();
    const folder = await mkdtemp(join(tmpdir(), 'sendwright-swaks-'));
    t.teardown(() => rm(folder, { recursive: true }));
    const ca = join(folder, 'ca.pem');
    await writeFile(ca, certificate.cert);
    const run = async (...args: string[]) => {
      const common = ['--server', '127.0.0.1', '--helo', 'client.test', '--from', from, '--to', 'a@b.test,c@b.test'];
      const trust = ['--tls-verify', '--tls-ca-path', ca];
      const child = spawn(swaks, [
        ...common,
        ...trust,
        '--h-Subject',
        'from swaks',
        '--body',
        'a line\n.\nanother',
        ...args,
      ]);
      let output = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
      const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
      return { code, output };
    };
    const login = (method: string, password = key) => [
      '--auth',
      method,
      '--auth-user',
      'x',
      '--auth-password',
      password,
    ];
    const ways = [
      ['--tls', '--port', String(ports.submission), ...login('PLAIN')],
      ['--tls-on-connect', '--port', String(ports.submissions), ...login('LOGIN')],
    ];
    for (const way of ways) {
      const { code, output } = await run(...way, '--add-header', 'X-Sendwright-Tags: swaks');
      t.equal(code, 0, output);
      t.match(output, /250 2\.0\.0 Ok: queued as [0-9a-f-]{36}/);
      t.match(await read(output), { subject: 'from swaks', to: 'a@b.test', tags: ['swaks'] });
    }
    const [, overTls = []] = ways;
    const wrong = await run('--tls', '--port', String(ports.submission), ...login('PLAIN', 'sk_live_wrong'));
    t.match(wrong.output, '535 5.7.8 the password must be a valid API key');
    const clear = await run('--port', String(ports.submission), ...login('PLAIN'));
    t.match(clear.output, /did not advertise auth/i);
    t.notMatch(clear.output, 'AUTH', 'no key is sent in clear');
    const foreign = await run(...overTls, '--h-From', 'x@foreign.test');
    t.match(foreign.output, '550 5.7.1 From: foreign.test is not a verified domain');
    t.equal(await count(), 2);
  },
);
