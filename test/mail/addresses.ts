import fc from 'fast-check';

const from = (characters: string, most: number, least = 1) =>
  fc.string({ unit: fc.constantFrom(...characters), minLength: least, maxLength: most });

const lowerCase = 'abcdefghijklmnopqrstuvwxyz';
const letters = `${lowerCase}${lowerCase.toUpperCase()}0123456789`;
const joined = (parts: fc.Arbitrary<string>, separator: string, [least, most]: [number, number]) =>
  fc.array(parts, { minLength: least, maxLength: most }).map((all) => all.join(separator));

/** RFC 5321 section 4.1.2, Dot-string, with the characters of RFC 6531. */
const dotString = joined(from(`${letters}!#$%&'*+-/=?^_\`{|}~`, 8), '.', [1, 4]);
const internationalized = joined(from(`${letters}üßñ字и-`, 6), '.', [1, 3]);
const label = fc
  .tuple(from(letters, 1), from(`${letters}-`, 10, 0), from(letters, 1))
  .map((parts) => parts.join(''))
  // A label that begins with xn-- is valid only if it stands for other characters.
  .filter((text) => !text.toLowerCase().startsWith('xn--'));
const domain = fc.tuple(joined(label, '.', [1, 3]), fc.constantFrom('test', 'Example')).map((parts) => parts.join('.'));
const uDomain = fc.constantFrom('bücher.test', 'ПОЧТА.test', '例え.test', 'straße.example', '例え。test');

/** Quoted-string, whose content would be another address or command if somebody removed the quotes. */
const quotedString = joined(
  fc.oneof(from(`${letters} ,;:<>@()[].`, 5), fc.constantFrom('\\"', '\\\\', '\\@', '\\ ', 'b@evil.test', '> SIZE=1')),
  '',
  [0, 4],
).map((text) => `"${text}"`);
const literal = fc.oneof(
  fc.ipV4().map((ip) => `[${ip}]`),
  fc.ipV6().map((ip) => `[IPv6:${ip}]`),
  from(letters, 5).map((tag) => `[${tag}:x]`),
);

/** Addresses that any server must accept, and no part of the grammar that we leave out. */
export const plainAddress = fc
  .tuple(dotString, domain)
  .map(([local, host]) => `${local}@${host}`)
  .filter((text) => text.split('@').every((part, at) => part.length <= (at === 0 ? 64 : 180)));

/** Everything that RFC 5321 calls a Mailbox or a Path, RFC 5322 a mailbox, and RFC 6531 either. */
const address = fc
  .tuple(fc.oneof(dotString, internationalized, quotedString), fc.oneof(domain, uDomain, literal))
  .map((parts) => parts.join('@'));
const path = fc.oneof(
  address,
  address.map((text) => `<${text}>`),
  fc.tuple(joined(domain, ',@', [1, 2]), address).map(([route, text]) => `<@${route}:${text}>`),
  fc.tuple(from(`${letters} `, 8), address).map(([name, text]) => `${name} <${text}>`),
  fc.tuple(quotedString, address).map(([name, text]) => `${name} <${text}>`),
);

/** Characters that end a command, a path, a local part or a domain for one reader but not for another. */
const pieces = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\0',
    '\t',
    '\x1b',
    '\x7f',
    '\x85',
    '\u2028',
    '\r\nRCPT TO:<v@evil.test>',
    '>\r\nRCPT TO:<v@evil.test',
  ],
  ...[
    ' ',
    '<',
    '>',
    '@',
    '"',
    '\\',
    ',',
    ';',
    ':',
    '(',
    ')',
    '[',
    ']',
    '.',
    '..',
    '%',
    '=',
    '/',
    '?',
    '#',
    '!',
    '|',
    '-',
    '\\"',
  ],
  ...[
    ' SIZE=1',
    ' NOTIFY=NEVER',
    '>> ',
    '(@evil.test)',
    '@evil.test',
    '%evil.test',
    '@evil.test:',
    ',b@evil.test',
    ':25',
    '%00',
    '%0d%0a',
  ],
  ...[
    '\uff20',
    '\uff0e',
    '\u3002',
    '\u2024',
    '\uff1e',
    '\u00ad',
    '\u200b',
    '\u202e',
    '\ufeff',
    '\u00a0',
    '\ud800',
    'ſ',
    'K',
    'ﬁ',
    '①',
  ],
];
const mutation = fc.tuple(fc.nat(), fc.nat(4), fc.constantFrom(...pieces));

