import type { EmailStatus, EmailType } from '../../generated/prisma/enums.ts';
import { floorId, timeOf } from '../../ids.ts';
import { heldIds } from '../recipients/held.ts';

/** A search in the log; null: anything. Addresses, names and words are in lower case. */
export interface Filter {
  /** Null only in the operators' log of all accounts. */
  accountId: string | null;
  status: EmailStatus | null;
  type: EmailType | null;
  tag: string | null;
  from: string | null;
  /** An address, or `@` and a domain for all addresses there (recipient-domain-search.ts). */
  to: string | null;
  domain: string | null;
  /** Words, all of which the subject must have. */
  q: string | null;
  /** The API key that sent it. */
  apiKeyId: string | null;
  /** Only emails with a recipient that is held until somebody decides. */
  held: boolean;
  /** Only emails that wait for their scheduled time. */
  scheduled: boolean;
  createdAfter: Date | null;
  createdBefore: Date | null;
}

export interface Page {
  limit: number;
  offset: number;
  /** The id of the last email of the previous page; null: from the newest on. */
  cursor: string | null;
}

/** The emails of a page, newest first, how many match in all, and where the next page begins (null if there is none). */
export interface Found {
  ids: string[];
  count: number;
  /** False if there are more: without a kept count, emails are counted only up to a limit. */
  countExact: boolean;
  nextCursor: string | null;
}

/** The emails of a page, and where the next one begins. @param ids those of the page, and the one after if there is one */
export function pageOf(ids: string[], { limit }: Pick<Page, 'limit'>): Pick<Found, 'ids' | 'nextCursor'> {
  const shown = ids.slice(0, limit);
  return { ids: shown, nextCursor: ids.length > limit ? (shown.at(-1) ?? null) : null };
}

/** SQL: another condition that each email with this status meets, so that a partial index can serve. */
const impliedBy: Partial<Record<EmailStatus, string>> = {
  failed: 'failed > 0',
  suppressed: 'suppressed > 0',
  canceled: '(scheduled_at IS NOT NULL OR erased_at IS NOT NULL)',
};

/** How far the clocks of two nodes may be apart, of which one made a key and the other one takes its emails. */
const clocksDifferMs = 86_400_000;

/** The smallest id that an email of this API key can have, as no email is older than its key. */
const firstSentBy = (keyId: string): string => floorId(new Date(timeOf(keyId).getTime() - clocksDifferMs));

/** Whether an index has just the emails of this status, those of an account in order. */
export const hasOwnIndex = (status: EmailStatus | null): boolean => status === 'failed' || status === 'suppressed';

/** Whether the filter asks for recipients at a domain. No index leads to these. */
export const isDomainSearch = ({ to }: Filter): boolean => to?.startsWith('@') ?? false;

/** SQL: whether the email has a recipient at `@` and a domain. Joined into one text, they are searched faster than by unnest. */
const isThere = (parameter: string): string =>
  `strpos(array_to_string(recipient_addresses, E'\\n') || E'\\n', ${parameter} || E'\\n') > 0`;

/**
 * The filter as a condition on `emails`. It contains only what is asked for, so that the planner sees which index serves.
 *
 * @param before the values of the parameters before its own, the first of which is the account, unless that is null
 */
export function conditions(filter: Filter, before: readonly unknown[] = []): { where: string; values: unknown[] } {
  const values = [...before];
  const parts = ['true'];
  const add = (value: unknown, condition: (parameter: string) => string) => {
    if (value === null) return;
    values.push(value);
    parts.push(condition(`$${values.length}`));
  };
  add(filter.accountId, (p) => `account_id = ${p}`);
  add(filter.status, (p) => `status = ${p}::email_status AND ${impliedBy[filter.status as EmailStatus] ?? 'true'}`);
  add(filter.type, (p) => `type = ${p}::email_type`);
  add(filter.tag, (p) => `tags @> ARRAY[${p}]`);
  add(filter.from, (p) => `from_address = ${p}`);
  add(filter.to, isDomainSearch(filter) ? isThere : (p) => `recipient_addresses @> ARRAY[${p}]`);
  add(filter.domain, (p) => `from_domain = ${p}`);
  if (filter.held) parts.push(`id = ANY(${heldIds(filter.accountId && '$1')})`);
  if (filter.scheduled) parts.push(`status = 'queued' AND scheduled_at > now()`);
  add(filter.q, (p) => `to_tsvector('simple', subject) @@ plainto_tsquery('simple', ${p})`);
  add(filter.apiKeyId, (p) => `api_key_id = ${p}`);
  // No index leads to the emails of a key.
  add(filter.apiKeyId && firstSentBy(filter.apiKeyId), (p) => `id >= ${p}::uuid`);
  // Ids begin with their time.
  add(filter.createdAfter && floorId(filter.createdAfter), (p) => `id >= ${p}::uuid`);
  add(filter.createdBefore && floorId(filter.createdBefore), (p) => `id < ${p}::uuid`);
  return { where: parts.join(' AND '), values };
}
