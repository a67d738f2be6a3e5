import type { Context } from 'koa';
import { z } from 'zod';
import { isGuessable } from '../../crypto/password.ts';
import { invalidRequest } from '../../errors.ts';
import { isId } from '../../ids.ts';
import {
  AddressError,
  type Mailbox,
  normalizeDomain,
  parseMailbox,
  wordsForDomain,
} from '../../mail/address/address.ts';
import { cutText, refuseText, visible } from '../../mail/text/characters.ts';
import { grouped } from '../../numbers.ts';
import { parseTimestamp } from '../../timestamp.ts';
import { type Fault, miscalled, passedOver } from './unknown-members.ts';

/**
 * Parses untrusted input. All code behind it trusts the result.
 *
 * @param at the path of the input within the body
 * @throws ApiError 400 whose detail names the field and the reason, such as `to[0]: not an email address`
 */
export function parse<T extends z.ZodType>(schema: T, input: unknown, at: PropertyKey[] = []): z.output<T> {
  const { fault, value } = examine(schema, input);
  if (!fault) return value;
  const path = nameOf([...at, ...fault.path]);
  throw invalidRequest(`${path ? `${path}: ` : ''}${fault.message}`);
}

/** The parsed input, or the first fault in it. */
export function examine<T extends z.ZodType>(
  schema: T,
  input: unknown,
): { fault: Fault; value?: never } | { fault: null; value: z.output<T> } {
  const { success, data, error } = schema.safeParse(input, { error: inOurWords });
  const { path = [], message = notRight } = error?.issues[0] ?? {};
  const refused = (message === requiredWords && miscalled(path, input)) || { path, message };
  const fault = success ? passedOver(schema, input) : refused;
  return fault ? { fault } : { fault: null, value: data as z.output<T> };
}

const requiredWords = 'is required';
const notRight = 'is not valid: see the reference';

/** The message for a fault that the schema has no message for: those of zod are for the authors of schemas. */
const inOurWords = ({ code, expected }: { code: string; expected?: unknown }): string =>
  code === 'invalid_type' && expected === 'object' ? 'must be an object' : notRight;

/** The query has a parameter that the call does not take. */
export const unknownParameter = (name: string) => invalidRequest(`${nameOf([name])}: is not a parameter of this call`);

/** A member that conflicts with others, or with the database. */
export const refusedField = (name: string, words: string) => invalidRequest(`${nameOf([name])}: ${words}`);

/** The body has a field that the call does not take. */
export const noSuchField = (name: string, taken: string) =>
  invalidRequest(`${nameOf([name])}: is not a field of this call, which takes ${taken}`);

/** It would be a guess which of the two is meant. */
export const givenTwice = (name: string) => invalidRequest(`${nameOf([name])}: may be given only once`);

/** A query parameter, or the query itself, cannot be decoded. */
export const badEncoding = (name: string) =>
  invalidRequest(`${nameOf([name])}: is not percent-encoded UTF-8 (write % as %25)`);

/** `['emails', 3, 'to', 0]` as `emails[3].to[0]`, cut if a client made it very long. */
function nameOf(path: PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += `${text ? '.' : ''}${visible(String(part))}`;
  }
  return cutText(text, 200);
}

const typeError = (expected: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? requiredWords : `must be ${expected}`;

/**
 * A string that fits a header or a label: no controls, no lone surrogates.
 *
 * @param expected what a value of another type should have been
 */
export function line(most: number, expected = 'a string'): z.ZodType<string, string> {
  return (
    z
      .string({ error: typeError(expected) })
      .min(1, 'must not be empty')
      // A longer string is not examined further: it may have 40 MB.
      .max(most, { error: `must have at most ${grouped(most)} characters`, abort: true })
      .superRefine((text, context) => {
        const refused = refuseText(text);
        if (refused) context.addIssue(refused);
      })
  );
}

/** The id in the path, which may be any text: where it is used, one that is not an id is a 404. */
export const idOf = (ctx: Context): string => ctx.params.id ?? '';

/** An id as it is stored, in lower case. `app.ts` does the same for ids in paths. */
export const id = (message: string) =>
  z
    .string({ error: typeError('a string') })
    .refine(isId, message)
    .toLowerCase()
    .meta({ format: 'uuid' });

/** A name for people. */
export const label = line(200).refine((text) => text.trim() !== '', 'must not be blank');

const fewestInPassword = 8;

/** A password that a user chooses. */
export const password = line(200)
  .refine((text) => text.length >= fewestInPassword, `must have at least ${fewestInPassword} characters`)
  .refine((text) => !isGuessable(text), 'is too easy to guess')
  .meta({ minLength: fewestInPassword });

/** A string of several lines that PostgreSQL can store: no NUL, no lone surrogates. */
export function text(most: number): z.ZodType<string, string> {
  return unescapedText(most)
    .refine((value) => !value.includes('\0'), 'contains a NUL character')
    .refine((value) => value.isWellFormed(), 'contains half of a surrogate pair');
}

/** Like `text`, for JSON without `\u`, whose strings cannot hold those: checking would take longer than parsing did. */
export function unescapedText(most: number): z.ZodType<string, string> {
  return z
    .string({ error: typeError('a string') })
    .max(most, { error: `must have at most ${grouped(most)} characters`, abort: true });
}

/** @param expected what a value of another type should have been */
export function list<T extends z.ZodType>(item: T, most: number, expected = 'an array'): z.ZodArray<T> {
  return z.array(item, { error: typeError(expected) }).max(most, `must have at most ${grouped(most)} entries`);
}

/** An empty array as `{}`, because PHP encodes an empty object as `[]`. */
export const emptiedArray = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? {} : value);

