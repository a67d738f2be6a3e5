import t from 'tap';
import type { z } from 'zod';
import { ApiError } from '../../src/errors.ts';
import { sendRequest } from '../../src/http/input/send-request.ts';
import { newTemplate } from '../../src/http/input/template-fields.ts';
import { parse } from '../../src/http/input/validation.ts';
import { topUp } from '../../src/http/routes/admin.ts';
import { newDomain } from '../../src/http/routes/domains.ts';
import { newKey } from '../../src/http/routes/keys.ts';
import { batchBody, resendRequest } from '../../src/http/routes/sending.ts';
import { newSuppression, suppressionImport } from '../../src/http/routes/suppressions.ts';
import { newWebhook, webhookChanges } from '../../src/http/routes/webhooks.ts';
import { at, type Fields } from './scene.ts';

const email = { from: 'shop@example.com', to: ['a@b.test'], subject: 's', text: 't' };
const file = { filename: 'a.pdf', content: 'aGk=' };
const logo = { filename: 'logo.png', content: 'aGk=' };

/** The detail that a body is refused with; null if it is accepted. */
function refusalOf(schema: z.ZodType, body: Fields): string | null | undefined {
  try {
    // As it arrives, without what is `undefined`.
    parse(schema, JSON.parse(JSON.stringify(body)));
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    t.match(error.detail, /^[ -~]{1,300}$/);
    return error.detail;
  }
}

t.test('what programs for other services send is accepted', async (t) => {
  const now = Math.floor(Date.now() / 1000);
  const taken: Record<string, Fields[]> = {
    'the SDK of Resend: 4.0 writes camelCase within files': [
      { attachments: [{ ...file, contentType: 'application/pdf' }] },
      {
        attachments: [{ ...logo, contentType: 'image/png', inlineContentId: '', path: 'https://example.com/logo.png' }],
      },
      { attachments: [{ ...logo, content_type: 'image/png', content_id: 'logo', inline_content_id: 'logo' }] },
      { topic_id: null, react: null },
      { topic_id: 'b6d24b8e-af0b-4c3c-be0c-359bbd97381e', type: 'marketing' },
    ],
    nodemailer: [
      { attachments: [{ ...file, encoding: 'base64', contentType: 'application/pdf', contentDisposition: 'inline' }] },
      { attachments: [{ ...logo, cid: null }], sender: 'a@b.test', priority: 'high', date: at(0) },
      { messageId: '<a@b.test>', inReplyTo: '<c@d.test>', references: ['<c@d.test>'], encoding: 'base64' },
      { envelope: { from: 'a@b.test', to: 'c@d.test' }, list: { help: 'x' }, dsn: { id: 'x' }, alternatives: [] },
      { icalEvent: { method: 'request', content: 'x' }, amp: '<!doctype html>', watchHtml: '<b>', requireTLS: false },
    ],
    Postmark: [
      { Tag: 'order', Metadata: { a: '1' }, MessageStream: 'outbound', TrackOpens: true, TrackLinks: 'None' },
      { Cc: null, Bcc: '', ReplyTo: null, Headers: [], Attachments: [], MessageStream: 'receipts' },
      { TemplateAlias: 'welcome', TemplateModel: { a: 1 }, InlineCss: true, HtmlBody: '<p>', TextBody: 't' },
      { attachments: [{ ...file, Name: 'a.pdf', ContentType: 'application/pdf', ContentID: null }] },
      { MessageStream: 'broadcast', type: 'marketing' },
    ],
    'Postal, Mailgun, SendGrid': [
      { tag: 'order', sender: 'a@b.test', bounce: false, attachments: [{ ...file, name: 'a.pdf', data: 'aGk=' }] },
      {
        'o:tag': ['a'],
        'o:tracking': 'yes',
        'h:X-A': 'b',
        'v:order': '7',
        'recipient-variables': {},
        't:version': '2',
      },
      { 'o:testmode': 'no', 'o:require-tls': 'False', 'o:deliverytime': new Date().toUTCString() },
      { categories: ['a'], customArgs: { a: 'b' }, asm: { groupId: 1 }, sendAt: 1_500_077_141, substitutions: {} },
      {
        attachments: [{ ...file, type: 'application/pdf', disposition: 'attachment' }],
        templateId: 'd-1',
        sections: {},
      },
    ],
    others: [
      { htmlContent: '<p>', params: { a: 'b' }, templateId: 5, batchId: 'x', messageVersions: [] },
      { important: false, track_opens: null, async: false, merge_vars: [], from_name: 'Shop', send_at: null },
      { campaign_id: 'x', options: { sandbox: true }, substitution_data: { a: 1 }, return_path: 'a@b.test' },
      { custom_headers: [{ header: 'X-A', value: 'b' }], html_body: '<p>', version: 1, variables: { a: 'b' } },
      { ConfigurationSetName: 'x', Tags: [{ Name: 'a', Value: 'b' }], ReturnPath: 'a@b.test' },
      { body: '<p>', data: { a: 1 }, subscribed: true, name: 'Shop', category: 'test', custom_variables: { a: '1' } },
      { SandboxMode: false, CustomID: 'x', send_at: 0, meta: { a: 1 }, additional_headers: [{ key: 'a', value: 'b' }] },
    ],
    'what a program has of its own': [
      {
        form: 'contact',
        name: 'Ann',
        email: 'ann@b.test',
        message: 'Hi',
        header: 'News',
        files: ['a.pdf'],
        test: true,
      },
      {
        id: 7,
        status: 'pending',
        delay: 0,
        locale: 'de',
        created_at: at(0),
        deleted_at: null,
        role: 'user',
        domain: 'x',
      },
      { schedule: 'weekly', scheduler: 'cron', delivery: 'express', delivery_date: '2031-01-01', send: true, ttl: 60 },
      { email_type: 'newsletter-confirmation', MessageStream: 'non-marketing', reason: 'x' },
      { email_type: 'NonMarketing', message_type: 'promotional' },
    ],
    'what asks for nothing, or is there by our name too': [
      { replyTo: null, scheduledAt: '', dry_run: 'false', idempotency_key: '', tls_required: false, scheduled: false },
      { send_at: now, scheduled_for: 'now', scheduled: at(-1_000), sandbox_mode: 0 },
      { reply_to: 'r@b.test', replyTo: 'r@b.test', scheduled_at: at(3_600_000), send_at: now + 3_600, scheduled: true },
    ],
  };
  for (const [service, bodies] of Object.entries(taken))
    for (const fields of bodies)
      t.equal(refusalOf(sendRequest, { ...email, ...fields }), null, `${service}: ${JSON.stringify(fields)}`);
});

