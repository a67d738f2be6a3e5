import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Koa from 'koa';
import { spf } from 'mailauth/lib/spf/index.js';
import t from 'tap';
import { Redaction } from '../src/core/privacy/redaction.ts';
import { classifyNotice } from '../src/core/returns/return-class.ts';
import { normalizeDomain, parseMailbox } from '../src/mail/address/address.ts';
import { parseAddressList } from '../src/mail/address/address-list.ts';
import { refuseAttachment, withoutPath } from '../src/mail/compose/attachments.ts';
import { importKeyPair, publishedKey } from '../src/mail/compose/dkim-key.ts';
import { relaxedField } from '../src/mail/encoding/canonical.ts';
import { writeAddresses, writeText } from '../src/mail/headers/fields.ts';
import { longestValue, refuseHeader } from '../src/mail/headers/headers.ts';
import { parseParameters } from '../src/mail/headers/parameters.ts';
import { parseReturnPath, parseUnsubscribeAddress, parseUnsubscribeToken } from '../src/mail/links/token.ts';
import { readComplaint } from '../src/mail/returns/arf.ts';
import { isGenerated, readNotice } from '../src/mail/returns/dsn.ts';
import { readSubmission } from '../src/mail/submission/submission.ts';
import { compile, render } from '../src/mail/template/template.ts';
import { refuseUrl } from '../src/smtp/calls/endpoint.ts';
import { namesHost, readStsFile, readStsId } from '../src/smtp/policies/mta-sts.ts';
import { cleanRemoteText, ReplyParser } from '../src/smtp/replies/reply.ts';
import { retryHintMs } from '../src/smtp/rules/retry-hint.ts';
import { parseTimestamp } from '../src/timestamp.ts';
import { waitOf } from '../src/webhooks/outcome.ts';
import { isLinear } from './support/linear.ts';

const length = 64 * 1024;
const erased = new Redaction('a.a+a@a.a');
const repeat = (unit: string, most: number) => unit.repeat(Math.ceil(most / unit.length)).slice(0, most);

/** Strings that make a parser look ahead, go back, or keep something open. */
const units = [
  ...[
    '<',
    '(',
    '"',
    '\\',
    ' ',
    '\t',
    '.',
    '@',
    ',',
    ';',
    ':',
    '=',
    '*',
    '%',
    '[',
    '{{{ ',
    'a',
    '>',
    '\u0301',
    '\ufdfa',
  ],
  ...[
    'a:',
    'a@b,',
    '(()',
    'a:(',
    '"a" <',
    '<a@',
    'a@b.',
    '\\"',
    ';x=',
    ';x*1=',
    '=?',
    '=?utf-8?Q?a?= ',
    '=\u00e9 ',
    'a b ',
  ],
  ...[
    '\n',
    ' \n',
    '\n ',
    '\n\n',
    '\n>',
    'x: ',
    'x:\n',
    '&nbsp;',
    '&#32;',
    '<p ',
    '<style',
    '</p>',
    '--b\n',
    '--',
    '<<<',
    '\n<<< 550 ',
  ],
  ...['550 ', '550-5.1.1 ', '5.1.1 ', '#5.', 'error ', 'mailto:', 'try again in ', '1', '00:', 'for '],
];
const lines = (unit: string, most: number) => `x\n${repeat(`${repeat(unit, 990)}\n`, most - 3)}x`;
const families: [name: string, build: (length: number) => string][] = [
  ...units.map((unit): (typeof families)[number] => [JSON.stringify(unit), (most) => repeat(unit, most)]),
  ['comments in comments', (most) => repeat('(', most / 2) + repeat(')', most / 2)],
  // Lines as long as those that the readers of bounces look at.
  ...[' ', '\t', '> ', 'a', '.', '*', '&nbsp;'].map((unit): (typeof families)[number] => [
    `lines of ${JSON.stringify(unit)}`,
    (most) => lines(unit, most),
  ]),
  // U+2028 ends a line only for some expressions.
  ...[' ', '\n', '\t', '='].map((unit): (typeof families)[number] => [
    `${JSON.stringify(unit)} and an end`,
    (most) => `x: ${repeat(unit, most)}\u2028x`,
  ]),
];

