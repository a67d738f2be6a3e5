import { decodeWords } from 'postal-mime';
import t from 'tap';
import { writeOther } from '../../src/mail/headers/fields.ts';
import { refuseHeader } from '../../src/mail/headers/headers.ts';
import { readSubmission } from '../../src/mail/submission/submission.ts';
import { composed, message } from './parts.ts';

const long = `<https://example.com/${'u'.repeat(100)}?next=?x>`;

t.test('the machine-readable parts of a field are never encoded-words (RFC 2047 section 5)', async (t) => {
  const table: [name: string, value: string, written: string][] = [
    ['List-Unsubscribe', '<https://example.com/u?a=b&next=?x>', '<https://example.com/u?a=b&next=?x>'],
    ['List-Unsubscribe', `${long}, <mailto:u=?x@b.example>`, `${long},\r\n <mailto:u=?x@b.example>`],
    ['List-Unsubscribe', '<a?b=?c>,<d?e=?f>', '<a?b=?c>,<d?e=?f>'],
    [
      'List-Help',
      '<https://a.example/?=?> (Hilfe für alle)',
      '<https://a.example/?=?> (Hilfe =?utf-8?Q?f=C3=BCr?= alle)',
    ],
    ['In-Reply-To', '<abc=?utf@example.com>', '<abc=?utf@example.com>'],
    ['References', '<a@b.example> <=?utf-8?Q?a?=@c>', '<a@b.example> <=?utf-8?Q?a?=@c>'],
    ['List-Id', '"Größe, News" <n.b.example>', '=?utf-8?B?R3LDtsOfZSwgTmV3cw==?= <n.b.example>'],
    ['List-Id', '"Größe" and "more"<n.b.example>', '=?utf-8?Q?Gr=C3=B6=C3=9Fe_and_more?= <n.b.example>'],
    ['List-Id', '"a \\"b\\" ü" <n.b.example>', '=?utf-8?B?YSAiYiIgw7w=?= <n.b.example>'],
    ['List-Id', 'My Zoë list <l.b.example>', 'My =?utf-8?Q?Zo=C3=AB?= list <l.b.example>'],
    ['List-Id', '"News" <n.b.example>', '"News" <n.b.example>'],
    ['List-Post', 'NO', 'NO'],
    ['List-Post', `NO${' '.repeat(1_500)}(none)`, 'NO (none)'],
    [
      'List-Unsubscribe',
      '<a?=?> (für A) , <b?=?> (für B)',
      '<a?=?> =?utf-8?B?KGbDvHI=?= A) , <b?=?>\r\n =?utf-8?B?KGbDvHI=?= B)',
    ],
    [
      'List-Post',
      '<mailto:a@b.example>, <https://b.example/> (für B)',
      '<mailto:a@b.example>, <https://b.example/> =?utf-8?B?KGbDvHI=?=\r\n B)',
    ],
    ['Disposition-Notification-To', '"Müller, Anna" <a@b.example>', '=?utf-8?Q?M=C3=BCller=2C_Anna?= <a@b.example>'],
    ['Return-Receipt-To', 'a@b.example, Zoë <z@b.example>', 'a@b.example, =?utf-8?Q?Zo=C3=AB?= <z@b.example>'],
    ['errors-to', '"=?x" <z@bücher.example>', '=?utf-8?B?PT94?= <z@xn--bcher-kva.example>'],
    ['Errors-To', '"News, all" <z@b.example>', '"News, all" <z@b.example>'],
    ['Errors-To', 'root', 'root'],
    ['X-Text', '"Größe, News" <n.b.example>', '=?utf-8?B?Ikdyw7bDn2Us?= News" <n.b.example>'],
  ];
  for (const [name, value, written] of table) {
    t.equal(refuseHeader(name, value), null, value);
    const field = writeOther(name, value);
    t.equal(field.replace(/^[^:]*:(?:\r\n)? /, ''), `${written}\r\n`, value);
    t.notMatch(decodeWords(field.replaceAll(/<[^<>]*>/g, '')), /=\?utf-8/);
  }
});

