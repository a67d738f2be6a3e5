import { z } from 'zod';
import { limits } from '../../core/accounts/send-limits.ts';
import type { SendRequest } from '../../core/emails/draft.ts';
import type { Sendable, TemplatedRequest } from '../../core/emails/template-sending.ts';
import { type Asked, findForeignRequest, isForeignControl } from '../../mail/headers/foreign-controls.ts';
import { sendFields } from './send-fields.ts';
import { templateUse } from './template-use.ts';
import { type Fault, miscalled } from './unknown-members.ts';
import { examine, line, mailbox, unescapedText } from './validation.ts';

/** Null counts as absent, as in `sendFields`. */
const omitted = z.null({ error: 'must be omitted when a template is used' }).optional();

const templatedFields = sendFields.extend({
  from: mailbox.nullish(),
  subject: line(limits.subject).nullish(),
  html: omitted,
  text: omitted,
  template: templateUse,
});

const unescapedBody = unescapedText(limits.body).nullish();
const unescapedFields = sendFields.extend({ html: unescapedBody, text: unescapedBody });

const withTemplate = templatedFields.transform(toTemplatedRequest);

/** The body of `POST /api/v1/emails`, and each item of a batch. The required fields depend on whether it has a template. */
export const sendRequest = withOrWithoutTemplate(sendFields.transform(toRequest));

/** Like `sendRequest`, for JSON without `\u`. */
export const unescapedSendRequest = withOrWithoutTemplate(unescapedFields.transform(toRequest));

const noBody = 'html, text or template is required';

function withOrWithoutTemplate(withoutTemplate: z.ZodType<SendRequest>) {
  return z.unknown().transform((input, context): Sendable => {
    const template = (input as { template?: unknown } | null)?.template ?? null;
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      context.addIssue('must be an object');
      return z.NEVER;
    }
    const schema: z.ZodType<Sendable> = template === null ? withoutTemplate : withTemplate;
    const { fault, value } = examine(schema, input);
    if (!fault) return value;
    const meant = fault.message === noBody ? misnamedBody(input) : null;
    context.addIssue({ code: 'custom', ...(meant ?? fault) });
    return z.NEVER;
  });
}

/** Names both bodies if both are misnamed: who renamed only the first would lose the second without a word. */
function misnamedBody(input: object): Fault | null {
  const [html, text] = [miscalled(['html'], input), miscalled(['text'], input)];
  if (!html || !text) return html ?? text;
  return { ...html, message: `${html.message}, and ${String(text.path[0])} ${text.message}` };
}

function toRequest(input: z.output<typeof sendFields>, context: z.RefinementCtx): SendRequest {
  const { from, subject } = input;
  // Mail programs might show an empty part instead of the other one.
  const [html, text] = [input.html || null, input.text || null];
  const request = { ...sharedParts(input, context), from, subject, html, text };
  refuseConflicts(request, context);
  if (html === null && text === null) context.addIssue({ code: 'custom', path: ['html'], message: noBody });
  return request;
}

function toTemplatedRequest(input: z.output<typeof templatedFields>, context: z.RefinementCtx): TemplatedRequest {
  const { from = null, subject = null, template } = input;
  const request = { ...sharedParts(input, context), from, subject, template };
  refuseConflicts(request, context);
  return request;
}

type SharedFields = z.output<typeof sendFields> | z.output<typeof templatedFields>;

/** The parts that do not depend on a template. */
function sharedParts(input: SharedFields, context: z.RefinementCtx) {
  return {
    to: input.to,
    cc: input.cc ?? [],
    bcc: input.bcc ?? [],
    replyTo: input.reply_to ?? [],
    headers: headersToSend(input, context),
    tags: input.tags ?? [],
    attachments: input.attachments ?? [],
    scheduledAt: input.scheduled_at ?? null,
    type: input.type ?? 'transactional',
    tls: input.tls ?? 'opportunistic',
    onUncertain: input.on_uncertain ?? 'retry',
  };
}

/** What an email must have instead of another service's header. */
const called = {
  idempotencyKey: 'is a header of the call, not of the email',
  scheduledAt: 'must be the field scheduled_at',
  type: 'must be the field type',
  tls: 'must be the field tls',
  to: 'must be the field to',
  bcc: 'must be the field bcc',
  separateEmails: 'must be a separate email for each recipient: all would read who else gets it, with the variables',
  dryRun: 'asks for a test, but the email would be sent: use POST /api/v1/emails?dry_run=true',
};

/** Without the headers by which another service is told what to do; those that ask for something are reported. */
function headersToSend({ headers, scheduled_at, type, tls, bcc }: SharedFields, context: z.RefinementCtx) {
  if (!headers) return [];
  const given: Partial<Record<Asked, unknown>> = { scheduledAt: scheduled_at, type, tls, bcc: bcc?.[0] };
  const refused = findForeignRequest(headers, called, (asked) => (given[asked] ?? null) !== null);
  if (refused) context.addIssue({ code: 'custom', path: ['headers', refused.name], message: refused.words });
  return headers.filter(({ name }) => !isForeignControl(name));
}

/** Reports conflicts between fields that are valid by themselves. */
function refuseConflicts(request: ReturnType<typeof sharedParts>, context: z.RefinementCtx): void {
  const { to, cc, bcc, attachments, headers } = request;
  const issueAt: IssueAt = (path, message) => context.addIssue({ code: 'custom', path, message });
  const issue = (path: string, message: string) => issueAt([path], message);
  if (to.length === 0) issue('to', 'must name at least one recipient');
  if (to.length + cc.length + bcc.length > limits.recipients)
    issue('to', `must have at most ${limits.recipients} addresses together with cc and bcc`);
  if (attachments.reduce((sum, { content }) => sum + content.length, 0) > limits.attachmentsBytes)
    issue('attachments', 'are larger than 20 MB in total');
  refuseSharedContentId(attachments, issueAt);
  refuseRepeatedHeader(headers, issueAt);
}

type IssueAt = (path: PropertyKey[], message: string) => void;

/** Mail programs would show one of the two files in both places. */
function refuseSharedContentId(attachments: SendRequest['attachments'], issueAt: IssueAt): void {
  const ids = attachments.map(({ contentId }) => contentId);
  const second = ids.findIndex((id, index) => id !== null && ids.indexOf(id) < index);
  if (second === -1) return;
  const first = ids.indexOf(ids[second] ?? null);
  issueAt(['attachments', second, 'content_id'], `is already used by attachments[${first}]`);
}

function refuseRepeatedHeader(headers: SendRequest['headers'], issueAt: IssueAt): void {
  const names = new Map<string, string>();
  for (const { name } of headers) {
    const first = names.get(name.toLowerCase());
    if (first !== undefined) issueAt(['headers', name], `is the same header as ${first}`);
    names.set(name.toLowerCase(), name);
  }
}