const crlf = (text: string) => Buffer.from(text.replaceAll('\n', '\r\n'));
const part = (type: string, content: string) =>
  crlf(
    `From: MAILER-DAEMON@x.test\nSubject: Undelivered mail\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: ${type}\n\n${content}\n--b--\n`,
  );
/** A field of a submitted message goes on in the next line. */
const folded = (text: string) => text.replaceAll('\n', '\r\n ');
const submitted = (field: string, body = 't') =>
  Buffer.from(`From: a@b.test\r\n${field}\r\nMIME-Version: 1.0\r\n\r\n${body}`);

const forwarded = (text: string) => {
  const app = new Koa({ proxy: true, maxIpsCount: 2 });
  const request = new IncomingMessage(new Socket());
  // What no header can hold is refused before it gets here.
  const value = text.replaceAll(/[^ -~]/g, '');
  for (const name of ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'host', 'accept', 'content-type'])
    request.headers[name] = value;
  const ctx = app.createContext(request, new ServerResponse(request));
  return [ctx.ip, ctx.ips, ctx.host, ctx.hostname, ctx.protocol, ctx.is('json'), ctx.accepts('json')];
};

const key = Buffer.alloc(32, 1);
const notice = {
  action: 'failed' as const,
  status: null,
  code: null,
  phase: 'rcpt' as const,
  address: null,
  aliases: [],
};