t.test(
  'headers for other services are not sent on, and those that ask for what is given by our name are accepted',
  async (t) => {
    const headers = {
      'X-Order': '7',
      'X-PM-Message-Stream': 'broadcast',
      'X-Mailgun-Deliver-At': 'Fri, 01 Jan 2031 09:00:00 GMT',
      'X-Mailgun-Require-TLS': 'yes',
      'X-MC-BccAddress': 'c@b.test',
      'X-MC-MergeVars': '{"shop": "Pears"}',
      'X-SMTPAPI': '{"unique_args": {"customer": 7}, "to": null}',
    };
    const ours = { type: 'marketing', scheduled_at: at(3_600_000), tls: 'required', bcc: 'c@b.test' };
    const sent = parse(sendRequest, { ...email, ...ours, headers });
    t.strictSame(sent.headers, [{ name: 'X-Order', value: '7' }]);
  },
);

const scheduled = 'must be called scheduled_at; otherwise the email would be sent at once';
const answers = 'must be called reply_to; otherwise replies would go to the sender';
const copies = (name: string) => `must be called ${name}; otherwise nobody would get a copy`;
const type = 'must be called type; otherwise unsubscribed recipients would get it too';
const tls = 'must be called tls; otherwise mail might be sent unencrypted';
const dryRun = 'must be a query parameter, as in POST /api/v1/emails?dry_run=true; otherwise the email would be sent';
const twice = 'must be the header Idempotency-Key; otherwise a retry would repeat the call';

