import t from 'tap';
import type { z } from 'zod';
import { ApiError } from '../../src/errors.ts';
import { change } from '../../src/http/routes/admin.ts';
import { newDkimKey, newDomain } from '../../src/http/routes/domains.ts';
import { newKey } from '../../src/http/routes/keys.ts';
import { batchBody } from '../../src/http/routes/sending.ts';
import { newSuppression, suppressionImport } from '../../src/http/routes/suppressions.ts';
import { newWebhook, range } from '../../src/http/routes/webhooks.ts';
import { sendRequest } from '../../src/http/send-request.ts';
import { newTemplate, previewRequest } from '../../src/http/template-fields.ts';
import { parse } from '../../src/http/validation.ts';
import { at, type Fields } from './scene.ts';

const email = { from: 'shop@example.com', to: ['a@b.test'], subject: 's', text: 't' };
const file = { filename: 'a.bin', content: 'aGk=' };
const use = { template: { id: 'x' }, text: undefined };
const hook = { url: 'https://hooks.example.com/', events: ['email.sent'] };
const webhook = newWebhook([]);

/** What a body is refused with; null where it is taken. */
function refusalOf(schema: z.ZodType, body: Fields): string | null | undefined {
  try {
    // As it comes, without what is `undefined`.
    parse(schema, JSON.parse(JSON.stringify(body)));
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    t.match(error.detail, /^[ -~]{1,300}$/);
    return error.detail;
  }
}

t.test('what asks for nothing else than is done is no reason to refuse an email', async (t) => {
  const now = Math.floor(Date.now() / 1000);
  const taken: Fields[] = [
    // A program that writes down all fields that it knows.
    { replyTo: null, scheduledAt: null, Cc: null, Bcc: [], Tag: '', contentType: null },
    { attachments: [{ ...file, contentType: null, contentId: null, cid: '' }] },
    { subjct: null, typ: '' },
    // One for several services.
    { reply_to: 'r@b.test', replyTo: 'r@b.test', ReplyTo: 'r@b.test' },
    { scheduled_at: at(3_600_000), send_at: now + 3_600 },
    { attachments: [{ ...file, content_id: 'logo', cid: 'logo' }] },
    // A flag of one's own beside the time, or without.
    { scheduled: false },
    { scheduled_at: at(3_600_000), scheduled: true },
    // Names of one's own that are near to one that is there as well.
    { form: 'contact' },
    { headers: { 'X-A': 'b' }, leader: 'ann' },
    { scheduled_at: at(3_600_000), scheduler: 'cron' },
    // Times that have come.
    { send_at: now },
    { send_at: 0 },
    { send_at: '' },
    { sendTime: at(-1_000) },
    { 'o:deliverytime': new Date().toUTCString() },
    // A trial that is none.
    { dry_run: 'false' },
    { 'o:testmode': 'no' },
    { sandbox: 0 },
    { idempotency_key: '' },
    // Mail that names marketing, and is none.
    { message_type: 'newsletter-confirmation' },
    { stream: 'non-marketing' },
    { stream: 'Not_Marketing' },
    { email_type: 'promotion_code_receipt' },
    { MessageStream: 'transactional-bulky' },
    // What is done anyway, or is a matter of looks.
    { files: [], bcc_addresses: [], custom_headers: {}, html_body: '', tls_required: false },
    { variables: { A: 'b' } },
    { ...use, variables: {} },
    { template: { id: 'x', data: {}, params: null }, text: undefined },
    { template_id: 'welcome', templateAlias: 'welcome' },
    { attachments: [{ ...file, filename: 'a.pdf', type: 'application/x-pdf', name: 'A', disposition: 'attachment' }] },
    { track_opens: true, Metadata: { a: 'b' }, priority: 'high', topic_id: 'x' },
    { id: 'x', name: 'n', key: 'k', kind: 'k', email: 'x', body: 'b', title: 't', version: 1, test: true, reason: 'x' },
    { data: { a: 1 }, context: { a: 1 }, template_name: 'w', recipients: [], from_name: 'Shop', domain: 'x' },
  ];
  for (const fields of taken) t.equal(refusalOf(sendRequest, { ...email, ...fields }), null, JSON.stringify(fields));
});

