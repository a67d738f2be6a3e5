import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { sign } from '../../src/mail/compose/dkim.ts';
import {
  type DkimKey,
  dnsValue,
  generateKeyPair,
  importKeyPair,
  parsePrivateKey,
  publishedKey,
} from '../../src/mail/compose/dkim-key.ts';
import { composed } from './parts.ts';
import { dots, show, smuggling } from './payloads.ts';

const at = new Date('2026-11-20T10:11:12.999Z');
const pair = await generateKeyPair();
const key: DkimKey = { domain: 'sender.example', selector: 'sw1', privateKey: parsePrivateKey(pair.privateKey) };

const edPair = await generateKeyPair('ed25519');
const edKey: DkimKey = { domain: 'sender.example', selector: 'ed1', privateKey: parsePrivateKey(edPair.privateKey) };

const resolver = async (name: string, type: string) => {
  if (name === 'sw1._domainkey.sender.example' && type === 'TXT') return [[dnsValue(pair.publicKey)]];
  if (name === 'ed1._domainkey.sender.example' && type === 'TXT') return [[dnsValue(edPair.publicKey, 'ed25519')]];
  throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' });
};

/** mailauth's verdict: an implementation that shares no code with ours. */
async function verify(message: Buffer | string): Promise<string> {
  const { results } = await dkimVerify(Buffer.from(message), { resolver });
  return results.map(({ status }) => status.result).join(' ');
}

async function signed(message: Buffer | string): Promise<string> {
  const bytes = Buffer.from(message);
  return Buffer.concat([await sign(bytes, [key], at), bytes]).toString('latin1');
}

const full = [
  'From: Shop <shop@sender.example>',
  'To: a@b.example',
  'Subject: Hello  there \t',
  'Date: Fri, 20 Nov 2026 10:11:12 +0000',
  'Message-ID: <1@sender.example>',
  'MIME-Version: 1.0',
  'Content-Type: text/plain',
  'List-Unsubscribe: <https://x.example/u>,\r\n\t<mailto:u@x.example>',
  'X-Other: 1',
  '',
  'Hello  you \t',
  'and you',
  '',
].join('\r\n');

t.test('a signature verifies', async (t) => {
  const message = await signed(full);
  t.equal(await verify(Buffer.from(message, 'latin1')), 'pass');
  const header = message.slice(0, message.indexOf('\r\nFrom:') + 2);
  t.match(
    header,
    /^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; d=sender\.example;\r\n s=sw1; t=1795169472;\r\n/,
  );
  t.notMatch(header, / l=/);
  for (const line of header.split('\r\n')) t.ok(line.length < 78, line);
  const names = / h=([^;]+);/.exec(header)?.[1]?.replaceAll(/\s/g, '').split(':') ?? [];
  const times = (name: string) => names.filter((each) => each === name).length;
  for (const name of [
    'From',
    'To',
    'Subject',
    'Date',
    'Message-ID',
    'MIME-Version',
    'Content-Type',
    'List-Unsubscribe',
  ])
    t.equal(times(name), 2, name);
  for (const name of ['Cc', 'Reply-To', 'List-Unsubscribe-Post']) t.equal(times(name), 1, name);
  t.equal(times('X-Other'), 0);
});

t.test('what relays do to a message does not break the signature', async (t) => {
  const message = await signed(full);
  for (const [what, changed] of [
    ['a trace header', `Received: from x\r\n${message}`],
    ['another header', message.replace('X-Other: 1', 'X-Other: 2')],
    ['refolding', message.replace('To: a@b', 'To:\r\n\ta@b').replace('Hello  there \t', 'Hello there')],
    ['white space in the body', message.replace('Hello  you \t', 'Hello\tyou')],
    ['empty lines at the end', `${message}\r\n\r\n`],
    ['the case of a name', message.replace('\r\nSubject:', '\r\nSUBJECT :')],
  ] as const) {
    t.equal(await verify(Buffer.from(changed, 'latin1')), 'pass', what);
  }
});

