import fc from 'fast-check';
import { readComplaint } from '../../src/mail/returns/arf.ts';
import { readNotice } from '../../src/mail/returns/dsn.ts';
import { bounce, complaint } from '../inbound/returned.ts';
import { bounces } from '../mail/bounces/index.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

const soonMs = 2_000;

const pieces = [
  '\r\n',
  '\n\n',
  '--b\r\n',
  '--b--',
  'Content-Type: multipart/mixed; boundary=b\r\n\r\n',
  '\0',
  '\xff',
  '=?utf-8?Q?',
].concat([
  'Content-Transfer-Encoding: base64\r\n',
  'Final-Recipient: rfc822; a@b.test\r\n',
  'Action: failed\r\n',
  'Status: 5.1.1\r\n',
  'Feedback-Type: abuse\r\n',
  '<a@b.test>: 550 5.1.1 no such user\r\n',
  'boundary="',
  'a@'.repeat(500),
  '<'.repeat(500),
]);

/** A message as servers write it, with bytes removed, inserted and repeated; or anything at all. */
const mangled = fc
  .tuple(
    fc.constantFrom(...bounces.map(({ message }) => message)),
    fc.array(
      fc.tuple(fc.nat(), fc.nat(60), fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 9 })), fc.nat(30)),
      { maxLength: 6 },
    ),
  )
  .map(([message, changes]) => {
    let text = message.toString('latin1');
    for (const [at, taken, piece, times] of changes) {
      const place = at % (text.length + 1);
      text = text.slice(0, place) + piece.repeat(times) + text.slice(place + taken);
    }
    return Buffer.from(text, 'latin1');
  });
const anything = fc.oneof(
  { weight: 4, arbitrary: mangled },
  fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)),
);

const local = fc
  .string({ unit: fc.constantFrom(...'abz09._-'), minLength: 1, maxLength: 12 })
  .filter((text) => /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/.test(text));
const address = fc
  .tuple(local, fc.constantFrom('one.test', 'two.example', 'mail.three.test'))
  .map((parts) => parts.join('@'));

const actions = {
  failed: 'failed',
  delayed: 'delayed',
  delivered: 'delivered',
  relayed: 'relayed',
  expanded: 'expanded',
} as const;
const group = fc.record({
  to: address,
  action: fc.constantFrom(...(Object.keys(actions) as (keyof typeof actions)[])),
  status: fc
    .tuple(fc.constantFrom(4, 5), fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 30 }))
    .map((parts) => parts.join('.')),
  code: fc.integer({ min: 400, max: 599 }),
});

const crlf = (text: string) => Buffer.from(text.replaceAll('\n', '\r\n'));

export const returned: Target = {
  name: 'returned',
  open: () => ({
    'any bytes are read in time, and the result is bounded': fc.property(anything, (bytes) => {
      const { kind, recipients } = readNotice(bytes);
      const report = readComplaint(bytes);
      let took = Number.POSITIVE_INFINITY;
      // Again if the machine stood still meanwhile.
      for (let again = 0; again < 5 && took >= soonMs; again += 1) {
        const began = performance.now();
        readNotice(bytes);
        readComplaint(bytes);
        took = performance.now() - began;
      }
      hold(took < soonMs, `took ${took} ms`);
      hold(recipients.length <= 100 && (report?.tokens.length ?? 0) <= 50, 'is not bounded');
      for (const { address, diagnostic, status, code } of recipients) {
        hold((address?.length ?? 0) <= 320 && (diagnostic?.length ?? 0) <= 10_000, 'has text that is not bounded');
        hold(status === null || /^[245]\.\d{1,3}\.\d{1,3}$/.test(status), `has the status ${status}`);
        hold(code === null || (code >= 200 && code <= 599), `has the code ${code}`);
      }
      hold(
        recipients.length > 0 === ['bounce', 'delay', 'relayed'].includes(kind),
        `is ${kind} for ${recipients.length}`,
      );
      return true;
    }),
    'a delivery report is read as it was written, whatever its line ends': fc.property(
      fc.array(group, { minLength: 1, maxLength: 6 }),
      fc.boolean(),
      (groups, unix) => {
        const text = bounce(
          ...groups.map(({ code, status, ...rest }) => ({ ...rest, status, said: `${code} ${status} told so` })),
        );
        const { kind, recipients } = readNotice(unix ? Buffer.from(text) : crlf(text));
        equal(
          recipients.map(({ address, action, status, code }) => [address, action, status, code]),
          groups.map(({ to, action, status, code }) => [to, action, status, code]),
        );
        const has = (action: string) => groups.some((one) => one.action === action);
        equal(kind, has('failed') ? 'bounce' : has('delayed') ? 'delay' : 'relayed');
        return true;
      },
    ),
    'a feedback report is read as it was written': fc.property(
      fc.constantFrom('abuse', 'fraud', 'virus', 'other', 'opt-out', 'not-spam', 'auth-failure'),
      fc.array(address, { maxLength: 4 }),
      fc.stringMatching(/^[a-z0-9]{8,40}$/),
      fc.uuid(),
      (type, recipients, token, id) => {
        const fields = recipients.map((one) => `Original-Rcpt-To: <${one}>\n`).join('');
        const header = `Return-Path: <${token}@mail.sender.test>\nMessage-ID: <${id}@sender.test>\nSubject: s\n`;
        const read = readComplaint(crlf(complaint(header, fields, type)));
        if (type === 'not-spam' || type === 'auth-failure') equal(read, null);
        else
          equal(read, {
            kind: type === 'opt-out' ? 'unsubscribe' : 'complaint',
            type,
            tokens: [`${token}@mail.sender.test`],
            recipients,
          });
        return true;
      },
    ),
  }),
};
