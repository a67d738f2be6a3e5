import { z } from 'zod';
import { pastToleranceMs } from '../../core/accounts/send-limits.ts';
import { isMarketing } from '../../mail/headers/foreign-controls.ts';
import { isNearly, plainly } from '../../spelling.ts';

/** What is wrong with an input, and which member it is about. */
export interface Fault {
  path: PropertyKey[];
  message: string;
}

type Input = Record<string, unknown>;

/** A member that must not be ignored when a client gives it by another name. */
interface Guarded {
  ours: string;
  /** What would happen if it were ignored. */
  otherwise: string;
  /** Its names in other services, in the form of `plainly`. */
  elsewhere?: string[];
  /** Whether the value, under this name in the form of `plainly`, asks for something other than the default. */
  asks?: (value: unknown, plain: string) => boolean;
  /** Set if an empty list asks for less than the default. */
  isLessIfEmpty?: true;
  /** What ours takes instead, if it is of another type; then `false` asks for something too. */
  values?: string;
  /** The list whose items have it: a single one next to the list would apply to none of them. */
  each?: 'emails' | 'suppressions';
  /** Set if it is not a member: what it is instead, and the members of the calls that take it. */
  not?: { words: string; beside: string[] };
}

const guarded: Guarded[] = [
  {
    ours: 'scheduled_at',
    otherwise: 'the email would be sent at once',
    // SendGrid, Mandrill, MailerSend and Nylas; Mailgun; Unosend.
    elsewhere: ['sendat', 'o:deliverytime', 'scheduledfor', 'scheduled'],
    asks: isAhead,
    each: 'emails',
  },
  { ours: 'cc', otherwise: 'nobody would get a copy', each: 'emails' },
  { ours: 'bcc', otherwise: 'nobody would get a copy', each: 'emails' },
  {
    ours: 'reply_to',
    otherwise: 'replies would go to the sender',
    // SendGrid, Amazon SES, Mailgun.
    elsewhere: ['replytolist', 'replytoaddresses', 'h:replyto'],
    each: 'emails',
  },
  { ours: 'attachments', otherwise: 'the files would not be sent', each: 'emails' },
  {
    ours: 'content_id',
    otherwise: 'the html could not show the file',
    // nodemailer; Resend.
    elsewhere: ['cid', 'inlinecontentid'],
  },
  {
    ours: 'type',
    otherwise: 'unsubscribed recipients would get it too',
    // Postmark; Resend, which leaves out those who opted out of the topic.
    elsewhere: ['messagestream', 'emailtype', 'topicid'],
    asks: (value, plain) => plain === 'topicid' || (typeof value === 'string' && isMarketing(value)),
    each: 'emails',
  },
  {
    ours: 'tls',
    otherwise: 'mail might be sent unencrypted',
    // nodemailer, Mailgun.
    elsewhere: ['requiretls', 'o:requiretls'],
    asks: (value) => value === true || isWord(value, /^(yes|true)$|requ|enforce|verif/i),
    each: 'emails',
  },
  { ours: 'on_uncertain', otherwise: 'the email might arrive twice', each: 'emails' },
  {
    ours: 'dry_run',
    otherwise: 'the email would be sent',
    // Mailgun, Mailjet.
    elsewhere: ['o:testmode', 'sandboxmode'],
    not: { words: 'a query parameter, as in POST /api/v1/emails?dry_run=true', beside: ['to', 'emails'] },
  },
  {
    ours: 'idempotency_key',
    otherwise: 'a retry would repeat the call',
    not: { words: 'the header Idempotency-Key', beside: ['to', 'emails', 'recipients', 'amount'] },
  },
  { ours: 'recipients', otherwise: 'all recipients would get it again' },
  {
    ours: 'scopes',
    otherwise: 'the key could send',
    // Resend has the first.
    elsewhere: ['permission', 'permissions', 'role', 'access', 'readonly'],
    // Scopes that only read, or that are unknown here.
    asks: (value) => !/send|full|admin|write|\ball\b|[*]/i.test(JSON.stringify(value)),
    isLessIfEmpty: true,
  },
  {
    ours: 'domains',
    otherwise: 'the key would be valid for all domains',
    // Resend has the first.
    elsewhere: ['domainid', 'restrictto'],
    isLessIfEmpty: true,
  },
  {
    ours: 'expires_at',
    otherwise: 'the key would never expire',
    elsewhere: ['expires', 'expiresin', 'expiry', 'expiration', 'ttl'],
  },
  { ours: 'reason', otherwise: 'the address would get no mail at all', each: 'suppressions' },
  {
    // Of a change of a webhook endpoint: nothing else in a body has it.
    ours: 'status',
    otherwise: 'the endpoint would stay as it is',
    // SendGrid, GitHub, Stripe.
    elsewhere: ['enabled', 'isenabled', 'active', 'isactive', 'disabled', 'isdisabled', 'paused', 'state'],
    values: '"enabled" or "disabled"',
  },
];

/** A past time means now. Seconds and milliseconds since 1970 are told apart by their size. */
function isAhead(value: unknown): boolean {
  const ms = typeof value === 'number' ? value * (value < 1e11 ? 1_000 : 1) : Number.NaN;
  const at = typeof value === 'string' ? Date.parse(value.slice(0, longestWord)) : ms;
  return !(at <= Date.now() + pastToleranceMs);
}

const longestWord = 100;

const isWord = (value: unknown, pattern: RegExp) =>
  typeof value === 'string' && value.length <= longestWord && pattern.test(value);

/** True for what asks for nothing in JSON: null, false, 0, and a text, list or object with nothing in it. */
export function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return !value;
  // No `Object.keys`: it may have very many.
  for (const _ in value) return false;
  return true;
}

