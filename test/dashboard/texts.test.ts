import { spawnSync } from 'node:child_process';
import t from 'tap';
import type { Email, EmailContent, EmailWithRecipients, Session } from '../../src/client/index.ts';
import { readSuppressionsCsv } from '../../src/client/index.ts';
import { adviceOf } from '../../src/core/log/advice.ts';
import { ownAddress, sameEmail, whyNoCall } from '../../src/dashboard/words/commands.ts';
import { firstEmail } from '../../src/dashboard/words/first-email.ts';
import {
  addressIn,
  bytes,
  compact,
  duration,
  emailIdIn,
  exact,
  forPeople,
  hostIn,
  lastingSince,
  messageIdOf,
  percent,
  plural,
  relative,
  storedAs,
  whatBecame,
} from '../../src/dashboard/words/format.ts';

/** What a shell makes of a command: the arguments that curl would get. */
function argumentsOf(command: string): string[] {
  const { stdout } = spawnSync('sh', ['-c', `curl() { for one; do printf '%s\\0' "$one"; done; }\n${command}`]);
  return String(stdout).split('\0').slice(0, -1);
}

t.test('what is copied as curl is what was sent, whatever it says', async (t) => {
  const subject = `It's "quoted" $(touch x) \`y\` \\ ; & | !\n#`;
  const email = {
    from: 'Ann <a@b.test>',
    cc: [],
    bcc: ['c@d.test'],
    reply_to: [],
    subject,
    tags: ["t'1"],
    type: 'marketing',
    tls: 'required',
    on_uncertain: 'hold',
  };
  const content: EmailContent = {
    html: "<p class='x'>it's</p>",
    text: null,
    headers: [{ name: 'X-A', value: "b'c" }],
    attachments: [{ filename: 'a.txt', content_type: 'text/plain', content_id: 'a1', size: 3 }],
  };
  const given = argumentsOf(
    sameEmail('http://localhost:3000', ['e@f.test'], email as unknown as EmailWithRecipients, content),
  );
  t.strictSame(given.slice(0, 5), [
    'http://localhost:3000/api/v1/emails',
    '-H',
    'X-API-Key: sk_live_…',
    '-H',
    'Content-Type: application/json',
  ]);
  t.strictSame(JSON.parse(given.at(-1) ?? ''), {
    from: 'Ann <a@b.test>',
    to: ['e@f.test'],
    bcc: ['c@d.test'],
    subject,
    html: "<p class='x'>it's</p>",
    headers: { 'X-A': "b'c" },
    tags: ["t'1"],
    type: 'marketing',
    tls: 'required',
    on_uncertain: 'hold',
    attachments: [{ filename: 'a.txt', content_type: 'text/plain', content_id: 'a1', content: 'BASE64' }],
  });
  const plain = { from: 'a@b.test', subject, type: 'transactional', tls: 'opportunistic', on_uncertain: 'retry' };
  const plainContent = { html: null, text: 'x', headers: [], attachments: [] };
  const command = sameEmail(
    'http://localhost:3000',
    ['e@f.test'],
    plain as unknown as EmailWithRecipients,
    plainContent,
  );
  t.strictSame(
    JSON.parse(argumentsOf(command).at(-1) ?? ''),
    { from: 'a@b.test', to: ['e@f.test'], subject, text: 'x' },
    'without what a call does by itself',
  );
  for (const [lacks, words] of [
    [{ subject: '' }, 'A call needs a subject, which'],
    [{ html: null }, 'A call needs a text, which'],
    [{ subject: '', html: '' }, 'A call needs a subject and a text, which'],
  ] as const)
    t.match(whyNoCall({ ...email, ...lacks } as unknown as Email, { ...content, ...lacks }), new RegExp(`^${words}`));
  t.equal(whyNoCall(email as unknown as Email, content), null);
});

t.test(
  'the first email goes to the sandbox or to whoever is logged in, never to an address that does not exist',
  async (t) => {
    const sessionOf = (sandbox: boolean, email: string) =>
      ({ service: { base_url: 'http://localhost:3000', sandbox }, user: { email } }) as Session;
    const cases: [sandbox: boolean, email: string, to: string | null][] = [
      [true, 'ann@shop.example', 'you@anywhere.test'],
      [false, 'ann@shop.example', 'ann@shop.example'],
      // With which a server is first logged in to.
      [false, 'admin@localhost', null],
    ];
    for (const [sandbox, email, to] of cases) {
      const session = sessionOf(sandbox, email);
      const [url, , key, , , , body = '{}'] = argumentsOf(firstEmail(session, 'example.test', 'sk_live_x'));
      t.strictSame(
        [ownAddress(session), url, key, JSON.parse(body).to],
        [to, 'http://localhost:3000/api/v1/emails', 'X-API-Key: sk_live_x', [to ?? 'you@…']],
      );
    }
  },
);