/** An object whose members have names of the client's own. */
export const namedValues = (example: string) =>
  z.preprocess(
    emptiedArray,
    z.custom<Record<string, unknown>>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      `must be an object, such as ${example}`,
    ),
  );

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, {
    error: typeError(values.length === 1 ? values[0] : `one of ${values.join(', ')}`),
  });

/** An address has at most 254 octets; the rest is for a name. */
const longestMailbox = 1_000;

/** For the reference: both the parser and the schema of templates enforce it. */
const mailboxLength = { minLength: 1, maxLength: longestMailbox };

/** One address, or `Name <address>`. */
export const mailbox = oneMailbox(wordsForOnly);

/** One address of several. */
const memberMailbox = oneMailbox(wordsForMember);

/** What is wrong with a field that takes one address, given the fault found in it. */
export function wordsForOnly(value: string, fault: string): string {
  return holdsSeveral(value) ? 'is more than one address: give only one' : fault;
}

/** What is wrong with one address of several, given the fault found in it as a single address. */
export function wordsForMember(value: string, fault: string): string {
  return holdsSeveral(value) ? severalInOne : fault;
}

const holdsSeveral = (value: string) => value.split(/[,;]/).filter((part) => part.includes('@')).length > 1;

const severalInOne = 'is more than one address: send several as an array, ["a@b.example", "c@d.example"]';

function oneMailbox(wordsFor: (value: string, fault: string) => string) {
  return z
    .string({ error: typeError('a string, such as "Ann <ann@mail.example>"') })
    .min(1, { error: 'must not be empty', abort: true })
    .max(longestMailbox, { error: `must have at most ${grouped(longestMailbox)} characters`, abort: true })
    .meta(mailboxLength)
    .transform((value, context): Mailbox => {
      try {
        return parseMailbox(value);
      } catch (error) {
        if (!(error instanceof AddressError)) throw error;
        context.addIssue(wordsFor(value, error.message));
        return z.NEVER;
      }
    });
}

/** The name of a domain or host, in lower case and as A-labels. */
export const domainName = line(253).transform((value, context) => {
  try {
    return normalizeDomain(value);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    context.addIssue(wordsForDomain(value, error.message));
    return z.NEVER;
  }
});

/** One address or an array of at most `most`, parsed to an array. */
export const mailboxes = (most: number) =>
  z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z
        .array(memberMailbox, { error: typeError('a string or an array of strings') })
        .max(most, `must have at most ${most} addresses`),
    )
    .meta(oneOrMore(most));

/** For the reference: how an address or an array of them looks before it is parsed. */
export function oneOrMore(most: number, least?: 1) {
  const one = { type: 'string', ...mailboxLength };
  const several = { type: 'array', items: one, ...(least === undefined ? {} : { minItems: least }), maxItems: most };
  return { shownAs: { anyOf: [one, several] } };
}

/** The range in UTC that a UUIDv7 and a year of four digits can express. */
const firstTime = 0;
const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const anRfc3339Timestamp = 'an RFC 3339 timestamp such as 2027-01-31T09:00:00Z';

const timestampBy = (read: (text: string) => Date | null) =>
  z
    .string({ error: typeError(anRfc3339Timestamp) })
    .meta({ format: 'date-time' })
    .transform((value, context): Date => {
      const at = read(value);
      if (!at) {
        context.addIssue(`must be ${anRfc3339Timestamp}`);
        return z.NEVER;
      }
      if (at.getTime() < firstTime || at.getTime() > lastTime) {
        context.addIssue('must be a time from 1970 to 9999');
        return z.NEVER;
      }
      return at;
    });

/** A timestamp as `parseTimestamp` accepts it, from 1970 to 9999. */
export const timestamp = timestampBy(parseTimestamp);

/** The same as a query parameter, where the `+` of an offset such as `+02:00` is a space unless it is encoded. */
export const timestampInQuery = timestampBy((text) => parseTimestamp(text.replace(/ (\d\d:\d\d)$/, '+$1')));

const wholeNumber = (most: number) =>
  z
    .string({ error: typeError('a whole number') })
    .regex(/^\d+$/, 'must be a whole number, 0 or more')
    .transform((value) => Math.min(Number(value), most))
    .optional();

/** A query parameter that is a whole number; anything above `most` counts as `most`. */
const count = (fallback: number, most: number) =>
  wholeNumber(most)
    .transform((value) => value ?? fallback)
    .meta({ shownAs: { type: 'integer', minimum: 0, default: fallback } });

/** The query parameters of a list. All lists are newest first. */
export const page = {
  limit: count(50, 100).describe('How many to return. A value above 100 counts as 100.'),
  offset: count(0, 2_147_483_647).describe('How many to skip, newest first.'),
};

/** Like `page`, for a short list, which is returned whole by default. */
export const part = {
  limit: wholeNumber(100)
    .meta({ shownAs: { type: 'integer', minimum: 0 } })
    .describe('How many to return. A value above 100 counts as 100. Omitted: all.'),
  offset: page.offset,
};
