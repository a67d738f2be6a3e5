import { z } from 'zod';
import type { Wanted } from '../../core/orders/stopping-matching.ts';
import { invalidRequest } from '../../errors.ts';
import { partAsStored } from '../../mail/address/address.ts';
import { id, line, noSuchField, oneOf, parse, refusedField, timestampInQuery } from './validation.ts';

/** The log shows an address as it was sent, such as `Ann <ann@example.com>`; it is found by the address alone. */
const withoutName = (text: string): string => /<([^<>]*)>\s*$/.exec(text)?.[1] ?? text;

const address = line(320).transform((text) => partAsStored(withoutName(text)));

/** By what emails are found, whatever their status. Strings are compared as they are stored: addresses, domains and words in lower case. */
export const searchFields = {
  type: oneOf(['transactional', 'marketing']).optional().describe('Only emails of this type.'),
  tag: line(256).optional().describe('Only emails with this tag.'),
  from: address.optional().describe('Only emails from this address, whatever name is with it.'),
  to: address
    .optional()
    .describe('Only emails to this address, in to, cc or bcc; `@example.com` matches every address at that domain.'),
  domain: line(253).transform(partAsStored).optional().describe('Only emails from this sender domain.'),
  q: line(998)
    .transform((words) => words.toLowerCase())
    .optional()
    .describe('Only emails whose subject contains all of these words.'),
  api_key_id: id('must be the id of an API key')
    .optional()
    .describe('Only emails that this API key sent, over HTTP or by SMTP, such as one that has leaked.'),
  created_after: timestampInQuery.optional().describe('Only emails accepted at this time or later.'),
  created_before: timestampInQuery.optional().describe('Only emails accepted before this time.'),
};

/** The search in the form that the core takes. */
export const wantedBy = (search: z.output<z.ZodObject<typeof searchFields>>): Wanted => ({
  type: search.type ?? null,
  tag: search.tag ?? null,
  from: search.from ?? null,
  to: search.to ?? null,
  domain: search.domain ?? null,
  q: search.q ?? null,
  apiKeyId: search.api_key_id ?? null,
  createdAfter: search.created_after ?? null,
  createdBefore: search.created_before ?? null,
});

/** The body of a call that stops all emails that match. */
export const stopMatchingRequest = z.object(searchFields);

/**
 * What would match no email at all. A list shows that it found nothing, while an answer without anything to stop reads as if
 * nothing waited any more.
 */
const matchesNone: { field: 'from' | 'to' | 'domain'; if: (value: string) => boolean; words: string }[] = [
  { field: 'from', if: (value) => !/.@./.test(value), words: 'must be a whole address; domain takes a sender domain' },
  {
    field: 'to',
    if: (value) => !/@./.test(value),
    words: 'must be an address, or @ and a domain, such as @example.com, for every address there',
  },
  { field: 'domain', if: (value) => value.includes('@'), words: 'must be a sender domain, without @' },
];

/**
 * Which emails are to be stopped. Other than elsewhere, a member that the call does not take is refused, as it might have been
 * meant to spare some.
 *
 * @throws ApiError 400, also if nothing is asked for, which would be all mail of the account, or what no email can match
 */
export function parseWanted(body: Record<string, unknown>): Wanted {
  const taken = Object.keys(searchFields);
  const stray = Object.keys(body).find((name) => !taken.includes(name));
  if (stray !== undefined) throw noSuchField(stray, taken.join(', '));
  const wanted = wantedBy(parse(stopMatchingRequest, body));
  if (Object.values(wanted).every((value) => value === null))
    throw invalidRequest(`${taken.join(', ')}: at least one is required, to say which emails`);
  const vain = matchesNone.find(({ field, if: isVain }) => wanted[field] !== null && isVain(wanted[field]));
  if (vain) throw refusedField(vain.field, vain.words);
  return wanted;
}
