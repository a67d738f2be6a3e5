import { z } from 'zod';
import { searchFields, wantedBy } from './email-search.ts';
import { id, oneOf, page as pageFields } from './validation.ts';

export const emailStatuses = ['queued', 'sent', 'failed', 'suppressed', 'canceled'] as const;

/** The parameters of both queries. */
const sharedFields = {
  ...pageFields,
  cursor: id('must be the next_cursor of a previous page')
    .optional()
    .describe(
      'The `next_cursor` of the previous page. Unlike `offset`, which it replaces, it stays correct while emails are added.',
    ),
  status: oneOf(emailStatuses).optional().describe('Only emails with this status.'),
  ...searchFields,
  held: oneOf(['true'])
    .optional()
    .describe(
      'Only emails that are held until you release them, because they may have arrived already or because processes crashed on them.',
    ),
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
      ...wantedBy(query),
      status: query.status ?? null,
      held: query.held !== undefined,
      // Only the log of one account can be searched for these.
      scheduled: false,
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
