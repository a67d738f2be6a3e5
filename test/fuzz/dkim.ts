import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { compose } from '../../src/mail/compose/compose.ts';
import { signHeader } from '../../src/mail/compose/dkim.ts';
import { type DkimAlgorithm, dnsValue, generateKeyPair, parsePrivateKey } from '../../src/mail/compose/dkim-key.ts';
import { anyMessage } from './messages.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

const domain = 'sender.example';

async function keyOf(algorithm: DkimAlgorithm) {
  const { privateKey, publicKey } = await generateKeyPair(algorithm);
  return {
    key: { domain, selector: algorithm, privateKey: parsePrivateKey(privateKey) },
    record: dnsValue(publicKey, algorithm),
  };
}

export const dkim: Target = {
  name: 'dkim',
  quick: 30,
  async open() {
    const keys = [await keyOf('rsa'), await keyOf('ed25519')];
    const resolver = async (name: string) => {
      const found = keys.find(({ key }) => name === `${key.selector}._domainkey.${domain}`);
      if (!found) throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' });
      return [[found.record]];
    };
    const verdicts = async (bytes: Buffer) =>
      (await dkimVerify(bytes, { resolver })).results.map(({ status }) => status.result);
    const sign = async (parts: Parameters<typeof compose>[0]) => {
      const { header, body } = await compose(parts);
      const all = keys.map(({ key }) => key);
      const signatures = await signHeader(header, body.hash, all, new Date('2026-11-20T10:11:12Z'));
      return { signatures, header, body: body.bytes };
    };
    return {
      'mailauth verifies both signatures of any message': fc.asyncProperty(anyMessage, async (parts) => {
        const { signatures, header, body } = await sign(parts);
        equal(await verdicts(Buffer.concat([signatures, header, body])), ['pass', 'pass']);
      }),
      'and neither once a letter is added, or a field that a reader would take for ours': fc.asyncProperty(
        anyMessage,
        fc.nat(),
        fc.constantFrom('From: x@evil.test\r\n', 'Subject: another\r\n', 'Reply-To: x@evil.test\r\n', null),
        async (parts, at, field) => {
          const { signatures, header, body } = await sign(parts);
          const place = at % (body.length + 1);
          const changed = field
            ? [signatures, Buffer.from(field), header, body]
            : [signatures, header, body.subarray(0, place), Buffer.from('!'), body.subarray(place)];
          const found = await verdicts(Buffer.concat(changed));
          hold(found.length === 2 && !found.includes('pass'), `verifies: ${found.join(' ')}`);
        },
      ),
    };
  },
};
