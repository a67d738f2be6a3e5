import { z } from 'zod';
import { mostGroups } from '../../core/log/stats-statement.ts';
import { grouped } from '../../numbers.ts';
import { statsQuery } from '../routes/stats.ts';
import type { Group } from './operation.ts';
import { integer, list, oneOf, time, words } from './schema.ts';

const milliseconds = (description: string) => z.number().min(0).describe(description);

const bucket = z
  .object({
    start: time('The start of the hour or day.'),
    group: words(
      "The sender domain, tag, type, the recipients' domain, or the provider that runs its mail servers; null without `group_by`.",
    ).nullable(),
    accepted: integer('Emails that were accepted in this time, also those that were canceled later.'),
    suppressed: integer(
      'Emails with a recipient on the suppression list; if the address was added to the list later, the other recipients may have got the email.',
    ),
    complaints: integer('Emails that led to a complaint, which put a recipient on the suppression list.'),
    delivered: integer('Recipients that the email was delivered to.'),
    pending: integer('Recipients that are not settled.'),
    failed: integer('Recipients that failed for good.'),
    failed_by_class: z
      .record(z.string(), z.int().min(0))
      .describe(
        'The failed recipients by the class of their last attempt: also of those that were given up or decided about, which are `other` without an attempt.',
      ),
    deferrals: integer('Attempts that a server answered with "later".'),
    latency_ms: z
      .object({
        p50: milliseconds('The median.'),
        p95: milliseconds('The 95th percentile.'),
        p99: milliseconds('The 99th percentile.'),
      })
      .nullable()
      .describe(
        "The time from when an email was due until the recipient's server accepted it, from 1 s on to three digits; null if nothing was delivered.",
      ),
  })
  .meta({ id: 'Bucket', description: 'What happened to the emails that were accepted in one hour or day.' });

const groupings = ['domain', 'tag', 'type', 'destination', 'provider'] as const;

export const statsGroup: Group = {
  name: 'Statistics',
  description: 'Counts and latency of your emails over time.',
  operations: [
    {
      id: 'getStats',
      method: 'get',
      path: '/api/v1/stats',
      summary: 'Get statistics',
      description:
        'Counts by hour or day in UTC, computed at the time of the call from the emails that the log still has: of a week that was over 30 days ago, those that were due or ended since, and later none. Keep the numbers of older days yourself. Counts of more than some 100,000 emails may take seconds. Those of one account are made one after the other, at most ten wait, and more are refused with 503. They are kept for twenty times as long as that took, for everyone who asks the same again, and `to`, if you omit it, is when they were made. Hours and days without emails are left out. Grouped by `destination` or `provider`, an email is accepted in the group of each of its recipients, and everything else is counted where the recipient is who it is about.',
      access: { key: 'read', orLogin: true },
      query: statsQuery,
      answer: {
        description: 'The counts.',
        schema: z.object({
          from: time('The start of the range.'),
          to: time('The end of the range; if you omitted it, when the counts were made.'),
          interval: oneOf(['hour', 'day'], 'The length of each interval.'),
          group_by: oneOf(groupings, 'The grouping; null: none.').nullable(),
          group_count: integer(
            `How many groups have emails in the range. Of more than ${grouped(mostGroups)}, only those with the most emails are listed. Null without \`group_by\`.`,
          ).nullable(),
          buckets: list(bucket, 'One for each hour or day and group.'),
        }),
        example: {
          from: '2026-11-14T00:00:00.000Z',
          to: '2026-11-21T09:00:00.000Z',
          interval: 'day',
          group_by: null,
          group_count: null,
          buckets: [
            {
              start: '2026-11-20T00:00:00.000Z',
              group: null,
              accepted: 1200,
              suppressed: 3,
              complaints: 1,
              delivered: 1190,
              pending: 2,
              failed: 5,
              failed_by_class: { bad_mailbox: 4, policy: 1 },
              deferrals: 31,
              latency_ms: { p50: 310, p95: 2900, p99: 60200 },
            },
          ],
        },
      },
    },
  ],
};
