import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t, { type Test } from 'tap';
import { dkimRecord, keyRecord } from '../../src/core/domains/domains.ts';
import { type DirectNode, mailHostname, startDirectNode } from '../support/direct.ts';
import { eventually } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { exim, postfix, type Receiver, startExim, startPostfix } from '../support/receivers.ts';

const asRoot = process.getuid?.() === 0;
const python = '/usr/bin/python3';
const hasDkimpy = existsSync(python) && spawnSync(python, ['-c', 'import dkim, nacl']).status === 0;

/** What Debian's dkimpy says about each signature: an implementation in another language. */
function dkimpy(message: Buffer, records: Map<string, string>): boolean[] {
  const program = `
import sys, json, dkim
records = json.loads(sys.argv[1])
d = dkim.DKIM(sys.stdin.buffer.read())
find = lambda name, timeout=5: records[name.decode().rstrip('.')].encode()
print(json.dumps([bool(d.verify(idx=i, dnsfunc=find)) for i in range(2)]))`;
  const { stdout, stderr } = spawnSync(python, ['-c', program, JSON.stringify(Object.fromEntries(records))], {
    input: message,
    encoding: 'utf8',
  });
  if (!stdout) throw new Error(stderr);
  return JSON.parse(stdout);
}

/** A sender with an RSA key and an Ed25519 key, both published. */
async function startSender(t: Test, mxPort: number): Promise<{ node: DirectNode; records: Map<string, string> }> {
  const zone = {
    [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    'receiver.test': { MX: [[10, 'mx.receiver.test']] as [number, string][] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
    'exim.test': { MX: [[10, 'mx.exim.test']] as [number, string][] },
    'mx.exim.test': { A: ['127.0.0.2'] },
  };
  const node = await startDirectNode(t, { zone, mxPort });
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const path = `/api/v1/domains/${node.domainId}/rotate-dkim`;
  await node.call('POST', path, { token, body: { algorithm: 'ed25519' } });
  await node.db.query({ text: `UPDATE dkim_keys SET status = 'active'` });
  const domain = await node.db.prisma.domain.findUniqueOrThrow({
    where: { id: node.domainId },
    include: { dkimKeys: true },
  });
  const published = [dkimRecord(domain), ...domain.dkimKeys.map((key) => keyRecord(key, domain.domain))];
  return { node, records: new Map(published.map(({ name, value }) => [name, value])) };
}

/** What we sent, without the fields that the receiver added on top. */
const ownPart = (stored: string) =>
  Buffer.from(stored.slice(stored.indexOf('DKIM-Signature:')).replaceAll('\n', '\r\n'));

const bodies = {
  plain: { subject: 'Plain', text: 'one\n.\n..two\n.three\nFrom here' },
  rich: {
    subject: 'Grüße 🚀',
    html: `<p>${'ü'.repeat(2_000)}</p>`,
    text: `${'long '.repeat(400)}\n`,
    attachments: [{ filename: 'äöü.bin', content: Buffer.alloc(70_000, 0xff).toString('base64') }],
  },
};

async function holdReceiver(
  t: Test,
  { node, records }: Awaited<ReturnType<typeof startSender>>,
  receiver: Receiver,
  box: string,
): Promise<void> {
  for (const body of Object.values(bodies)) await node.send({ to: box, ...body });
  const stored = await eventually(async () => {
    const all = await receiver.messages();
    return all.length === 2 && all;
  });
  const resolver = async (name: string) => {
    const value = records.get(name);
    if (value) return [[value]];
    throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' });
  };
  for (const message of stored.map(ownPart)) {
    const { results } = await dkimVerify(message, { resolver });
    t.same(
      results.map(({ status }) => status.result),
      ['pass', 'pass'],
    );
    if (hasDkimpy) t.same(dkimpy(message, records), [true, true], 'as another implementation sees it');
    else t.comment('dkimpy is not installed (apt-get install python3-dkim python3-nacl)');
  }
  t.ok(
    stored.some((message) => /^one\n\.\n\.\.two\n\.three\n>?From here$/m.test(message)),
    'dots arrive unchanged',
  );
  const missing = await node.send({ to: box.replace('box', 'nobody'), subject: 's', text: 't' });
  const failed = await eventually(async () => {
    const email = await node.read(missing.id);
    return email.status === 'failed' && email;
  });
  t.match(failed.recipients[0], { status: 'failed', last_response: /^550 5\.1\.1 / });
  const { body } = await node.call('GET', `/api/v1/emails/${missing.id}/attempts`, { key: node.key });
  t.match(body.attempts, [{ phase: 'rcpt', enhanced_code: '5.1.1', classification: 'bad_mailbox' }]);
}

t.test(
  'Postfix accepts our mail, and it arrives unchanged',
  { skip: !(asRoot && existsSync(postfix)) && 'needs root and Postfix (apt-get install postfix)' },
  async (t) => {
    const port = await freePort();
    const receiver = await startPostfix(t, port);
    const sender = await startSender(t, port);
    await holdReceiver(t, sender, receiver, 'box@receiver.test');
    const { node } = sender;
    const { id } = await node.send({ to: 'grüße@receiver.test', subject: 'UTF-8', text: 't' });
    await eventually(async () => (await node.read(id)).status === 'sent');
    const { body } = await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key });
    t.match(body.attempts, [{ tls_version: 'TLSv1.3', mx_host: 'mx.receiver.test' }]);
    const large = await node.send({
      to: 'box@receiver.test',
      attachments: [{ filename: 'a', content: Buffer.alloc(1_000_000).toString('base64') }],
    });
    const refused = await eventually(async () => {
      const email = await node.read(large.id);
      return email.status === 'failed' && email;
    });
    t.match(refused.recipients[0].last_response, /accepts messages of at most 1,000,000 bytes/, 'refused before DATA');
  },
);

t.test(
  'Exim accepts our mail, and it arrives unchanged',
  { skip: !(asRoot && exim) && 'needs root and Exim (exim4-daemon-light)' },
  async (t) => {
    const port = await freePort();
    const receiver = await startExim(t, port);
    await holdReceiver(t, await startSender(t, port), receiver, 'box@exim.test');
  },
);
