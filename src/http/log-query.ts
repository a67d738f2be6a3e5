import { z } from 'zod';
import { AddressError, normalizeDomain } from '../mail/address.ts';
import { id, line, oneOf, page, timestamp } from './validation.ts';

/** Strings are compared as they are stored: addresses, domains and words in lower case. */
const lower = (most: number) => line(most).transform((value) => value.toLowerCase());

/** An address, a domain or a part of one as it would be stored: a domain in its A-labels; what is none yet just in lower case. */
export function asStored(text: string): string {
  const at = text.lastIndexOf('@') + 1;
  try {
    return text.slice(0, at).toLowerCase() + normalizeDomain(text.slice(at));
  } catch (error) {
    if (error instanceof AddressError) return text.toLowerCase();
    throw error;
  }
}

const address = line(320).transform(asStored);

const fields = {
  ...page,
  cursor: id('must be the next_cursor of another page')
    .optional()
    .describe('The `next_cursor` of the page before: goes on behind it, and stays right while emails are added.'),
  status: oneOf(['queued', 'sent', 'failed', 'suppressed', 'canceled']).optional().describe('The status it has now.'),
  type: oneOf(['transactional', 'marketing']).optional().describe('What it was sent as.'),
  tag: line(256).optional().describe('A label that it carries.'),
  from: address.optional().describe("The sender's address, without a name."),
  to: address
    .optional()
    .describe('The address of a recipient, be it in to, cc or bcc; `@example.com` is whoever has one at that domain.'),
  domain: line(253).transform(asStored).optional().describe("The sender's domain."),
  q: lower(998).optional().describe('Words that the subject has, all of them.'),
  held: oneOf(['true'])
    .optional()
    .describe(
      'Only those that wait for somebody to decide: they may have arrived already, or processes ended with them.',
    ),
  created_after: timestamp.optional().describe('Accepted at this time or later.'),
  created_before: timestamp.optional().describe('Accepted before this time.'),
};

/** As the core wants it. */
function read(query: z.output<z.ZodObject<typeof fields>>) {
  return {
    page: { limit: query.limit, offset: query.offset, cursor: query.cursor ?? null },
    filter: {
      status: query.status ?? null,
      type: query.type ?? null,
      tag: query.tag ?? null,
      from: query.from ?? null,
      to: query.to ?? null,
      domain: query.domain ?? null,
      q: query.q ?? null,
      held: query.held !== undefined,
      createdAfter: query.created_after ?? null,
      createdBefore: query.created_before ?? null,
    },
  };
}

/** The query of the log: a page, and what to search by. */
export const logQuery = z
  .object({
    ...fields,
    scheduled: oneOf(['true']).optional().describe('Only those that wait for the time of their `scheduled_at`.'),
  })
  .transform(({ scheduled, ...query }) => {
    const { page: one, filter } = read(query);
    return { page: one, filter: { ...filter, scheduled: scheduled !== undefined } };
  });

/** The same for the log of all accounts. */
export const allLogsQuery = z
  .object({
    account_id: id('must be an account id').optional().describe('Only those of this account.'),
    ...fields,
  })
  .transform(({ account_id: accountId, ...query }) => ({ accountId: accountId ?? null, ...read(query) }));
