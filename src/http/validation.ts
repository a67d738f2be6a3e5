import { z } from 'zod';
import { invalidRequest } from '../errors.ts';
import { isId } from '../ids.ts';
import { AddressError, type Mailbox, normalizeDomain, parseMailbox } from '../mail/address.ts';
import { refuseText } from '../mail/characters.ts';
import { isGuessable } from '../password.ts';
import { parseTimestamp } from '../timestamp.ts';

/**
 * Parses untrusted input, once; everything behind it takes the result at its word.
 *
 * @param at where the input stands in the body
 * @throws ApiError 400 whose detail names the field and the reason, such as `to[0]: not an email address`
 */
export function parse<T extends z.ZodType>(schema: T, input: unknown, at: PropertyKey[] = []): z.output<T> {
  const { fault, value } = examine(schema, input);
  if (!fault) return value;
  const path = nameOf([...at, ...fault.path]);
  throw invalidRequest(`${path ? `${path}: ` : ''}${fault.message}`);
}

/** What is wrong with an input, and with which of its members. */
interface Fault {
  path: PropertyKey[];
  message: string;
}

/** What the schema makes of the input, or what is wrong with it first. */
export function examine<T extends z.ZodType>(
  schema: T,
  input: unknown,
): { fault: Fault; value?: never } | { fault: null; value: z.output<T> } {
  const { success, data, error } = schema.safeParse(input, { error: inOurWords });
  const { path = [], message = notRight } = error?.issues[0] ?? {};
  // What is missing may be there by a name that is nearly right.
  const misnamed = success || message.includes(requiredWords) ? misspelt(schema, input) : null;
  if (misnamed) return { fault: misnamed };
  return success ? { fault: null, value: data } : { fault: { path, message } };
}

const requiredWords = 'is required';
const notRight = 'is not as the reference says';

/** What is wrong, where the schema has no words of its own for it: those of zod are for whoever wrote the schema. */
const inOurWords = ({ code, expected }: { code: string; expected?: unknown }): string =>
  code === 'invalid_type' && expected === 'object' ? 'must be an object' : notRight;

/**
 * Members that are not known are ignored, as clients of other services send some. But one that is meant for a member of ours,
 * such as `scheduledAt`, or `scope` for `scopes`, would do something else than was asked for.
 *
 * @returns the first of those, of the input or of what is in it, and what is wrong with it; null where there is none
 */
function misspelt(schema: z.ZodType, input: unknown): Fault | null {
  const bare = withoutWrapping(schema);
  if (typeof input !== 'object' || input === null) return null;
  if (bare instanceof z.ZodArray && Array.isArray(input)) {
    const element = bare.element as z.ZodType;
    return firstOf(input.entries(), ([index, item]) => within(index, misspelt(element, item)));
  }
  if (!(bare instanceof z.ZodObject)) return null;
  return (
    misspeltMember(bare, input) ??
    firstOf(membersWithin(bare), ([name, member]) =>
      within(name, misspelt(member, (input as Record<string, unknown>)[name])),
    )
  );
}

const searched = new WeakMap<z.ZodObject, [name: string, member: z.ZodType][]>();

/** Those of its members that are objects or lists of such: found once, as every email is looked through. */
function membersWithin(object: z.ZodObject): [name: string, member: z.ZodType][] {
  const found =
    searched.get(object) ??
    Object.entries(object.shape as Record<string, z.ZodType>).filter(([, member]) =>
      hasMembers(withoutWrapping(member)),
    );
  searched.set(object, found);
  return found;
}

const hasMembers = (bare: z.ZodType): boolean =>
  bare instanceof z.ZodArray ? hasMembers(withoutWrapping(bare.element as z.ZodType)) : bare instanceof z.ZodObject;

const within = (name: PropertyKey, wrong: Fault | null) => wrong && { ...wrong, path: [name, ...wrong.path] };

function firstOf<Item>(items: Iterable<Item>, look: (item: Item) => Fault | null): Fault | null {
  for (const item of items) {
    const wrong = look(item);
    if (wrong) return wrong;
  }
  return null;
}

