import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { compose, type MessageParts } from '../../src/mail/compose/compose.ts';
import { signHeader } from '../../src/mail/compose/dkim.ts';
import {
  type DkimKeyPair,
  dnsValue,
  generateKeyPair,
  importKeyPair,
  parsePrivateKey,
} from '../../src/mail/compose/dkim-key.ts';
import { readSubmission } from '../../src/mail/submission/submission.ts';
import { anyMessage } from '../fuzz/messages.ts';

const python = '/usr/bin/python3';
const hasDkimpy = existsSync(python) && spawnSync(python, ['-c', 'import dkim, nacl']).status === 0;

/** One message in base64 per line; the output is the verdict of Debian's dkimpy on each of its signatures. */
const program = `
import sys, json, base64, dkim
records = json.loads(sys.argv[1])
find = lambda name, timeout=5: records[name.decode().rstrip('.')].encode()
for line in sys.stdin:
    d = dkim.DKIM(base64.b64decode(line))
    count = sum(1 for name, _ in d.headers if name.lower() == b'dkim-signature')
    print(json.dumps([bool(d.verify(idx=i, dnsfunc=find)) for i in range(count)]))`;

const domain = 'sender.example';

const old = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
const pairs: Record<string, DkimKeyPair> = {
  rsa: await generateKeyPair(),
  old: importKeyPair(String(old)),
  ed: await generateKeyPair('ed25519'),
};
const keys = Object.entries(pairs).map(([selector, { privateKey }]) => ({
  domain,
  selector,
  privateKey: parsePrivateKey(privateKey),
}));
const records = Object.fromEntries(
  Object.entries(pairs).map(([selector, { publicKey, algorithm }]) => [
    `${selector}._domainkey.${domain}`,
    dnsValue(publicKey, algorithm),
  ]),
);

async function signed(parts: MessageParts): Promise<Buffer> {
  const { header, body } = await compose(parts);
  const signatures = await signHeader(header, body.hash, keys, new Date('2026-11-20T10:11:12Z'));
  return Buffer.concat([signatures, header, body.bytes]);
}

t.test(
  'another implementation accepts each signature of any message, sent directly or submitted by a client',
  { skip: !hasDkimpy && 'dkimpy is not installed (apt-get install python3-dkim python3-nacl)' },
  async (t) => {
    const messages: Buffer[] = [];
    // No client may send a NUL.
    const without = (text: string | null) => text?.replaceAll('\0', '') ?? null;
    for (const any of fc.sample(anyMessage, { numRuns: 100, seed: 20_261_126 })) {
      const parts = { ...any, text: without(any.text), html: without(any.html) };
      const direct = await signed(parts);
      const { messageId, date } = parts;
      messages.push(direct, await signed({ ...(await readSubmission(direct)), messageId, date }));
    }
    const input = messages.map((message) => message.toString('base64')).join('\n');
    const run = spawnSync(python, ['-c', program, JSON.stringify(records)], { input, maxBuffer: 1 << 20 });
    t.equal(run.status, 0, run.stderr.toString());
    const verdicts = run.stdout.toString().trimEnd().split('\n');
    t.equal(verdicts.length, 200);
    verdicts.forEach((verdict, index) => {
      if (verdict !== '[true, true, true]')
        t.fail(`${verdict}: ${messages[index]?.toString('latin1').slice(0, 5_000)}`);
    });
  },
);