t.test('a file of addresses is read as other services write it', async (t) => {
  const file = [
    '\ufeffemail,reason,created',
    'a@b.test',
    '"b@b.test","Bounce","2026-01-01, 09:00"',
    'c@b.test,manual,x',
    '  d@b.test , COMPLAINT ',
    'no address',
    ' ',
    '"e""e@b.test"',
    '',
  ].join('\r\n');
  t.strictSame(readSuppressionsCsv(file), {
    entries: [
      { line: 2, address: 'a@b.test' },
      { line: 3, address: 'b@b.test', reason: 'bounce' },
      { line: 4, address: 'c@b.test', reason: 'manual' },
      { line: 5, address: 'd@b.test', reason: 'complaint' },
      { line: 8, address: 'e"e@b.test' },
    ],
    // Not the head, and not those that are empty.
    leftOut: 1,
    subscribed: 0,
  });
  t.equal(readSuppressionsCsv('a@b.test\nnobody\nno one').leftOut, 2);
  const files: [text: string, entries: object[], leftOut?: number][] = [
    ['sender,address,reason\nhello@a.test,b@b.test,bounce', [{ line: 2, address: 'b@b.test', reason: 'bounce' }]],
    ['a@b.test,c@b.test', [], 1],
    ['EmailAddress,SuppressionReason\na@b.test,HardBounce', [{ line: 2, address: 'a@b.test', reason: 'bounce' }]],
    ['status,email\n"550 <a@b.test>: no",a@b.test', [{ line: 2, address: 'a@b.test' }]],
    [
      'a@b.test,"one\ntwo",spam\nc@b.test',
      [
        { line: 1, address: 'a@b.test', reason: 'complaint' },
        { line: 3, address: 'c@b.test' },
      ],
    ],
    ['a@b.test\tunsubscribed', [{ line: 1, address: 'a@b.test', reason: 'unsubscribe' }]],
    ['5" pipe,a@b.test', [{ line: 1, address: 'a@b.test' }]],
    ['5"" pipe,a@b.test', [{ line: 1, address: 'a@b.test' }]],
    ['"Doe, John" <a@b.test>,spam', [{ line: 1, address: '"Doe, John" <a@b.test>', reason: 'complaint' }]],
    [
      'sender,email\nhello@ours.test,\nhello@ours.test\nhello@ours.test,a@b.test',
      [{ line: 4, address: 'a@b.test' }],
      2,
    ],
    ['diagnostic,sender,email\nsmtp; 550 no,hello@ours.test,a@b.test', [{ line: 2, address: 'a@b.test' }]],
    ['from,to,email\n2026-01-01,2026-02-01,a@b.test', [{ line: 2, address: 'a@b.test' }]],
    ['to,email\nc@b.test,a@b.test', [{ line: 2, address: 'c@b.test' }]],
    [
      'recipient,type,source\na@b.test,transactional,Spam Complaint',
      [{ line: 2, address: 'a@b.test', reason: 'complaint' }],
    ],
    ['name,email\nDoe, John,a@b.test', [{ line: 2, address: 'a@b.test' }]],
    ['email;note\na@b.test;one, two', [{ line: 2, address: 'a@b.test' }]],
    ['email,first_name,reason\na@b.test,Manual,bounce', [{ line: 2, address: 'a@b.test', reason: 'bounce' }]],
    ['\ufeff"email","reason"\n  "a@b.test" , "spam"', [{ line: 2, address: 'a@b.test', reason: 'complaint' }]],
    [' "a, b",x@y.test', [{ line: 1, address: 'x@y.test' }]],
  ];
  for (const [text, entries, leftOut = 0] of files)
    t.strictSame(readSuppressionsCsv(text), { entries, leftOut, subscribed: 0 }, text);
  for (const [text, line] of [
    ['email,note\na@b.test,"5 inch\nb@b.test,x\nc@b.test,x', 2],
    ['email,note\n\na@b.test,"5 inch\nb@b.test,"5 inch\nc@b.test,x', 3],
  ] as const)
    t.throws(() => readSuppressionsCsv(text), {
      name: 'SyntaxError',
      message: `line ${line}: a quote is opened there, and not closed`,
    });
  const addresses = readSuppressionsCsv('email\ra@b.test\rc@b.test\r').entries.map(({ address }) => address);
  t.strictSame(addresses, ['a@b.test', 'c@b.test'], 'as old programs end their lines');
});

t.test('an id is told from an address, and a Message-ID by its brackets', async (t) => {
  const id = '01a21d4e-201e-73d4-a43f-0d39c0e9dc6a';
  t.equal(messageIdOf({ id, from: 'a@b.test' }), `<${id}@b.test>`);
  t.equal(messageIdOf({ id, from: '"x@y.test" <a@b.test>' }), `<${id}@b.test>`);
  for (const text of [id, ` ${id.toUpperCase()} `, `<${id}@b.test>`]) t.equal(emailIdIn(text), id, text);
  for (const text of ['', 'a@b.test', `${id}@b.test`, `${id}0`, id.slice(1), `x ${id}`, `<${id}@b.test> x`])
    t.equal(emailIdIn(text), null, text);
});