t.test('what an attacker does breaks it', async (t) => {
  const message = await signed(full);
  const start = message.indexOf('\r\nFrom:') + 2;
  const insert = (header: string) => `${message.slice(0, start)}${header}\r\n${message.slice(start)}`;
  for (const [what, changed] of [
    ...[
      'From: ceo@bank.example',
      'To: x@y.example',
      'Cc: x@y.example',
      'Subject: x',
      'Date: x',
      'Message-ID: <x>',
      'Reply-To: x@y.example',
    ].flatMap(
      (header) =>
        [
          [`${header} at the front`, `${header}\r\n${message}`],
          [`${header} after the signature`, insert(header)],
          [`${header} at the end`, message.replace('\r\nX-Other: 1', `\r\n${header}\r\nX-Other: 1`)],
        ] as const,
    ),
    ...[
      'MIME-Version: 1.1',
      'Content-Type: text/html',
      'Content-Transfer-Encoding: base64',
      'List-Unsubscribe: <x:>',
      'List-Unsubscribe-Post: x',
    ].map((header) => [header, insert(header)] as const),
    ['another From', message.replace('shop@sender', 'chef@sender')],
    ['another Subject', message.replace('Hello  there', 'Hello here')],
    ['no To', message.replace('To: a@b.example\r\n', '')],
    ['one letter', message.replace('and you', 'and You')],
    ['an additional line', `${message}.\r\n`],
    ['a missing space', message.replace('and you', 'andyou')],
    ['an empty line in the middle', message.replace('\r\nand you', '\r\n\r\nand you')],
    ['another time', message.replace('t=1795169472', 't=1795169473')],
  ] as const) {
    t.not(changed, message, what);
    t.not(await verify(Buffer.from(changed, 'latin1')), 'pass', what);
  }
});

t.test('any body and any header', async (t) => {
  const piece = fc.constantFrom(
    'a',
    'b.',
    ' ',
    '  ',
    '\t',
    '\r\n',
    '\r\n\r\n',
    '\r',
    '.',
    'ü',
    '字',
    '\u00a0',
    '\u0085',
    '=',
    '\0',
  );
  const body = fc.array(piece, { maxLength: 25 }).map((pieces) => pieces.join(''));
  const value = fc
    .array(fc.constantFrom('a', 'é', '\u00a0', ' ', '  ', '\t', ':', ';', '\r\n b', '\r\n\tc'), { maxLength: 12 })
    .map((pieces) => pieces.join(''));
  const name = fc.constantFrom(
    'To',
    'to',
    'Subject',
    'Subject ',
    'List-Unsubscribe',
    'References',
    'X-Other',
    'Received',
  );
  const header = fc.array(fc.tuple(name, value), { maxLength: 8 });
  const property = fc.asyncProperty(header, body, fc.nat(), async (header, body, position) => {
    const fields = [['From', ' shop@sender.example'], ...header]
      .map(([name, value]) => `${name}:${value}\r\n`)
      .join('');
    const message = `${fields}\r\n${body}`;
    const whole = Buffer.from(await signed(message), 'latin1');
    if ((await verify(whole)) !== 'pass') throw new Error(`does not verify: ${show(message)}`);
    // An additional letter anywhere in the body is noticed.
    const start = whole.length - Buffer.byteLength(body);
    const cut = start + (position % (whole.length - start + 1));
    const changed = Buffer.concat([whole.subarray(0, cut), Buffer.from('!'), whole.subarray(cut)]);
    if ((await verify(changed)) === 'pass') throw new Error(`verifies after a change: ${show(message)}`);
  });
  await t.resolves(fc.assert(property, { numRuns: 300 }));
});

t.test('unusual ends of a message', async (t) => {
  const from = 'From: shop@sender.example\r\n';
  for (const message of [
    from,
    `${from}\r\n`,
    `${from}\r\n\r\n`,
    `${from}\r\nx`,
    `${from}\r\nx\r\n \r\n`,
    `${from}To: a\r\nTo: b\r\nTo: c\r\n\r\nx`,
  ]) {
    t.equal(await verify(Buffer.from(await signed(message), 'latin1')), 'pass', show(message));
  }
});

t.test('a body of many megabytes', async (t) => {
  const filler = 'Some  words \t\r\n'.repeat(80_000);
  for (const body of [
    filler.repeat(3),
    `${filler}${' '.repeat(1 << 20)}\r\n${filler}`,
    `${filler}${'\r\n'.repeat(1 << 20)}x`,
    'x'.repeat(3 << 20),
    `${filler.repeat(2)}\r\n \r\n`,
  ]) {
    t.equal(await verify(Buffer.from(await signed(`From: shop@sender.example\r\n\r\n${body}`), 'latin1')), 'pass');
  }
});