t.test('an email that would go out otherwise than it is meant is refused', async (t) => {
  const refused: [fields: Fields, detail: string][] = [
    [{ replyTo: 'r@b.test' }, 'replyTo: is called reply_to here'],
    [{ 'reply to': 'r@b.test' }, 'reply to: is called reply_to here'],
    [{ reply_to: 'r@b.test', replyTo: 'other@b.test' }, 'replyTo: is called reply_to here'],
    [{ reply_to_email: 'r@b.test' }, 'reply_to_email: is called reply_to here'],
    [{ ReplyToAddresses: ['r@b.test'] }, 'ReplyToAddresses: is called reply_to here'],
    [{ scheduled: true }, 'scheduled: is called scheduled_at here'],
    [{ send_at: Math.floor(Date.now() / 1000) + 3_600 }, 'send_at: is called scheduled_at here'],
    [{ send_at: 'in 1 hour' }, 'send_at: is called scheduled_at here'],
    [{ scheduled_for: at(3_600_000) }, 'scheduled_for: is called scheduled_at here'],
    [{ 'o:testmode': 'yes' }, 'o:testmode: is no field but a parameter of the call: POST /api/v1/emails?dry_run=true'],
    [{ message_type: 'marketing' }, 'message_type: is called type here: transactional or marketing'],
    [{ MessageStream: 'marketing-emails' }, 'MessageStream: is called type here: transactional or marketing'],
    [{ bccAddresses: ['b@b.test'] }, 'bccAddresses: is called bcc here'],
    [{ cc_emails: 'b@b.test' }, 'cc_emails: is called cc here'],
    [{ customHeaders: { 'X-A': 'b' } }, 'customHeaders: is called headers here'],
    [{ files: [file] }, 'files: is called attachments here'],
    [{ html_body: '<p>Hi' }, 'html_body: is called html here'],
    [{ text: undefined, html: '<p>Hi', plain_text: 'Hi' }, 'plain_text: is called text here'],
    [{ text: undefined, body_text: 'Hi' }, 'body_text: is called text here'],
    [{ text: undefined, template_id: 'x' }, 'template_id: is called template here: {"id": "...", "variables": {...}}'],
    [{ ...use, variables: { A: 'b' } }, 'variables: is called template.variables here'],
    [{ ...use, dynamic_template_data: { A: 'b' } }, 'dynamic_template_data: is called template.variables here'],
    [{ text: undefined, template: { id: 'x', data: { A: 'b' } } }, 'template.data: is called variables here'],
    [{ require_tls: true }, 'require_tls: is called tls here: required or verified'],
    [{ 'o:require-tls': 'yes' }, 'o:require-tls: is called tls here: required or verified'],
    [{ tlsPolicy: 'Require' }, 'tlsPolicy: is called tls here: required or verified'],
    [
      { text: undefined, template: { id: 'x', version: 'draft' } },
      'template.version: is not chosen here: what is published is sent',
    ],
    [{ attachments: [{ ...file, type: 'application/pdf' }] }, 'attachments[0].type: is called content_type here'],
    [{ attachments: [{ name: 'a.pdf', content: 'aGk=' }] }, 'attachments[0].name: is called filename here'],
  ];
  for (const [fields, detail] of refused)
    t.equal(refusalOf(sendRequest, { ...email, ...fields }), detail, JSON.stringify(fields));
});

t.test('whatever a value is, the answer is a refusal at the most', async (t) => {
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
    'tls_policy',
    'message_type',
    'template_id',
    'variables',
    'html_body',
    'files',
    'type',
  ];
  const schemas = [sendRequest, newKey, newDomain, newDkimKey, newTemplate, previewRequest, newSuppression, webhook];
  for (const value of odd) {
    const fields = Object.fromEntries(
      [...names, 'key', 'secret', 'default', 'version', 'data'].map((name) => [name, value]),
    );
    for (const name of Object.keys(fields))
      for (const schema of schemas)
        for (const ours of [{}, { filename: value, template: value, emails: value, private_key: value }]) {
          const files = [
            { ...file, [name]: value },
            { content: 'aGk=', ...ours, [name]: value },
          ];
          const body = { ...email, subject: undefined, attachments: files, ...ours, [name]: value };
          t.type(refusalOf(schema, body) ?? '', 'string', name);
        }
    t.type(refusalOf(batchBody, { emails: value, send_at: value, cc: value }) ?? '', 'string');
    t.type(refusalOf(batchBody, { emails: [value], send_at: value, cc: value }) ?? '', 'string');
  }
});