t.test('an email that would go to others, twice, unencrypted or at another time is refused', async (t) => {
  const refused: [fields: Fields, words: string][] = [
    [{ scheduledAt: at(3_600_000) }, scheduled],
    [{ send_at: Math.floor(Date.now() / 1000) + 3_600 }, scheduled],
    [{ sendAt: 'in 1 hour' }, scheduled],
    [{ scheduled: true }, scheduled],
    [{ scheduled_for: at(3_600_000) }, scheduled],
    [{ schedule_at: at(3_600_000) }, scheduled],
    [{ sheduled_at: at(3_600_000) }, scheduled],
    [{ scheduled_ta: at(3_600_000) }, scheduled],
    [{ 'o:deliverytime': new Date(Date.now() + 3_600_000).toUTCString() }, scheduled],
    [{ replyTo: 'r@b.test' }, answers],
    [{ 'reply to': 'r@b.test' }, answers],
    [{ ReplyToAddresses: ['r@b.test'] }, answers],
    [{ reply_to_list: [{ email: 'r@b.test' }] }, answers],
    [{ 'h:Reply-To': 'r@b.test' }, answers],
    [{ Cc: 'c@b.test' }, copies('cc')],
    [{ BCC: ['c@b.test'] }, copies('bcc')],
    [{ Attachments: [file] }, 'must be called attachments; otherwise the files would not be sent'],
    [{ attachment: [file] }, 'must be called attachments; otherwise the files would not be sent'],
    [{ MessageStream: 'broadcast' }, type],
    [{ message_stream: 'Weekly-Newsletter' }, type],
    [{ email_type: 'marketing-emails' }, type],
    [{ Type: 'marketing' }, type],
    [{ topic_id: 'b6d24b8e-af0b-4c3c-be0c-359bbd97381e' }, type],
    [{ requireTLS: true }, tls],
    [{ 'o:require-tls': 'yes' }, tls],
    [{ TLS: 'required' }, tls],
    [{ onUncertain: 'hold' }, 'must be called on_uncertain; otherwise the email might arrive twice'],
    [{ dry_run: true }, dryRun],
    [{ 'o:testmode': 'yes' }, dryRun],
    [{ SandboxMode: true }, dryRun],
    [{ idempotencyKey: 'order-1' }, twice],
    [{ 'Idempotency-Key': 'order-1' }, twice],
  ];
  for (const [fields, words] of refused) {
    const name = Object.keys(fields)[0];
    t.equal(refusalOf(sendRequest, { ...email, ...fields }), `${name}: ${words}`, JSON.stringify(fields));
  }
});

t.test('a misnamed field of an item of a list is refused', async (t) => {
  const unseen = 'must be called content_id; otherwise the html could not show the file';
  for (const name of ['contentId', 'cid', 'ContentID', 'inlineContentId', 'inline_content_id']) {
    const attachments = [file, { ...logo, [name]: 'logo' }];
    t.equal(refusalOf(sendRequest, { ...email, attachments }), `attachments[1].${name}: ${unseen}`);
    t.equal(
      refusalOf(sendRequest, { ...email, subject: null, text: null, template: { alias: 'a' }, attachments }),
      `attachments[1].${name}: ${unseen}`,
    );
  }
  const suppressions = [{ address: 'a@b.test' }, { address: 'c@d.test', Reason: 'unsubscribe' }];
  t.equal(
    refusalOf(suppressionImport, { suppressions }),
    'suppressions[1].Reason: must be called reason; otherwise the address would get no mail at all',
  );
});

