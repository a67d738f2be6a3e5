import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSignedCertificate } from '../../src/crypto/certificate.ts';
import { eventually } from './node.ts';
import { answersAt } from './ports.ts';

type Test = { teardown(work: () => unknown): void };

/** A mail server by others, and the messages in its only mailbox, as in files: with LF line ends. */
export interface Receiver {
  messages(): Promise<string[]>;
}

export const postfix = '/usr/sbin/postfix';
/** Debian allows only one of the two to be installed; the other is unpacked next to it. */
export const exim =
  ['/opt/exim4-for-tests/usr/sbin/exim4', '/usr/sbin/exim4'].find(
    (path) => spawnSync(path, ['-C', '/dev/null', '-bV']).status === 0,
  ) ?? null;

/** Postfix on 127.0.0.1, with STARTTLS and SMTPUTF8; must be run as root. It has the mailbox `box@receiver.test`. */
export async function startPostfix(t: Test, port: number): Promise<Receiver> {
  const home = await makeHome(t, 'postfix');
  await makePostfixFolders(home);
  await mkdir(join(home, 'mail'));
  await chown(join(home, 'mail'), idOf('-u', 'nobody'), idOf('-g', 'nobody'));
  const { key, cert } = selfSignedCertificate('mx.receiver.test');
  await writeFile(join(home, 'conf/tls.pem'), key + cert, { mode: 0o600 });
  await writeFile(
    join(home, 'conf/main.cf'),
    `compatibility_level = 3.6
queue_directory = ${home}/spool
data_directory = ${home}/data
maillog_file = ${home}/log
maillog_file_prefixes = ${tmpdir()}
myhostname = mx.receiver.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_peername_lookup = no
smtpd_tls_security_level = may
smtpd_tls_chain_files = ${home}/conf/tls.pem
smtputf8_enable = yes
message_size_limit = 1000000
virtual_mailbox_domains = receiver.test
virtual_mailbox_base = ${home}/mail
virtual_mailbox_maps = inline:{ { box@receiver.test = box/ }, { grüße@receiver.test = box/ } }
virtual_uid_maps = static:${idOf('-u', 'nobody')}
virtual_gid_maps = static:${idOf('-g', 'nobody')}
virtual_minimum_uid = 1
`,
  );
  const service = (name: string, rest: string) => `${name} unix ${rest}\n`;
  await writeFile(
    join(home, 'conf/master.cf'),
    `127.0.0.1:${port} inet n - n - - smtpd\npostlog unix-dgram n - n - 1 postlogd\n${[
      service('cleanup', 'n - n - 0 cleanup'),
      service('qmgr', 'n - n 300 1 qmgr'),
      service('rewrite', '- - n - - trivial-rewrite'),
      ...['bounce', 'defer', 'trace'].map((name) => service(name, '- - n - 0 bounce')),
      service('anvil', '- - n - 1 anvil'),
      service('virtual', '- n n - - virtual'),
      service('proxymap', '- - n - - proxymap'),
      service('tlsmgr', '- - n 1000? 1 tlsmgr'),
      service('retry', '- - n - - error'),
    ].join('')}`,
  );
  runPostfix(t, join(home, 'conf'));
  await eventually(() => answersAt('127.0.0.1', port));
  return { messages: () => maildir(join(home, 'mail/box/new')) };
}

const idOf = (option: string, user: string) => Number(spawnSync('id', [option, user]).stdout.toString().trim());

/** `conf`, `spool` and `data`, as Postfix wants them. */
export async function makePostfixFolders(home: string): Promise<void> {
  for (const folder of ['conf', 'spool', 'data']) await mkdir(join(home, folder));
  await chown(join(home, 'data'), idOf('-u', 'postfix'), 0);
}

/** Starts Postfix with this configuration, until the test ends. */
export function runPostfix(t: Test, conf: string): void {
  const control = (order: string) => spawnSync(postfix, ['-c', conf, order], { encoding: 'utf8' });
  const { status, stderr } = control('start');
  t.teardown(() => control('stop'));
  if (status !== 0) throw new Error(`Postfix did not start: ${stderr}`);
}

/** Exim on 127.0.0.2, without STARTTLS; must be run as root. It has the mailbox `box@exim.test`. */
export async function startExim(t: Test, port: number): Promise<Receiver> {
  if (exim === null) throw new Error('Exim is not installed');
  const home = await makeHome(t, 'exim');
  const config = join(home, 'exim.conf');
  await writeFile(
    config,
    `exim_path = ${exim}
primary_hostname = mx.exim.test
exim_user = mail
exim_group = mail
spool_directory = ${home}/spool
log_file_path = ${home}/%slog
pid_file_path = ${home}/pid
local_interfaces = 127.0.0.2
daemon_smtp_ports = ${port}
host_lookup =
dkim_verify_signers =
tls_advertise_hosts =
acl_smtp_rcpt = check_rcpt
begin acl
check_rcpt:
  accept domains = exim.test
         local_parts = box
  deny message = 5.1.1 no such user
begin routers
box:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  directory = ${home}/mail
  maildir_format
`,
  );
  spawnSync('chown', ['-R', 'mail:mail', home]);
  spawnSync('chown', ['root:root', config]);
  const server = spawn(exim, ['-C', config, '-bdf'], { stdio: 'ignore' });
  t.teardown(() => server.kill());
  await eventually(() => answersAt('127.0.0.2', port));
  return { messages: () => maildir(join(home, 'mail/new')) };
}

/** A folder that others may enter, until the test ends. */
export async function makeHome(t: Test, name: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), `sendwright-${name}-`));
  await chmod(home, 0o755);
  t.teardown(() => rm(home, { recursive: true, force: true, maxRetries: 10 }));
  return home;
}

async function maildir(folder: string): Promise<string[]> {
  const names = existsSync(folder) ? await readdir(folder) : [];
  return Promise.all(names.sort().map((name) => readFile(join(folder, name), 'utf8')));
}
