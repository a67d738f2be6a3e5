import { z } from 'zod';
import { partAsStored } from '../../mail/address/address.ts';
import { id, line, oneOf, page as pageFields, timestampInQuery } from './validation.ts';

export const emailStatuses = ['queued', 'sent', 'failed', 'suppressed', 'canceled'] as const;

/** The log shows an address as it was sent, such as `Ann <ann@example.com>`; it is found by the address alone. */
const withoutName = (text: string): string => /<([^<>]*)>\s*$/.exec(text)?.[1] ?? text;

const address = line(320).transform((text) => partAsStored(withoutName(text)));

/** The parameters of both queries. Strings are compared as they are stored: addresses, domains and words in lower case. */
const sharedFields = {
  ...pageFields,
  cursor: id('must be the next_cursor of a previous page')
    .optional()
    .describe(
      'The `next_cursor` of the previous page. Unlike `offset`, which it replaces, it stays correct while emails are added.',
    ),
  status: oneOf(emailStatuses).optional().describe('Only emails with this status.'),
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
  held: oneOf(['true'])
    .optional()
    .describe(
      'Only emails that are held until you release them, because they may have arrived already or because processes crashed on them.',
    ),
  created_after: timestampInQuery.optional().describe('Only emails accepted at this time or later.'),
  created_before: timestampInQuery.optional().describe('Only emails accepted before this time.'),
};

/** Whoever adds to the offset and passes the cursor on too would skip ever more emails. */
const isOneWay = ({ cursor, offset }: { cursor?: string | undefined; offset: number }) =>
  cursor === undefined || offset === 0;
const oneWay = { path: ['offset'], message: 'must be omitted, or 0, when there is a cursor' };

/** The parameters in the form that the core takes. */
function pageAndFilter(query: z.output<z.ZodObject<typeof sharedFields>>) {
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
      apiKeyId: query.api_key_id ?? null,
      held: query.held !== undefined,
      // Only the log of one account can be searched for these.
      scheduled: false,
      createdAfter: query.created_after ?? null,
      createdBefore: query.created_before ?? null,
    },
  };
}

/** The query of the log: a page and a filter. */
export const logQuery = z
  .object({
    ...sharedFields,
    scheduled: oneOf(['true']).optional().describe('Only emails that wait for their `scheduled_at`.'),
  })
  .refine(isOneWay, oneWay)
  .transform(({ scheduled, ...query }) => {
    const { page, filter } = pageAndFilter(query);
    return { page, filter: { ...filter, scheduled: scheduled !== undefined } };
  });

/** The same for the log of all accounts. */
export const allLogsQuery = z
  .object({
    account_id: id('must be an account id').optional().describe('Only emails of this account.'),
    ...sharedFields,
  })
  .refine(isOneWay, oneWay)
  .transform(({ account_id: accountId, ...query }) => ({ accountId: accountId ?? null, ...pageAndFilter(query) }));
