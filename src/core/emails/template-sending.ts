import type { Sql } from '../../db/client.ts';
import { ApiError, invalidRequest, payloadTooLarge } from '../../errors.ts';
import type { Mailbox } from '../../mail/address/address.ts';
import { unsubscribeKeys } from '../../mail/links/unsubscribe-place.ts';
import { type CompiledTemplate, compile, render, type TemplateContent } from '../../mail/template/template.ts';
import { TemplateError } from '../../mail/template/template-values.ts';
import { grouped } from '../../numbers.ts';
import { givingWay } from '../../pace/give-way.ts';
import type { SendRequest } from './draft.ts';
import { findPublished, type TemplateRef } from './templates.ts';

/** Which template an email is made from, and with which values. */
export interface TemplateUse {
  ref: TemplateRef;
  variables: Record<string, unknown>;
}

/** A send request whose bodies come from a template, as do its `from`, `subject` and `replyTo` if it has none itself. */
export type TemplatedRequest = Omit<SendRequest, 'from' | 'subject' | 'html' | 'text'> & {
  from: Mailbox | null;
  subject: string | null;
  template: TemplateUse;
};

/** What a call can ask to send. */
export type Sendable = SendRequest | TemplatedRequest;

/**
 * The most characters of templates, and of emails made from them, that one call may use: as many as its body could have had.
 * Otherwise a request of a few hundred bytes could take gigabytes of memory.
 */
const mostCharacters = 40 * 1024 * 1024;

/**
 * Turns each request that names a template into a complete one, from the published version; the others are passed on
 * unchanged. Runs one statement, however many requests there are, and none if no template is named.
 *
 * @returns one entry for each request, in order; an ApiError for one that cannot be completed
 */
export async function resolve(db: Sql, accountId: string, requests: Sendable[]): Promise<(SendRequest | ApiError)[]> {
  const refs = requests.flatMap((request) => ('template' in request ? [request.template.ref] : []));
  if (refs.length === 0) return requests as SendRequest[];
  const found = (await findPublished(db, accountId, refs, mostCharacters)).values();
  const compiled = new Map<TemplateContent, CompiledTemplate>();
  /** Below zero once an email did not fit. */
  let room = mostCharacters;
  const complete = (request: TemplatedRequest): SendRequest | ApiError => {
    const template = found.next().value ?? null;
    if (template === null) return unknown(request.template.ref);
    if (template === 'draft') return invalidRequest(neverPublished);
    if (template === 'too large' || room < 0) return tooLarge();
    const known = compiled.get(template) ?? compile(template);
    compiled.set(template, known);
    const email = fillIn(request, known);
    if (email instanceof ApiError) return email;
    // After the first that does not fit, no other is rendered: that would cost time for nothing.
    room -= (email.html?.length ?? 0) + (email.text?.length ?? 0);
    return room < 0 ? tooLarge() : email;
  };
  return givingWay(requests, (request) => ('template' in request ? complete(request) : request));
}

function fillIn(request: TemplatedRequest, template: CompiledTemplate): SendRequest | ApiError {
  const { template: use, ...rest } = request;
  try {
    // Fields that the request has itself are not rendered: the variables in them need not be given.
    const rendered = render(
      {
        ...template,
        from: request.from ? null : template.from,
        subject: request.subject ? null : template.subject,
        replyTo: request.replyTo.length > 0 ? [] : template.replyTo,
      },
      use.variables,
      request.type === 'marketing' ? unsubscribeKeys : undefined,
    );
    const from = request.from ?? rendered.from;
    const subject = request.subject ?? rendered.subject;
    const replyTo = request.replyTo.length > 0 ? request.replyTo : rendered.replyTo;
    const [html, text] = [rendered.html || null, rendered.text || null];
    if (!from) return invalidRequest('from: is required, because the template has none');
    if (!subject) return invalidRequest('subject: is required, because the template has none');
    if (!html && !text) return invalidRequest('template: html and text are both empty when rendered');
    return { ...rest, from, subject, replyTo, html, text };
  } catch (error) {
    if (error instanceof TemplateError) return invalidRequest(`template.${error.message}${hintFor(error, request)}`);
    throw error;
  }
}

const isForLink = new Set([...unsubscribeKeys].map((key) => `variables.${key}`));

function hintFor({ place }: TemplateError, { type }: TemplatedRequest): string {
  if (!isForLink.has(place)) return '';
  return type === 'marketing'
    ? ' (it is the unsubscribe link if the template declares no variable of that name)'
    : ' (in marketing mail it is the unsubscribe link)';
}

const unknown = (ref: TemplateRef) =>
  invalidRequest(`template.${'id' in ref ? 'id' : 'alias'}: no template of this account has it`);

const neverPublished =
  'template: it is a draft that was never published: publish it with POST /api/v1/templates/:id/publish';

const tooLarge = () =>
  payloadTooLarge(`template: the emails of one call may have at most ${grouped(mostCharacters)} characters`);