t.test('what is said once for many emails would hold for none of them', async (t) => {
  const later = { scheduled_at: at(3_600_000) };
  const refused: Fields[] = [
    later,
    { send_at: at(3_600_000) },
    { type: 'marketing' },
    { tls: 'verified' },
    { cc: 'a@b.test' },
    { bcc: ['a@b.test'] },
    { reply_to: 'a@b.test' },
    { headers: { 'X-A': 'b' } },
    { attachments: [file] },
  ];
  const own = (Object.assign as (...all: Fields[]) => Fields)({}, ...refused);
  for (const fields of refused) {
    const words = `${Object.keys(fields)}: is a field of each of emails, not of all of them`;
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
  const suppressions = [{ address: 'a@b.test', reason: 'bounce' }, { address: 'c@d.test' }];
  const words = 'reason: is a field of each of suppressions, not of all of them';
  t.equal(refusalOf(suppressionImport, { reason: 'unsubscribe', suppressions }), words);
  t.equal(refusalOf(suppressionImport, { reason: 'unsubscribe', suppressions: suppressions.slice(0, 1) }), null);
});

t.test('what is set up would be otherwise than it is meant, too', async (t) => {
  const goes = 'goes to POST /api/v1/domains/:id/rotate-dkim, once the domain is there';
  const pem = '-----BEGIN PRIVATE KEY-----';
  const cases: [schema: z.ZodType, body: Fields, detail: string | null][] = [
    [newKey, { name: 'n', domains: [] }, 'domains: must name at least one domain; null: all of the account'],
    [newKey, { name: 'n', role: null, permission: '', read_only: false, domain_id: '' }, null],
    [newKey, { name: 'n', permissions: [] }, 'permissions: is called scopes here: a list of send and read'],
    [newDomain, { name: 'shop.test' }, 'name: is called domain here'],
    [newDomain, { domain: 'shop.test', name: 'Shop', region: 'eu-west-1', dkim_selector: 'sw1' }, null],
    [newDomain, { domain: 'shop.test', privateKey: pem }, `privateKey: ${goes}`],
    [newDomain, { domain: 'shop.test', selector: '', private_key: null }, null],
    [newDomain, { domain: 'shop.test', requireTls: true }, 'requireTls: is called tls here: required or verified'],
    [newDkimKey, { key: pem }, 'key: is called private_key here'],
    [newDkimKey, { key: 'x', type: null }, null],
    [newDkimKey, { dkim_selector: 's1' }, 'dkim_selector: is called selector here'],
    [newDkimKey, { dkim_selector: 's1', selector: 's1' }, null],
    [newTemplate, { name: 'n', text: 't', html_body: '<p>' }, 'html_body: is called html here'],
    [newTemplate, { name: 'n', text: 't', data: { A: 'b' } }, null],
    [newTemplate, { name: 'n', text: 't', replyTo: null }, 'replyTo: is called reply_to here'],
    [previewRequest, { data: { A: 'b' } }, 'data: is called variables here'],
    [newSuppression, { email: 'a@b.test' }, 'email: is called address here'],
    [newSuppression, { address: 'a@b.test', type: 'unsubscribe' }, 'type: is called reason here'],
    [newSuppression, { address: 'a@b.test', type: 'address', email: 'a@b.test' }, null],
    [change, { name: 'n', suspend: true }, 'suspend: is called suspended here'],
    [change, { plan: 'pro', is_suspended: false }, 'is_suspended: is called suspended here'],
    [change, { suspended: true, suspended_at: at(-1_000), is_suspended: false }, null],
    [range, { from: at(-1_000) }, 'from: is called since here'],
    [range, { since: at(-2_000), to: at(-1_000) }, 'to: is called until here'],
    [range, { since: at(-2_000), until: at(-1_000), to: at(-1_000), event: 'email.sent' }, null],
    [webhook, { ...hook, secret: 'whsec_x' }, 'secret: is made by the service: the answer of this call has it'],
    [webhook, { ...hook, id: 'x', secret: 'whsec_x', endpoint: hook.url }, null],
  ];
  for (const [schema, body, detail] of cases) t.equal(refusalOf(schema, body), detail, JSON.stringify(body));
});
