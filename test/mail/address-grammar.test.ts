import fc from 'fast-check';
import t from 'tap';
import { AddressError, type Mailbox, parseMailbox } from '../../src/mail/address/address.ts';
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

/** RFC 5321 section 4.1.2 as a server reads it, without the parts that we leave out. */
const rcpt =
  /^RCPT TO:<([^\s<>@"(),:;\\[\]\p{C}]{1,64})@((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]*[a-z][a-z0-9-]*)>$/u;

/** What is wrong with an accepted address, or null. */
function problem(text: string, { local, domain, address }: Mailbox): string | null {
  const [, sentLocal, sentDomain] = rcpt.exec(`RCPT TO:<${address}>`) ?? [];
  if (sentLocal !== local || sentDomain !== domain) return `is another one by the time it is sent: ${address}`;
  // Found independently: the parts around the last @, within angle brackets if there are any.
  const [, inner = text] = /<([^<>]*)> *$/.exec(text) ?? [];
  const [before = '', after = '', more] = inner.replaceAll(/^ +| +$/g, '').split('@');
  if (more !== undefined || before !== local) return `has another local part: ${local}`;
  const host = new URL(`http://${after}`).hostname;
  return host === domain ? null : `has another domain: ${domain}`;
}

t.test('INJ-08: an accepted address is one address, and still the same when it is sent', async (t) => {
  let taken = 0;
  const property = fc.property(anyAddress, (text) => {
    const mailbox = read(text);
    if (mailbox === null) return;
    taken += 1;
    const wrong = problem(text, mailbox);
    if (wrong) throw new Error(`${show(text)} ${wrong}`);
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns }));
  t.ok(taken > numRuns / 10 && taken < numRuns * 0.9, `${taken} of ${numRuns} were accepted`);
});

t.test('INJ-08: addresses that every server accepts are accepted', async (t) => {
  const property = fc.property(plainAddress, (text) => {
    const mailbox = read(text);
    const domain = text.slice(text.indexOf('@') + 1).toLowerCase();
    return mailbox?.address === `${text.slice(0, text.indexOf('@'))}@${domain}` && problem(text, mailbox) === null;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: numRuns / 10 }));
});

t.test(
  'INJ-09, SSRF-10: an address that leads elsewhere, or to nothing that can be looked up, is refused',
  async (t) => {
    for (const text of [...odd, ...unreachable]) t.equal(read(text), null, show(text));
  },
);