/** What the input has to be as it comes, before it may be left out and before it is made into something else. */
function withoutWrapping(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    return withoutWrapping(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodPipe ? withoutWrapping(schema.in as z.ZodType) : schema;
}

function misspeltMember(object: z.ZodObject, input: object): Fault | null {
  const unknown = Object.keys(input).filter((name) => !Object.hasOwn(object.shape, name));
  if (unknown.length === 0) return null;
  const names = Object.keys(object.shape);
  // Not the other way round: who sends back what was answered has `suspended_at` beside `suspended`.
  const untimed = names.filter((name) => name.endsWith('_at')).map((name) => name.slice(0, -'_at'.length));
  const known = new Map([
    ...untimed.map((name) => [plainly(name), `${name}_at`] as const),
    ...names.map((name) => [plainly(name), name] as const),
  ]);
  for (const name of unknown) {
    const plain = plainly(name);
    const asks = ![null, undefined, false].includes((input as Record<string, null>)[name]);
    const other = asks ? elsewhere.get(plain) : undefined;
    const meant = known.get(plain) ?? (names.includes(other ?? '') ? other : undefined);
    if (meant !== undefined) return { path: [name], message: `is called ${meant} here` };
    const sends = names.includes('to') || names.includes('emails');
    if (asks && sends && trials.has(plain))
      return { path: [name], message: 'is no field but a parameter of the call: POST /api/v1/emails?dry_run=true' };
    // Credit that is added twice is money.
    if (asks && plain === 'idempotencykey' && (sends || names.includes('amount')))
      return { path: [name], message: 'is no field but a header: Idempotency-Key' };
  }
  for (const name of unknown.slice(0, mostTypingErrors)) {
    for (const [plain, meant] of known)
      if (isTypingErrorOf(plain, plainly(name))) return { path: [name], message: `is not known: is ${meant} meant?` };
  }
  return null;
}

/** What other services call something that would not be done here, or not so, if the name were passed over. */
const elsewhere = new Map([
  ...['sendat', 'sendtime', 'sendafter', 'deliverat', 'deliverytime', 'o:deliverytime'].map(
    (name) => [name, 'scheduled_at'] as const,
  ),
  ...['expiresin', 'expiry', 'expiration', 'ttl'].map((name) => [name, 'expires_at'] as const),
  ['cid', 'content_id'],
  ...['fallback', 'default', 'defaultvalue'].map((name) => [name, 'fallback_value'] as const),
]);

/** What asks that nothing be sent. */
const trials = new Set(['dryrun', 'sandbox', 'sandboxmode', 'testmode', 'o:testmode']);

/** The same for `replyTo`, `reply-to` and `reply_to`, for one and for several. */
const plainly = (name: string) => name.slice(0, 60).toLowerCase().replaceAll(/[-_]/g, '').replace(/s$/, '');

/** Names that are looked at for them: whoever sends more of his own did not mistype one. */
const mostTypingErrors = 50;
/** One letter of a shorter name makes another word of it, as `test` of `text`. */
const shortestMistyped = 5;

/** Whether one letter is missing, too many or another one, or two have changed places. */
function isTypingErrorOf(known: string, written: string): boolean {
  let same = 0;
  while (same < known.length && known[same] === written[same]) same += 1;
  const [rest, other] = [known.slice(same), written.slice(same)];
  if (rest.length === other.length && rest[0] === other[1] && rest[1] === other[0] && rest.length > 1)
    return rest.slice(2) === other.slice(2);
  if (known.length < shortestMistyped) return false;
  return rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1);
}

/** The query names something that the call does not have. */
export const unknownParameter = (name: string) => invalidRequest(`${nameOf([name])}: is not a parameter of this call`);

/** The body names something, and the call takes nothing. */
export const noSuchField = (name: string) =>
  invalidRequest(`${nameOf([name])}: is no field of this call, which takes none`);

/** Which of the two is meant is anybody's guess. */
export const givenTwice = (name: string) => invalidRequest(`${nameOf([name])}: may be given once`);

/** A parameter of the query, or the query itself, cannot be decoded. */
export const badEncoding = (name: string) =>
  invalidRequest(`${nameOf([name])}: is not the percent-encoding of UTF-8 text (a % itself is %25)`);

/** `['emails', 3, 'to', 0]` as `emails[3].to[0]`, cut where a client made a name very long. */
function nameOf(path: PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += `${text ? '.' : ''}${String(part).replaceAll(/[^\x20-\x7e]/g, '?')}`;
  }
  return text.slice(0, 200);
}