t.test('a field outside the list that would apply to no item is refused', async (t) => {
  const refused: [fields: Fields, otherwise: string][] = [
    [{ scheduled_at: at(3_600_000) }, 'the email would be sent at once'],
    [{ send_at: at(3_600_000) }, 'the email would be sent at once'],
    [{ type: 'marketing' }, 'unsubscribed recipients would get it too'],
    [{ tls: 'verified' }, 'mail might be sent unencrypted'],
    [{ on_uncertain: 'hold' }, 'the email might arrive twice'],
    [{ cc: 'a@b.test' }, 'nobody would get a copy'],
    [{ bcc: ['a@b.test'] }, 'nobody would get a copy'],
    [{ reply_to: 'a@b.test' }, 'replies would go to the sender'],
    [{ attachments: [file] }, 'the files would not be sent'],
  ];
  const own = (Object.assign as (...all: Fields[]) => Fields)({}, ...refused.map(([fields]) => fields));
  for (const [fields, otherwise] of refused) {
    const words = `${Object.keys(fields)}: must be set in each item of emails; otherwise ${otherwise}`;
    const name = JSON.stringify(fields);
    t.equal(refusalOf(batchBody, { ...fields, emails: [email] }), words, name);
    t.equal(refusalOf(batchBody, { ...fields, emails: [{ ...email, ...own }, email] }), words, name);
    t.equal(refusalOf(batchBody, { ...fields, emails: [{ ...email, ...own }] }), null, name);
  }
  for (const fields of [
    { scheduled_at: null },
    { type: 'batch' },
    { tls: 'opportunistic' },
    { cc: [] },
    { tags: ['x'] },
  ])
    t.equal(refusalOf(batchBody, { ...fields, emails: [email] }), null, JSON.stringify(fields));
  for (const [name, words] of [
    ['dryRun', dryRun],
    ['idempotency_key', twice],
  ] as const)
    t.equal(refusalOf(batchBody, { emails: [email], [name]: 'x' }), `${name}: ${words}`);
  const suppressions = [{ address: 'a@b.test', reason: 'bounce' }, { address: 'c@d.test' }];
  const words = 'reason: must be set in each item of suppressions; otherwise the address would get no mail at all';
  t.equal(refusalOf(suppressionImport, { reason: 'unsubscribe', suppressions }), words);
  t.equal(refusalOf(suppressionImport, { reason: 'unsubscribe', suppressions: suppressions.slice(0, 1) }), null);
});

t.test('a misnamed field is refused for keys, domains and all that applies to later mail', async (t) => {
  const mayLess = 'must be called scopes; otherwise the key could send';
  const ofAll = 'must be called domains; otherwise the key would be valid for all domains';
  const endless = 'must be called expires_at; otherwise the key would never expire';
  const key = { name: 'k' };
  const cases: [schema: z.ZodType, body: Fields, detail: string | null][] = [
    [newKey, { ...key, scope: ['read'] }, `scope: ${mayLess}`],
    [newKey, { ...key, permissions: ['read'] }, `permissions: ${mayLess}`],
    [newKey, { ...key, permission: { emails: 'read' } }, `permission: ${mayLess}`],
    [newKey, { ...key, role: 'read' }, `role: ${mayLess}`],
    [newKey, { ...key, access: { calls: 'read' } }, `access: ${mayLess}`],
    [newKey, { ...key, permission: 'none' }, `permission: ${mayLess}`],
    [newKey, { ...key, permissions: [] }, `permissions: ${mayLess}`],
    [newKey, { ...key, restrict_to: [] }, `restrict_to: ${ofAll}`],
    [newKey, { ...key, permissions: null, role: '', restrict_to: null }, null],
    [newKey, { ...key, readOnly: true }, `readOnly: ${mayLess}`],
    [newKey, { ...key, Domain: ['shop.test'] }, `Domain: ${ofAll}`],
    [newKey, { ...key, domans: ['shop.test'] }, `domans: ${ofAll}`],
    [newKey, { ...key, permission: 'sending_access', domain_id: '4dd369bc' }, `domain_id: ${ofAll}`],
    [newKey, { ...key, restrict_to: 'shop.test' }, `restrict_to: ${ofAll}`],
    [newKey, { ...key, expiresAt: at(1) }, `expiresAt: ${endless}`],
    ...['expires', 'expires_in', 'expiry', 'expiration', 'ttl'].map((name): [typeof newKey, Fields, string] => [
      newKey,
      { ...key, [name]: '1d' },
      `${name}: ${endless}`,
    ]),
    [newKey, { ...key, domains: [] }, 'domains: must name at least one domain; null: all domains of the account'],
    [newKey, { ...key, permission: 'full_access', domain_id: null, expires: 'never' }, null],
    [newKey, { ...key, permissions: ['send', 'read'], read_only: false }, null],
    [newKey, { ...key, role: 'read', scopes: ['read'] }, null],
    [newDomain, { domain: 'shop.test', requireTls: true }, `requireTls: ${tls}`],
    [newDomain, { domain: 'shop.test', name: 'Shop', region: 'eu-west-1', custom_return_path: 'send' }, null],
    [newTemplate, { name: 'n', text: 't', replyTo: 'r@b.test' }, `replyTo: ${answers}`],
    [newTemplate, { name: 'n', text: 't', dry_run: true, status: 'draft', data: { A: 'b' } }, null],
    [
      newSuppression,
      { address: 'a@b.test', Reason: 'unsubscribe' },
      'Reason: must be called reason; otherwise the address would get no mail at all',
    ],
    [newSuppression, { address: 'a@b.test', type: 'address', email: 'a@b.test' }, null],
    [
      resendRequest,
      { recipient: 'a@b.test' },
      'recipient: must be called recipients; otherwise all recipients would get it again',
    ],
    [resendRequest, { idempotency_key: 'x' }, `idempotency_key: ${twice}`],
    [topUp, { amount: 5, idempotencyKey: 'x' }, `idempotencyKey: ${twice}`],
  ];
  for (const [schema, body, detail] of cases) t.equal(refusalOf(schema, body), detail, JSON.stringify(body));
});

