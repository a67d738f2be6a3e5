import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { blocksOf } from '../docs/markdown.ts';
import { type DirectNode, startDirectNode } from '../support/direct.ts';
import { eventually } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { makeHome, makePostfixFolders, postfix, runPostfix } from '../support/receivers.ts';

const asRoot = process.getuid?.() === 0;
/** Of the package libsasl2-modules; the folder in between is the processor's. */
const hasLogin = () => readdirSync('/usr/lib').some((folder) => existsSync(`/usr/lib/${folder}/sasl2/libplain.so`));
const page = await readFile(new URL('../../docs/moving-from-postfix.md', import.meta.url), 'utf8');

/** A file of the page for a Postfix that hands all its mail to Sendwright, by how it begins. */
const fileOfPage = (beginning: string) => {
  const block = blocksOf(page).find(({ text }) => text.startsWith(beginning));
  if (!block) throw new Error(`the page has no ${beginning}`);
  return block.text;
};
const login = /`\/etc\/postfix\/sendwright` has one line, `([^`]+)`/.exec(page)?.[1] ?? '';

/** Postfix as the page says, on the same machine as the submission port; must be run as root. */
async function startClient(t: Test, port: number, { key, from, domain }: DirectNode) {
  const home = await makeHome(t, 'postfix-client');
  const conf = join(home, 'conf');
  await makePostfixFolders(home);
  const here = (text: string) =>
    text
      .replaceAll('[mail.example.com]:2587', `[127.0.0.1]:${port}`)
      .replaceAll('/etc/postfix/', `${conf}/`)
      .replaceAll('alerts@example.com', from)
      .replaceAll('example\\.com', domain.replaceAll('.', '\\.'))
      .replaceAll('sk_live_...', key)
      .replace('= secure', '= encrypt');
  await writeFile(join(conf, 'sendwright'), `${here(login)}\n`, { mode: 0o600 });
  await writeFile(join(conf, 'sender'), `${here(fileOfPage('/^'))}\n`);
  await writeFile(
    join(conf, 'main.cf'),
    `compatibility_level = 3.6
queue_directory = ${home}/spool
data_directory = ${home}/data
maillog_file = ${home}/log
maillog_file_prefixes = ${tmpdir()}
myhostname = client.test
master_service_disable = inet
${here(fileOfPage('relayhost = '))}
`,
  );
  const services = await readFile('/etc/postfix/master.cf', 'utf8');
  // As in Debian, except that nothing is in a chroot, for which there would have to be files.
  const unjailed = services.replace(/^(\w+ +unix(?: +\S+){2} +)[-y] /gm, '$1n ');
  const logger = /^postlog/m.test(services) ? '' : 'postlog unix-dgram n - n - 1 postlogd\n';
  await writeFile(join(conf, 'master.cf'), unjailed + logger);
  runPostfix(t, conf);
  return {
    sendmail: (args: string[], input: string | Buffer) => {
      const sent = spawnSync('/usr/sbin/sendmail', ['-C', conf, ...args], { input, encoding: 'utf8' });
      if (sent.status !== 0) throw new Error(sent.stderr);
    },
    isEmpty: () =>
      spawnSync('/usr/sbin/postqueue', ['-c', conf, '-p'], { encoding: 'utf8' }).stdout.includes('is empty'),
    log: () => readFile(join(home, 'log'), 'utf8'),
  };
}

t.test(
  'Postfix as the page about it says hands over the mail of cron, and a refusal ends with one notice',
  { skip: !(asRoot && existsSync(postfix) && hasLogin()) && 'needs root, Postfix and libsasl2-modules' },
  async (t) => {
    const port = await freePort();
    const node = await startDirectNode(t, { zone: {}, mxPort: 1, env: { SUBMISSION_PORT: String(port) } });
    const client = await startClient(t, port, node);
    client.sendmail(['-i', '-FCronDaemon', '-B8BITMIME', 'root'], 'From: root (Cron Daemon)\nTo: root\n\nout\n');
    const shop = `shop@${node.domain}`;
    client.sendmail(['-t', '-f', shop], `From: Shop <${shop}>\nTo: b@receiver.test\n\nOf the shop\n`);
    client.sendmail(['-t'], Buffer.from('To: a@receiver.test\nSubject: \xe9\n\nLatin-1\n', 'latin1'));
    await eventually(async () => (await client.log()).includes('multipart/report cannot be sent'));
    const log = await eventually(async () => client.isEmpty() && (await client.log()));
    t.match(log, /to=<you@example\.com>, orig_to=<root>.*status=sent \(250 2\.0\.0 Ok: queued as /);
    t.match(log, /to=<b@receiver\.test>.*status=sent/);
    const senders = await node.db.query<{ sender: string }>({
      text: 'SELECT from_address AS sender FROM emails ORDER BY subject',
    });
    t.same(senders.map(({ sender }) => sender).sort(), [node.from, shop].sort(), 'a sender of our own stays');
    t.match(log, /to=<a@receiver\.test>.*status=bounced .*554 5\.6\.0 Subject: /);
    t.equal(log.match(/sender non-delivery notification/g)?.length, 1);
  },
);