t.test('no line with an encoded-word is longer than 76 columns (RFC 2047 section 2)', async (t) => {
  const long = 'ü'.repeat(60);
  for (const [name, value] of [
    ['List-Id', `${long} <n.b.example>`],
    ['List-Help', `<https://a.example/> ${long}`],
    ['Return-Receipt-To', `${long} <a@b.example>, ${long} <c@d.example>`],
  ] as const)
    for (const line of writeOther(name, value).split('\r\n')) t.ok(line.length <= 76, line);
});

t.test('a composed message has them like that', async (t) => {
  const headers = [
    { name: 'List-Unsubscribe', value: '<https://example.com/u?a=b&next=?x>' },
    { name: 'Disposition-Notification-To', value: '"Müller, Anna" <a@b.example>' },
  ];
  const lines = (await composed(message({ headers }))).toString().split('\r\n');
  t.ok(lines.includes('List-Unsubscribe: <https://example.com/u?a=b&next=?x>'));
  t.ok(lines.includes('Disposition-Notification-To: =?utf-8?Q?M=C3=BCller=2C_Anna?= <a@b.example>'), lines.join('\n'));
});

t.test('values that cannot be written like that are refused, but waiting emails go out', async (t) => {
  const ascii = 'contains characters within <...> that are not ASCII: percent-encode them';
  const table: [name: string, value: string, refused: string][] = [
    ['List-Unsubscribe', '<https://example.com/größe>', ascii],
    ['list-unsubscribe', '<mailto:a@b.example>, <mailto:ä@b.example>', ascii],
    ['In-Reply-To', '<ä@b.example>', ascii],
    ['Disposition-Notification-To', 'Müller, Anna <a@b.example>', 'contains an invalid address: not an email address'],
    ['Errors-To', 'Zoë', 'contains an invalid address: not an email address'],
    ['Errors-To', '"Zoë <a@b.example>', 'contains an invalid address: a quote, a comment or an address is not closed'],
    ['Errors-To', '(Zoë)', 'contains no address'],
    ['Errors-To', 'x'.repeat(901), 'has more than 900 characters without a space'],
    ['Return-Receipt-To', 'jörg@b.example', 'contains an address that needs SMTPUTF8'],
  ];
  for (const [name, value, refused] of table) {
    t.equal(refuseHeader(name, value), refused, value);
    t.match(writeOther(name, value), new RegExp(`^${name}: (?:[ -~]|\r\n )*\r\n$`), value);
  }
});

t.test('the ids of a long thread are kept although they exceed the limit of other values', async (t) => {
  const ids = Array.from({ length: 90 }, (_, n) => `<${n}=?utf-8?Q?x?=@mail.example.com>`);
  const value = `${ids.slice(0, 45).join(' ')}  ${ids.slice(45).join(' ')}`;
  t.ok(value.length > 2_000);
  t.equal(refuseHeader('References', value, 10_000), null);
  const field = writeOther('References', value);
  t.strictSame(field.trim().split(/\s+/).slice(1), ids);
  t.ok(field.split('\r\n').every((line) => line.length <= 76));
});

t.test('submissions: names in encoded-words, and ids made by others', async (t) => {
  const read = async (field: string) => {
    const { headers } = await readSubmission(Buffer.from(`From: a@b.test\r\n${field}\r\n\r\nx`));
    return headers.map(({ name, value }) => `${name}: ${value}`);
  };
  t.strictSame(await read('Disposition-Notification-To: =?utf-8?Q?M=C3=BCller=2C_Anna?= <a@b.test>'), [
    'Disposition-Notification-To: "Müller, Anna" <a@b.test>',
  ]);
  t.strictSame(await read('Errors-To: root'), ['Errors-To: root']);
  t.strictSame(await read('In-Reply-To: <ä@b.test>'), []);
  t.strictSame(await read('References: <a@b.test> <ä@b.test>\r\n <c=?d@b.test>'), [
    'References: <a@b.test> <c=?d@b.test>',
  ]);
  await t.rejects(read('List-Unsubscribe: <https://b.test/ä>'), {
    message: 'List-Unsubscribe: contains characters within <...> that are not ASCII: percent-encode them',
  });
});