/** Everything that reads text from others, each with the text in the place where it hurts most. */
const parsers: Record<string, (text: string) => unknown> = {
  'an address': parseMailbox,
  'the name of an address': (text) => parseMailbox(`${text} <a@b.test>`),
  'a quoted name': (text) => parseMailbox(`"${text}" <a@b.test>`),
  'a list of addresses': (text) => parseAddressList('To', text),
  'a domain': normalizeDomain,
  'the fields of a submission': (text) => {
    const value = folded(text);
    return Promise.all(
      ['From', 'To', 'Subject', 'Content-Type', 'X-Mine'].map((name) =>
        readSubmission(submitted(`${name}: x${value}`)).catch(() => {}),
      ),
    );
  },
  'the part of a submission': (text) =>
    readSubmission(
      submitted(
        'Content-Type: multipart/mixed; boundary=b',
        `--b\r\n${folded(`Content-Disposition: ${text}`)}\r\n\r\n${text}\r\n--b--`,
      ),
    ),
  'the header of a submission': (text) => readSubmission(Buffer.concat([crlf(text), Buffer.from('\r\n\r\nt')])),
  'a field with parameters': parseParameters,
  'a subject that is written': (text) => writeText('Subject', text.slice(0, longestValue), true),
  'a name that is written': (text) =>
    writeAddresses('To', [{ name: text.slice(0, longestValue), address: 'a@b.c', local: 'a', domain: 'b.c' }]),
  'a field that is signed': (text) => relaxedField(`X: ${text}\r\n`),
  'a header of a client': (text) => [refuseHeader('X-Mine', text), refuseHeader(text, 'x')],
  'an attachment': (text) => [
    refuseAttachment({ filename: withoutPath(text), contentType: text, contentId: text }),
    refuseAttachment({ filename: 'a', contentType: `a/b; x="${text}`, contentId: null }),
  ],
  'a template': (text) => {
    const content = { from: text, subject: text, replyTo: [text], html: text, text, variables: [] };
    return render(compile(content), { A: text });
  },
  'the value of a variable': (text) =>
    render(
      compile({ from: '{{A}} <a@b.c>', subject: '{{A}}', replyTo: [], html: '{{A}}', text: null, variables: [] }),
      {
        A: text,
      },
    ),
  'a bounce for people': (text) => readNotice(part('text/plain', text)),
  'a bounce in HTML': (text) => readNotice(part('text/html', text)),
  'a bounce that begins well': (text) => readNotice(part('text/plain', `<a@b.test>: 550 5.1.1 no such user\n${text}`)),
  'a report of a delivery': (text) =>
    readNotice(part('message/delivery-status', `Final-Recipient: rfc822; a@b.test\n${text}`)),
  'the diagnostic of one': (text) =>
    readNotice(
      part('message/delivery-status', `Final-Recipient: rfc822; a@b.test\nAction: failed\nDiagnostic-Code: ${text}`),
    ),
  'the header of a bounce': (text) => {
    const message = crlf(`From: ${text}\nSubject: ${text}\nContent-Type: ${text}\n\nx`);
    return [readNotice(message), isGenerated(message)];
  },
  'a bounce of parts': (text) => readNotice(crlf(`Content-Type: multipart/mixed; boundary=b\n\n${text}`)),
  'a complaint': (text) =>
    readComplaint(part('message/feedback-report', `Feedback-Type: abuse${text}\nOriginal-Rcpt-To: ${text}\n`)),
  'the mail of a complaint': (text) =>
    readComplaint(
      crlf(
        `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n\n--b\nContent-Type: message/rfc822\n\nMessage-ID: ${text}\nList-Unsubscribe: ${text}\n\n${text}\n--b--`,
      ),
    ),
  'what a bounce is about': (text) => classifyNotice({ ...notice, diagnostic: text }),
  'text that an erased address may be in': (text) => erased.redactAll([text, `${text}a%40a.a`], 'erased'),
  'a reply by SMTP': (text) => new ReplyParser().feed(Buffer.from(`250-${text}\r\n250 ${text}\r\n`)),
  'a text of a server': (text) => cleanRemoteText(text),
  'a hint when to try again': (text) => retryHintMs({ code: 451, enhanced: null, text }),
  'a TXT record': (text) => [
    readStsId([`v=STSv1; id=${text}`, text]),
    publishedKey(text),
    publishedKey(`v=DKIM1; p=${text}`),
  ],
  'an SPF policy': (text) =>
    spf({
      sender: 'a@b.test',
      ip: '192.0.2.1',
      helo: 'c.test',
      mta: 'c.test',
      maxElapsedTime: 1_000,
      resolver: async (name, type) => (type === 'TXT' && name === 'b.test' ? [[`v=spf1 ${text}`]] : []),
    }),
  'an MTA-STS policy': (text) =>
    [
      () => readStsFile(text),
      () => readStsFile(`version: STSv1\nmode: enforce\nmax_age: 1\nmx: ${text}\n`),
      () => namesHost({ mx: [text, `*.${text}`] }, text),
    ].map(anyway),
  'a DKIM key': (text) =>
    [
      () => importKeyPair(text),
      () => importKeyPair(`-----BEGIN PRIVATE KEY-----${text}`),
      () => importKeyPair(`-----BEGIN PRIVATE KEY-----a${text}-----END `),
    ].map(anyway),
  'a token': (text) => [
    parseReturnPath(key, text, 'x.test'),
    parseReturnPath(key, `bounces+${text}@x.test`, 'x.test'),
    parseUnsubscribeAddress(key, `unsubscribe+${text}@x.test`, 'x.test'),
    parseUnsubscribeToken(key, text),
  ],
  'what a proxy adds': forwarded,
  'a URL': (text) =>
    [`https://${text}/`, `https://a.test/${text}`, `https://a.test/?${text}`].map((url) =>
      anyway(() => refuseUrl(new URL(url), false)),
    ),
  'a time': (text) => [parseTimestamp(text), parseTimestamp(`2026-11-21T09:00:00.${text}`), waitOf(text, new Date())],
};

/** Most refuse the input, and must be fast at that too. */
const anyway = async (work: () => unknown) => {
  try {
    await work();
  } catch {}
};

for (const [name, parse] of Object.entries(parsers)) {
  t.test(`DOS-06: the time for ${name} grows no faster than the text`, async (t) => {
    for (const [family, build] of families)
      await isLinear(t, family, build(length), (text) => anyway(() => parse(text)), build(length / 8));
  });
}
