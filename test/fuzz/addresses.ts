import fc from 'fast-check';
import addressparser from 'nodemailer/lib/addressparser';
import { AddressError, formatMailbox, type Mailbox, parseMailbox } from '../../src/mail/address/address.ts';
import { parseAddressList } from '../../src/mail/address/address-list.ts';
import { writeAddresses } from '../../src/mail/headers/fields.ts';
import { anyAddress, plainAddress } from '../mail/addresses.ts';
import type { Target } from './target.ts';
import { equal, isOneLine, unfold } from './texts.ts';

const read = (text: string): Mailbox | null => {
  try {
    return parseMailbox(text);
  } catch (error) {
    if (error instanceof AddressError) return null;
    throw error;
  }
};

const name = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: fc.constantFrom(...'aé "\\<>,;:@.()[]=?_'), maxLength: 90 }),
  fc.constantFrom('=?utf-8?Q?a=2C_b?=', '=?utf-8?B?YQ==?= <b@c.test>', 'a@evil.test', "O'Neill, Ann"),
);

/** Everything that we accept as an address, with a name or without. */
const mailbox = fc
  .tuple(fc.option(name, { nil: null }), plainAddress)
  .map(([name, address]) => read(name === null ? address : formatMailbox({ ...parseMailbox(address), name })))
  .filter((one) => one !== null);

/** What may surround the members of a list. */
const between = fc.constantFrom(
  ',',
  ', ',
  ' , ',
  ',,',
  ', (a comment, with <b@evil.test> in it) ',
  ',(\\) nested (b))',
);

const byNodemailer = (text: string) => addressparser(text, { flatten: true }).map(({ address }) => address);
const canonical = (address: string) => {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at)}@${URL.parse(`http://${address.slice(at + 1)}`)?.hostname}`;
};

export const addresses: Target = {
  name: 'addresses',
  open: () => ({
    'an accepted address is read back as it is written, and is where nodemailer would send to': fc.property(
      anyAddress,
      (text) => {
        const one = read(text);
        if (one === null) return true;
        equal(parseMailbox(formatMailbox(one)), one);
        equal(parseMailbox(one.address), { ...one, name: null });
        const [theirs, ...more] = byNodemailer(text);
        // It takes what it does not understand for a name.
        if (theirs) equal([canonical(theirs), more], [one.address, []]);
        return true;
      },
    ),
    'a list is its members, whatever is between them': fc.property(
      fc.array(fc.tuple(mailbox, between), { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      (members, grouped) => {
        const text = members.map(([one, after]) => formatMailbox(one) + after).join('');
        const { mailboxes, holdsGroup } = parseAddressList('To', grouped ? `The group: ${text};` : text);
        equal(
          [mailboxes.map(({ address }) => address), holdsGroup],
          [members.map(([{ address }]) => address), grouped],
        );
        return true;
      },
    ),
    'a field of them is read back by us and by nodemailer': fc.property(
      fc.array(mailbox, { minLength: 1, maxLength: 8 }),
      (members) => {
        const field = writeAddresses('Reply-To', members);
        const value = unfold(field).slice('Reply-To:'.length);
        isOneLine(value);
        equal(parseAddressList('Reply-To', value).mailboxes, members);
        equal(
          byNodemailer(value),
          members.map(({ address }) => address),
        );
        return true;
      },
    ),
  }),
};
