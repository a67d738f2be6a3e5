import { z } from 'zod';
import { isId } from '../ids.ts';
import { count, line, oneOf, timestamp } from './validation.ts';

/** Strings are compared as they are stored: addresses, domains and words in lower case. */
const lower = (most: number) => line(most).transform((value) => value.toLowerCase());

/** The query of the log: a page, and what to search by. */
export const logQuery = z
  .object({
    limit: count(50, 100),
    offset: count(0, 2_147_483_647),
    cursor: z.string({ error: 'may be given once' }).refine(isId, 'must be the next_cursor of another page').optional(),
    status: oneOf(['queued', 'sent', 'failed', 'suppressed', 'canceled']).optional(),
    type: oneOf(['transactional', 'marketing']).optional(),
    tag: line(256).optional(),
    from: lower(320).optional(),
    to: lower(320).optional(),
    domain: lower(253).optional(),
    q: lower(998).optional(),
    created_after: timestamp.optional(),
    created_before: timestamp.optional(),
  })
  .transform((query) => ({
    page: { limit: query.limit, offset: query.offset, cursor: query.cursor ?? null },
    filter: {
      status: query.status ?? null,
      type: query.type ?? null,
      tag: query.tag ?? null,
      from: query.from ?? null,
      to: query.to ?? null,
      domain: query.domain ?? null,
      q: query.q ?? null,
      createdAfter: query.created_after ?? null,
      createdBefore: query.created_before ?? null,
    },
  }));