t.test('an attempt to disable an endpoint by another name is refused', async (t) => {
  const changes = webhookChanges(false);
  const words =
    'must be called status, with the value "enabled" or "disabled"; otherwise the endpoint would stay as it is';
  for (const fields of [
    { enabled: false },
    { enabled: true },
    { active: 'false' },
    { isActive: 0 },
    { disabled: true },
    { Paused: true },
    { state: 'disabled' },
    { Status: 'disabled' },
    { events: ['email.sent'], enabled: false },
  ]) {
    const name = Object.keys(fields).at(-1);
    t.equal(refusalOf(changes, fields), `${name}: ${words}`, JSON.stringify(fields));
    t.equal(refusalOf(changes, { ...fields, status: 'disabled' }), null, JSON.stringify(fields));
  }
  const taken = [
    {},
    { enabled: null },
    { active: '' },
    { disabled_reason: 'failing', created_at: at(0), name: 'Shop' },
  ];
  for (const fields of taken) t.equal(refusalOf(changes, fields), null, JSON.stringify(fields));
});

t.test('a required member that is missing is found under a misspelling of it', async (t) => {
  const { from, to, text } = email;
  const cases: [schema: z.ZodType, body: Fields, refusal: string][] = [
    [sendRequest, { From: from, To: to, Subject: 's', TextBody: text }, 'From: must be called from'],
    [sendRequest, { from, to, text, Subject: 's' }, 'Subject: must be called subject'],
    [sendRequest, { from, to, text, subjcet: 's' }, 'subjcet: must be called subject'],
    [sendRequest, { from, to, text, title: 's' }, 'subject: is required'],
    [
      sendRequest,
      { ...email, attachments: [file, { fileName: 'b.pdf', content: 'aGk=' }] },
      'attachments[1].fileName: must be called filename',
    ],
    [newDomain, { Domain: 'b.test' }, 'Domain: must be called domain'],
  ];
  for (const [schema, body, refusal] of cases) t.equal(refusalOf(schema, body), refusal, JSON.stringify(body));
  t.equal(refusalOf(sendRequest, { ...email, From: 'a@b.test', Subject: 'other' }), null, 'unless it is given');
});