t.test('composed messages', async (t) => {
  for (const text of [...smuggling, ...dots, '', 'ü'.repeat(500), 'x'.repeat(2000), 'a \t\n\n\n']) {
    const message = await composed({
      from: parseMailbox('Zoë <zö@sender.example>'),
      to: [parseMailbox('jõe@b.example')],
      cc: [],
      replyTo: [],
      subject: text.replaceAll(/[\r\n\0]/g, ' '),
      html: text,
      text,
      headers: [{ name: 'List-Unsubscribe', value: `<https://x.example/${'u'.repeat(200)}>, <mailto:u@x.example>` }],
      attachments: [{ filename: 'ü', contentType: 'text/plain', contentId: null, content: Buffer.from(text) }],
      messageId: '1@sender.example',
      date: at,
    });
    const whole = Buffer.concat([await sign(message, [key], at), message]);
    t.equal(await verify(whole), 'pass', show(text));
  }
});

t.test('an Ed25519 signature next to the RSA one (RFC 8463)', async (t) => {
  t.equal(Buffer.from(edPair.publicKey, 'base64').length, 32);
  t.match(dnsValue(edPair.publicKey, 'ed25519'), /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
  const header = await sign(Buffer.from(full), [key, edKey], at);
  t.same(header.toString().match(/a=\S+/g), ['a=rsa-sha256;', 'a=ed25519-sha256;']);
  const message = Buffer.concat([header, Buffer.from(full)]);
  t.equal(await verify(message), 'pass pass');
  t.match(await verify(message.toString().replace('and you', 'and You')), /^(?!.*pass)/);
});

t.test('a key that has signed elsewhere', async (t) => {
  const pem = { type: 'pkcs8', format: 'pem' } as const;
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey;
  for (const text of [rsa.export(pem), rsa.export({ type: 'pkcs1', format: 'pem' })]) {
    const imported = importKeyPair(String(text));
    t.equal(imported.algorithm, 'rsa');
    t.same(imported.privateKey, rsa.export({ type: 'pkcs8', format: 'der' }));
    const spki = createPublicKey({ key: Buffer.from(imported.publicKey, 'base64'), format: 'der', type: 'spki' });
    t.equal(spki.asymmetricKeyDetails?.modulusLength, 1024);
  }
  t.equal(importKeyPair(String(generateKeyPairSync('ed25519').privateKey.export(pem))).algorithm, 'ed25519');
  const small = generateKeyPairSync('rsa', { modulusLength: 768 }).privateKey.export(pem);
  const locked = rsa.export({ ...pem, cipher: 'aes-256-cbc', passphrase: 'x' });
  for (const [text, refusal] of [
    ['', /^must be a private key in PEM/],
    ['nonsense', /^must be a private key in PEM/],
    [String(createPublicKey(rsa).export({ type: 'spki', format: 'pem' })), /^must be a private key in PEM/],
    [String(locked), /^must be a private key in PEM without a passphrase/],
    [String(small), /^an RSA key must have 1024 to 4096 bits; this one has 768$/],
    [
      String(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(pem)),
      /^must be an RSA or an Ed25519/,
    ],
  ] as const) {
    t.throws(() => importKeyPair(text), { name: 'DkimKeyError', message: refusal });
  }
});

t.test('a key, published and read back', async (t) => {
  const spki = createPublicKey({ key: Buffer.from(pair.publicKey, 'base64'), format: 'der', type: 'spki' });
  t.equal(spki.asymmetricKeyDetails?.modulusLength, 2048);
  t.throws(() => parsePrivateKey(Buffer.from('nonsense')));
  t.equal(publishedKey(dnsValue(pair.publicKey)), pair.publicKey);
  for (const [txt, value] of [
    ['v=DKIM1; k=rsa; p=QUJD', 'QUJD'],
    ['v=DKIM1;p=QU JD\t==;', 'QUJD=='],
    [' v = DKIM1 ; p = QUJD ; ', 'QUJD'],
    ['k=rsa; p=QUJD', 'QUJD'],
    ['p=QUJD', 'QUJD'],
    ['v=DKIM1; p=', ''],
    ['v=DKIM1; p= ;t=y', ''],
    ['v=DKIM1; k=rsa', null],
    ['v=DKIM2; p=QUJD', null],
    ['p=QUJD; v=DKIM1', null],
    ['v=DKIM1; p=QUJD; p=REVG', null],
    ['v=spf1 include:x.example ~all', null],
    ['v=DKIM1 p=QUJD', null],
    ['QUJD', null],
    ['', null],
    [';;', null],
  ] as const) {
    t.equal(publishedKey(txt), value, show(txt));
  }
});