t.test('an address is found in what was pasted with it, and a host in its own letters', async (t) => {
  for (const text of [
    'a@b.test',
    'Ann <a@b.test>',
    '"Ann, A." <a@b.test>',
    'mailto:a@b.test',
    '<a@b.test>,',
    'a@b.test.',
  ])
    t.equal(addressIn(text), 'a@b.test', text);
  for (const text of ['@b.test', "o'brien@b.test", 'ü@bücher.test', 'a', 'b.test', '']) t.equal(addressIn(text), text);
  t.equal(hostIn('Bücher'), 'xn--bcher-kva');
  for (const text of ['shop', '12', 'shop.', 'a b', '']) t.equal(hostIn(text), text);
  for (const text of ['SHOP', 'ü ü']) t.equal(hostIn(text), text.toLowerCase());
});

t.test('times and shares are said in few words', async (t) => {
  t.strictSame([3, 999, 2_400, 72_000, 5_400_000, 200_000_000].map(duration), [
    '3 ms',
    '999 ms',
    '2.4 s',
    '1 min',
    '2 h',
    '2 d',
  ]);
  t.strictSame([999.6, 9_960, 59_499, 59_700, 3_590_000, 86_000_000].map(duration), [
    '1.0 s',
    '10 s',
    '59 s',
    '1 min',
    '1 h',
    '1 d',
  ]);
  const now = Date.parse('2026-11-21T09:00:00Z');
  t.equal(relative(new Date(now - 90_000), now), '2 min ago');
  t.equal(relative(new Date(now + 3_700_000), now), 'in 1 h');
  t.equal(relative(new Date(now - 400), now), 'now');
  t.equal(lastingSince(new Date(now - 90_000), now), 'for 2 min');
  t.equal(lastingSince(new Date(now + 4_000), now), 'for 1 s', 'by another clock');
  t.equal(relative(new Date(now + 4_000), now, true), 'now', 'by another clock');
  t.strictSame([percent(1, 3), percent(3, 3), percent(0, 3), percent(0, 0)], ['33.3 %', '100 %', '0 %', '–']);
});

t.test('what became of an email that was just sent is said as it is', async (t) => {
  const words = (fields: Partial<Email>, onHold = false) =>
    whatBecame({ status: 'queued', error: null, ...fields } as Email, onHold);
  const later = new Date(Date.now() + 3_600_000);
  t.match(words({}), /being delivered/);
  t.match(words({}, true), /It waits because the service is on hold/);
  t.match(words({ status: 'suppressed' }, true), /^Not sent: .* suppression list/);
  t.match(words({ status: 'failed', error: 'no' }), /^Not sent: no\.$/);
  t.equal(words({ scheduled_at: later.toISOString() }), `Accepted. It will be sent ${exact(later)}.`);
  const said =
    'As `on_uncertain` is `hold` since 2026-11-21T09:00:00.123Z; say retry with POST /api/v1/emails/:id/release.';
  const at = exact(new Date('2026-11-21T09:00:00.123Z'));
  t.equal(forPeople(said), `As on_uncertain is hold since ${at}; say retry with the buttons above.`);
  const held = { lastResponse: null } as Parameters<typeof adviceOf>[0];
  for (const cause of ['uncertain', 'crashed'] as const) {
    const advice = forPeople(adviceOf(held, cause, null) ?? '');
    t.match(advice, /choose “Send again”.* “It did not”/, 'the buttons are named as they are labelled');
    t.notMatch(advice, /retry|POST|buttons/);
  }
});

t.test('numbers are short, and say neither all nor none where that is not so', async (t) => {
  t.strictSame(
    [
      [0, 10],
      [10, 10],
      [99_999, 100_000],
      [9_994, 10_000],
      [999, 1_000],
      [1, 1_000],
      [6, 10_000],
      [1, 100_000],
      [1, 3],
      [0, 0],
    ].map(([part = 0, whole = 0]) => percent(part, whole)),
    ['0 %', '100 %', '> 99.9 %', '> 99.9 %', '99.9 %', '0.1 %', '< 0.1 %', '< 0.1 %', '33.3 %', '–'],
  );
  t.strictSame([999, 1_000, 12_340, 999_960, 1_000_000].map(bytes), ['999 B', '1.0 kB', '12.3 kB', '1.0 MB', '1.0 MB']);
  t.strictSame([9_999, 10_000, 12_390].map(compact), ['9,999', '10K', '12.4K']);
  t.strictSame(
    [0, 1, 2, 1_000].map((value) => plural(value, 'email')),
    ['0 emails', '1 email', '2 emails', '1,000 emails'],
  );
  t.equal(storedAs(' Ann@Bücher.test '), 'ann@xn--bcher-kva.test');
});