/** Inserts a piece, removes characters, or repeats something, in a random place. */
function mutated(text: string, changes: [at: number, taken: number, piece: string][]): string {
  return changes.reduce((now, [at, taken, piece]) => {
    const place = at % (now.length + 1);
    return now.slice(0, place) + piece + now.slice(place + taken);
  }, text);
}

/** Anything between a valid address and none: the grammar, with up to three changes to the result. */
export const anyAddress = fc.oneof(
  path,
  fc
    .tuple(fc.oneof(path, plainAddress), fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([text, changes]) => mutated(text, changes)),
);

/** Addresses that others have fallen for, or that lead outside of what can be looked up. */
export const odd = [
  ...[
    'a>\r\nRCPT TO:<v@evil.test',
    'a@b.test>\r\nRCPT TO:<v@evil.test',
    'a@b.test\r\nRCPT TO:<v@evil.test>',
    'a@b.test\nDATA',
  ],
  ...[
    'a@b.test> SIZE=1',
    'a@b.test SIZE=1',
    'a@b.test>SIZE=1',
    'a b@c.test',
    '<a@b.test',
    'a@b.test>',
    '<<a@b.test>>',
    '<>',
  ],
  ...[
    '"a b"@x.test',
    '"\r\n"@x.test',
    '"a\\\r\nb"@x.test',
    '"a@evil.test"@good.test',
    '"a@evil.test x"@good.test',
    '"a"b"@x.test',
  ],
  ...[
    '<@evil.test:a@b.test>',
    '@evil.test:a@b.test',
    '@evil.test,@c.test:a@b.test',
    'a@b@c.test',
    'a@evil.test@good.test',
  ],
  ...[
    'a(x)@b.test',
    'a@b.test(@evil.test)',
    'a@(evil.test)b.test',
    '(a@evil.test) b@c.test',
    'a@good.test(@evil.test)',
  ],
  ...[
    'group: a@b.test;',
    'group:a@b.test,c@d.test;',
    'undisclosed:;',
    '<a@x.test>b@y.test',
    'a@x.test <b@y.test>',
    '<a@x.test> <b@y.test>',
  ],
  ...[
    'a@evil.test,b@good.test',
    'a@evil.test;b@good.test',
    'a@evil.test b@good.test',
    'a@good.test\0@evil.test',
    'a\0@good.test',
  ],
  ...[
    'a@good.test%evil.test',
    'evil.test!a',
    'a@good.test/evil.test',
    'a@good.test#@evil.test',
    'a@good.test?x',
    'a\uff20evil.test@good.test',
  ],
  ...[
    'a@good\uff0eevil\u3002',
    'a@good.test.',
    '.a@good.test',
    'a..b@good.test',
    '=?utf-8?Q?a=40evil.test?=@good.test\r\n',
  ],
];

/** Strings that are not domains: none of them is ever looked up or connected to. */
export const unreachable = [
  ...[
    'user@[127.0.0.1]',
    'user@[IPv6:::1]',
    'user@[IPv6:fe80::1%eth0]',
    'user@[::1]',
    'user@[x]',
    'user@[127.0.0.1',
    'user@127.0.0.1]',
  ],
  ...[
    'user@localhost',
    'user@LOCALHOST',
    'user@localhost.',
    'user@mx',
    'user@127.0.0.1',
    'user@127.1',
    'user@2130706433',
    'user@0x7f000001',
  ],
  ...[
    'user@0x7f.1',
    'user@①②⑦.0.0.1',
    'user@127。0。0。1',
    'user@::1',
    'user@host:2525',
    'user@host.test:2525',
    'user@host.test:',
    'user@[127.0.0.1]:25',
  ],
  ...['user@host.test/25', 'user@host.test,25', 'user@host.test 25', 'user@1.2.3.4.', 'user@0177.0.0.1', 'user@a.0x1'],
];
