import { z } from 'zod';
import { statsQuery } from '../routes/stats.ts';
import type { Group } from './operation.ts';
import { integer, list, oneOf, time, words } from './schema.ts';

const milliseconds = (description: string) => z.number().min(0).describe(description);

const bucket = z
  .object({
    start: time('Where the stretch of time begins.'),
    group: words(
      "The sender domain, tag, type, the recipients' domain or who runs its mail servers; null without a grouping.",
    ).nullable(),
    accepted: integer('Emails that were accepted in it.'),
    suppressed: integer(
      'Emails of which a recipient is on the suppression list; others may have got it, where the address came onto it later.',
    ),
    complaints: integer('Emails that put a recipient onto the suppression list by a complaint.'),
    delivered: integer('Recipients that were delivered to.'),
    pending: integer('Recipients that are not settled.'),
    failed: integer('Recipients that failed for good.'),
    failed_by_class: z.record(z.string(), z.int().min(0)).describe('The same by what the failure is about.'),
    deferrals: integer('Attempts to which a server said "later".'),
    latency_ms: z
      .object({
        p50: milliseconds('Half of them took no longer.'),
        p95: milliseconds('95 of 100.'),
        p99: milliseconds('99 of 100.'),
      })
      .nullable()
      .describe("From when an email was due until the recipient's server took it; null where nothing was delivered."),
  })
  .meta({ id: 'Bucket', description: 'What became of the emails that were accepted in one hour or day.' });

const groupings = ['domain', 'tag', 'type', 'destination', 'provider'] as const;

export const statsGroup: Group = {
  name: 'Statistics',
  description: 'How sending goes.',
  operations: [
    {
      id: 'getStats',
      method: 'get',
      path: '/api/v1/stats',
      summary: 'Get statistics',
      description: 'By hours or days of UTC, counted at this moment. Those without an email are left out.',
      access: { key: 'read', orLogin: true },
      query: statsQuery,
      answer: {
        description: 'The counts.',
        schema: z.object({
          from: time('From when on.'),
          to: time('Until when.'),
          interval: oneOf(['hour', 'day'], 'By what.'),
          group_by: oneOf(groupings, 'By what else.').nullable(),
          buckets: list(bucket, 'One for each hour or day, and group.'),
        }),
        example: {
          from: '2026-11-14T00:00:00.000Z',
          to: '2026-11-21T09:00:00.000Z',
          interval: 'day',
          group_by: null,
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