const typeError = (expected: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? requiredWords : `must be ${expected}`;

/** A string that fits a header or a label: no controls, no lone surrogates. */
export function line(most: number): z.ZodType<string, string> {
  return (
    z
      .string({ error: typeError('a string') })
      .min(1, 'must not be empty')
      // What is too long is not looked at any further: it may have 40 MB.
      .max(most, { error: `may have ${most} characters at the most`, abort: true })
      .superRefine((text, context) => {
        const refused = refuseText(text);
        if (refused) context.addIssue(refused);
      })
  );
}

/** An id as it is stored, in lower case. That of a path is brought to it in `app.ts`. */
export const id = (message: string) => z.string().refine(isId, message).toLowerCase().meta({ format: 'uuid' });

/** What people call something. */
export const label = line(200).refine((text) => text.trim() !== '', 'must not be blank');

const fewestInPassword = 8;

/** One that somebody chooses. */
export const password = line(200)
  .refine((text) => text.length >= fewestInPassword, `must have at least ${fewestInPassword} characters`)
  .refine((text) => !isGuessable(text), 'must be one that nobody guesses')
  .meta({ minLength: fewestInPassword });

/** A string of several lines that PostgreSQL can store: no NUL, no lone surrogates. */
export function text(most: number): z.ZodType<string, string> {
  return unescapedText(most)
    .refine((value) => !value.includes('\0'), 'holds a NUL character')
    .refine((value) => value.isWellFormed(), 'holds half of a surrogate pair');
}

/** The same of JSON without `\u`, where no string can hold those: to look for them takes longer than parsing did. */
export function unescapedText(most: number): z.ZodType<string, string> {
  return z
    .string({ error: typeError('a string') })
    .max(most, { error: `may have ${most} characters at the most`, abort: true });
}

export function list<T extends z.ZodType>(item: T, most: number): z.ZodArray<T> {
  return z.array(item, { error: typeError('an array') }).max(most, `may have ${most} entries at the most`);
}

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, {
    error: ({ input }) => (input === undefined ? requiredWords : `must be one of ${values.join(', ')}`),
  });

/** An address has 254 octets at most; the rest is room for a name. */
const longestMailbox = 1_000;

/** For the reference: what the parser and the schema of a template's both hold it to. */
const mailboxLength = { minLength: 1, maxLength: longestMailbox };

/** One address, or `Name <address>`. */
export const mailbox = z
  .string({ error: typeError('a string') })
  .max(longestMailbox, { error: `may have ${longestMailbox} characters at the most`, abort: true })
  .meta(mailboxLength)
  .transform((value, context): Mailbox => {
    try {
      return parseMailbox(value);
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      context.addIssue(error.message);
      return z.NEVER;
    }
  });

/** The name of a domain or a host, in lower case and as A-labels. */
export const domainName = line(253).transform((value, context) => {
  try {
    return normalizeDomain(value);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    context.addIssue(error.message);
    return z.NEVER;
  }
});

/** One address or an array of them, `most` at the most, as an array. */
export const mailboxes = (most: number) =>
  z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z
        .array(mailbox, { error: typeError('a string or an array of strings') })
        .max(most, `may have ${most} addresses at the most`),
    )
    .meta(oneOrMore(most));

/** For the reference: how an address or an array of them looks before it is parsed. */
export function oneOrMore(most: number, least?: 1) {
  const one = { type: 'string', ...mailboxLength };
  const several = { type: 'array', items: one, ...(least === undefined ? {} : { minItems: least }), maxItems: most };
  return { shownAs: { anyOf: [one, several] } };
}

/** What a UUIDv7 can carry and four digits can say, in UTC. */
const firstTime = 0;
const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** What `parseTimestamp` takes, from 1970 to 9999. */
export const timestamp = z
  .string({ error: typeError('an RFC 3339 timestamp') })
  .meta({ format: 'date-time' })
  .transform((value, context): Date => {
    const at = parseTimestamp(value);
    if (!at) {
      context.addIssue('must be an RFC 3339 timestamp such as 2027-01-31T09:00:00Z');
      return z.NEVER;
    }
    if (at.getTime() < firstTime || at.getTime() > lastTime) {
      context.addIssue('must be a time from 1970 to 9999');
      return z.NEVER;
    }
    return at;
  });

const wholeNumber = (most: number) =>
  z
    .string({ error: typeError('a whole number') })
    .regex(/^\d+$/, 'must be a whole number that is not negative')
    .transform((value) => Math.min(Number(value), most))
    .optional();

/** A query parameter that is a whole number; above `most` it is taken as `most`. */
export const count = (fallback: number, most: number) =>
  wholeNumber(most)
    .transform((value) => value ?? fallback)
    .meta({ shownAs: { type: 'integer', minimum: 0, default: fallback } });

/** The query parameters of a list, all of which are newest first. */
export const page = {
  limit: count(50, 100).describe('How many to answer with. Above 100 it is taken as 100.'),
  offset: count(0, 2_147_483_647).describe('How many to leave out, from the newest on.'),
};

/** The same of a list that is short, and is answered whole where nothing is said. */
export const part = {
  limit: wholeNumber(100)
    .meta({ shownAs: { type: 'integer', minimum: 0 } })
    .describe('How many to answer with; omitted, all. Above 100 it is taken as 100.'),
  offset: page.offset,
};
