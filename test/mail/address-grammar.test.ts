import fc from 'fast-check';
import t from 'tap';
import { AddressError, type Mailbox, parseMailbox } from '../../src/mail/address.ts';
import { anyAddress, odd, plainAddress, unreachable } from './addresses.ts';
import { show } from './payloads.ts';

const numRuns = 3_000;

const read = (text: string): Mailbox | null => {
  try {
    return parseMailbox(text);
  } catch (error) {
    if (error instanceof AddressError) return null;
    throw error;
  }
};

/** RFC 5321 section 4.1.2 as a server reads it, without what we leave out of it. */
const rcpt =
  /^RCPT TO:<([^\s<>@"(),:;\\[\]\p{C}]{1,64})@((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]*[a-z][a-z0-9-]*)>$/u;

/** What is wrong with an address that was taken; null when nothing is. */
function problem(text: string, { local, domain, address }: Mailbox): string | null {
  const [, sentLocal, sentDomain] = rcpt.exec(`RCPT TO:<${address}>`) ?? [];
  if (sentLocal !== local || sentDomain !== domain) return `is another one by the time it is sent: ${address}`;
  // Found again by other means: what stands around the last @, in angle brackets where there are some.
  const [, inner = text] = /<([^<>]*)> *$/.exec(text) ?? [];
  const [before = '', after = '', more] = inner.replaceAll(/^ +| +$/g, '').split('@');
  if (more !== undefined || before !== local) return `has another local part: ${local}`;
  const host = new URL(`http://${after}`).hostname;
  return host === domain ? null : `has another domain: ${domain}`;
}

t.test('INJ-08: what is taken is one address, and the same one when it is sent', async (t) => {
  let taken = 0;
  const property = fc.property(anyAddress, (text) => {
    const mailbox = read(text);
    if (mailbox === null) return;
    taken += 1;
    const wrong = problem(text, mailbox);
    if (wrong) throw new Error(`${show(text)} ${wrong}`);
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns }));
  t.ok(taken > numRuns / 10 && taken < numRuns * 0.9, `${taken} of ${numRuns} were taken`);
});

t.test('INJ-08: and all that any server takes is taken', async (t) => {
  const property = fc.property(plainAddress, (text) => {
    const mailbox = read(text);
    const domain = text.slice(text.indexOf('@') + 1).toLowerCase();
    return mailbox?.address === `${text.slice(0, text.indexOf('@'))}@${domain}` && problem(text, mailbox) === null;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: numRuns / 10 }));
});

t.test('INJ-09, SSRF-10: what leads elsewhere, or nowhere that can be looked up, is refused', async (t) => {
  for (const text of [...odd, ...unreachable]) t.equal(read(text), null, show(text));
});