/** Whether a value asks for nothing: many clients send every field that they know. */
const isNothing = (value: unknown) => isEmpty(value) || isWord(value, /^(0|false|no|never|now|off)$/i);

/**
 * Unknown members are ignored, because clients of other services send some. But a member that means one of those in `guarded`,
 * by another service's name or by a misspelling of ours, is refused if ignoring it would send mail to others, twice, unencrypted,
 * at another time or without its images, give a key more rights than intended, or leave a webhook endpoint as it is. It is not
 * refused if ours is given as well. The items of lists, such as attachments, are examined too.
 *
 * @returns the first such member; null if there is none
 */
export function passedOver(schema: z.ZodType, input: unknown): Fault | null {
  const shape = shapeOf(schema);
  const members = Object.keys(shape);
  if (members.length === 0 || typeof input !== 'object' || input === null) return null;
  for (const [name, value] of Object.entries(input)) {
    if (members.includes(name)) continue;
    const plain = plainly(name);
    for (const row of guarded.filter((one) => isMeantFor(one, plain) && asksFor(one, value, plain))) {
      const words = refusal(row, members, input as Input);
      if (words !== null) return { path: [name], message: `${words}; otherwise ${row.otherwise}` };
    }
  }
  for (const name of members) {
    const fault = passedOverWithin(shape[name] as z.ZodType, (input as Input)[name]);
    if (fault) return { ...fault, path: [name, ...fault.path] };
  }
  return null;
}

/** The same for the items of a member that is a list. */
function passedOverWithin(schema: z.ZodType, list: unknown): Fault | null {
  // First: few members of an email are lists, and it takes Zod longer to tell its schemas apart.
  if (!Array.isArray(list)) return null;
  const item = itemOf(schema);
  if (item === null) return null;
  for (const [index, each] of list.entries()) {
    const fault = passedOver(item, each);
    if (fault) return { ...fault, path: [index, ...fault.path] };
  }
  return null;
}

/**
 * A required member that is missing may be there in other letters, such as `From`, misspelled, or under its name elsewhere.
 *
 * @param path of the missing member within the input
 * @returns the fault of the member that is meant for it; null if there is none
 */
export function miscalled(path: PropertyKey[], input: unknown): Fault | null {
  const above = path.slice(0, -1);
  const ours = String(path.at(-1));
  const beside = above.reduce((value, name) => (value as Record<PropertyKey, unknown>)[name], input) as Input;
  const name = Object.keys(beside).find((one) => one !== ours && isNearly(plainly(ours), plainly(one)));
  if (name !== undefined) return { path: [...above, name], message: `must be called ${ours}` };
  for (const row of calledElsewhere.filter(({ missing }) => missing.includes(ours)))
    for (const [one, value] of Object.entries(beside))
      if (row.names.includes(plainly(one)) && !isEmpty(value)) return { path: [...above, one], message: row.words };
  return null;
}

/** What Resend, Postmark, Postal and nodemailer call what is required here, in the form of `plainly`. */
const calledElsewhere: { missing: string[]; names: string[]; words: string }[] = [
  { missing: ['html'], names: ['htmlbody'], words: 'must be called html' },
  { missing: ['text'], names: ['textbody', 'plainbody'], words: 'must be called text' },
  { missing: ['html'], names: ['react'], words: 'must be rendered, and the result sent as html' },
  {
    missing: ['html', 'subject'],
    names: ['templateid', 'templatealias'],
    words: 'must be sent as template, such as {"alias": "welcome", "variables": {"NAME": "Ann"}}',
  },
  { missing: ['filename'], names: ['name'], words: 'must be called filename' },
  { missing: ['content'], names: ['data'], words: 'must be called content' },
  {
    missing: ['content'],
    names: ['path', 'href', 'url'],
    words: 'is not fetched: send the bytes of the file as content, in base64',
  },
  { missing: ['domain'], names: ['name'], words: 'must be called domain' },
  { missing: ['url'], names: ['endpoint'], words: 'must be called url' },
  { missing: ['address'], names: ['email', 'emailaddress'], words: 'must be called address' },
];

function asksFor({ asks, isLessIfEmpty, values }: Guarded, value: unknown, plain: string): boolean {
  if (values !== undefined) return value !== null && value !== '';
  if (isNothing(value) && !(isLessIfEmpty && Array.isArray(value))) return false;
  return asks?.(value, plain) ?? true;
}

/** Why a member that means this row is refused; null if it is not. */
function refusal({ ours, each, not, values }: Guarded, members: string[], input: Input): string | null {
  const lacks = (one: unknown) => isNothing((one as Input | null)?.[ours]);
  const called = values === undefined ? ours : `${ours}, with the value ${values}`;
  if (members.includes(ours)) return lacks(input) ? `must be called ${called}` : null;
  if (not?.beside.some((name) => members.includes(name))) return `must be ${not.words}`;
  const items = each !== undefined && members.includes(each) ? input[each] : null;
  return Array.isArray(items) && items.some(lacks) ? `must be set in each item of ${each}` : null;
}

/** The members of the schema's input, before any transformation. */
function shapeOf(schema: z.ZodType): Readonly<Record<string, unknown>> {
  if (schema instanceof z.ZodPipe) return shapeOf(schema.in as z.ZodType);
  return schema instanceof z.ZodObject ? schema.shape : {};
}

/** The schema of an item of the schema's input; null if that is no list. */
function itemOf(schema: z.ZodType): z.ZodType | null {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return itemOf(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodArray ? (schema.element as z.ZodType) : null;
}

const isMeantFor = ({ ours, elsewhere }: Guarded, plain: string) =>
  elsewhere?.includes(plain) || isNearly(ours.replace('_', ''), plain);