t.test('a required member that is missing is found under its name at Resend, Postmark or Postal', async (t) => {
  const { text, ...empty } = { ...email, subject: 's' };
  const url = { events: ['email.sent'] };
  const noBody = 'html: html, text or template is required';
  const both = (html: string, text: string) => `${html}: must be called html, and ${text} must be called text`;
  const asTemplate = 'must be sent as template, such as {"alias": "welcome", "variables": {"NAME": "Ann"}}';
  const cases: [schema: z.ZodType, body: Fields, refusal: string][] = [
    [sendRequest, { ...empty, HtmlBody: '<p>' }, 'HtmlBody: must be called html'],
    [sendRequest, { ...empty, html: '', TextBody: 't' }, 'TextBody: must be called text'],
    [sendRequest, { ...empty, html_body: '<p>', plain_body: 't' }, both('html_body', 'plain_body')],
    [sendRequest, { ...empty, Html: '<p>', Text: 't' }, both('Html', 'Text')],
    [sendRequest, { ...empty, Text: 't' }, 'Text: must be called text'],
    [sendRequest, { ...empty, plain_body: 't' }, 'plain_body: must be called text'],
    [sendRequest, { ...empty, Html: '<p>' }, 'Html: must be called html'],
    [sendRequest, { ...empty, react: {} }, noBody],
    [sendRequest, { ...empty, react: { type: 'p' } }, 'react: must be rendered, and the result sent as html'],
    [sendRequest, { from: email.from, to: email.to, TemplateAlias: 'a' }, `TemplateAlias: ${asTemplate}`],
    [sendRequest, { ...empty, templateId: 7 }, `templateId: ${asTemplate}`],
    [sendRequest, { ...empty, HtmlBody: '', TextBody: null }, noBody],
    [sendRequest, { ...empty, constructor: 'x', toString: 'x' }, noBody],
    [
      sendRequest,
      { ...email, attachments: [{ Name: 'a', Content: '' }] },
      'attachments[0].Name: must be called filename',
    ],
    [
      sendRequest,
      { ...email, attachments: [{ name: 'a', data: 'aGk=' }] },
      'attachments[0].name: must be called filename',
    ],
    [
      sendRequest,
      { ...email, attachments: [{ filename: 'a', data: 'aGk=' }] },
      'attachments[0].data: must be called content',
    ],
    [
      sendRequest,
      { ...email, attachments: [{ filename: 'a', path: 'https://a.test/a' }] },
      'attachments[0].path: is not fetched: send the bytes of the file as content, in base64',
    ],
    [newDomain, { name: 'b.test' }, 'name: must be called domain'],
    [newWebhook(false), { ...url, endpoint: 'https://a.test/' }, 'endpoint: must be called url'],
    [newSuppression, { email: 'a@b.test' }, 'email: must be called address'],
    [
      suppressionImport,
      { suppressions: [{ EmailAddress: 'a@b.test' }] },
      'suppressions[0].EmailAddress: must be called address',
    ],
  ];
  for (const [schema, body, refusal] of cases) t.equal(refusalOf(schema, body), refusal, JSON.stringify(body));
  for (const [schema, body] of [
    [sendRequest, { ...email, HtmlBody: '<p>', TemplateId: 7, react: {} }],
    [newDomain, { domain: 'b.test', name: 'b' }],
  ] as [z.ZodType, Fields][])
    t.equal(refusalOf(schema, body), null, 'unless it is given');
});

t.test('whatever a value is, the worst answer is a refusal', async (t) => {
  const odd: unknown[] = [
    { toString: 1, valueOf: 1 },
    [[]],
    [null],
    'x'.repeat(100_000),
    1e308,
    -1,
    true,
    { length: -1 },
  ];
  const names = [
    'send_at',
    'role',
    'Tls',
    'email_type',
    'ReplyTo',
    'domain_id',
    'ttl',
    'dry_run',
    '__proto__',
    'x'.repeat(1_000),
  ];
  for (const value of odd)
    for (const name of names) {
      for (const schema of [sendRequest, newKey, newDomain, newTemplate, newSuppression])
        t.type(
          refusalOf(schema, { ...email, name: 'n', domain: 'b.test', address: 'a@b.test', [name]: value }) ?? '',
          'string',
        );
      for (const emails of [value, [value], [email]])
        t.type(refusalOf(batchBody, { emails, cc: value, [name]: value }) ?? '', 'string');
    }
});
