import type Router from '@koa/router';
import { z } from 'zod';
import { shortlyAfterNow } from '../../clock.ts';
import { invalidRequest } from '../../errors.ts';
import { demandSessionOrKey, senderOf } from '../credentials/auth.ts';
import { oneOf, parse, timestampInQuery } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const dayMs = 24 * 3_600_000;

/** The longest range of a call: counting reads every email in it. */
const longestMs = { hour: 7 * dayMs, day: 92 * dayMs };

export const statsQuery = z.object({
  from: timestampInQuery
    .optional()
    .describe('The start of the range. Omitted: 30 days before `to`, or one day if `interval` is `hour`.'),
  to: timestampInQuery
    .optional()
    .describe('The end of the range, at most 92 days after `from`, or 7 if `interval` is `hour`. Omitted: now.'),
  interval: oneOf(['hour', 'day']).optional().describe('The length of each interval. Defaults to `day`.'),
  group_by: oneOf(['domain', 'tag', 'type', 'destination', 'provider'])
    .optional()
    .describe(
      "Counts separately by sender domain, tag, type, recipients' domain (`destination`), or the provider that runs its mail servers (`provider`).",
    ),
});

/** `GET /stats`: what happened to the emails that were accepted in a range, by day or hour. */
export function statsRoutes(router: Router, services: Services): void {
  // Its statements take turns one by one: millions of emails are counted for minutes.
  router.get('/stats', demandSessionOrKey(services, 'read'), async (ctx) => {
    const input = parse(statsQuery, ctx.query);
    const interval = input.interval ?? 'day';
    const to = input.to ?? services.clock.now();
    const from = input.from ?? new Date(to.getTime() - (interval === 'day' ? 30 : 1) * dayMs);
    if (from >= to) throw invalidRequest('from: must be before to');
    if (to.getTime() - from.getTime() > longestMs[interval]) {
      throw invalidRequest(
        `from: must be at most ${longestMs[interval] / dayMs} days before to if interval is ${interval}`,
      );
    }
    const { accountId } = senderOf(ctx);
    const until = input.to ?? shortlyAfterNow(services.clock);
    const query = { from, to, until, interval, groupBy: input.group_by ?? null };
    const client = ctx.req.socket;
    const stats = await services.statistics.collect(accountId, query, JSON.stringify(input), () => client.destroyed);
    const { query: counted, buckets, groupCount } = stats;
    ctx.body = {
      from: counted.from.toISOString(),
      to: counted.to.toISOString(),
      interval,
      group_by: counted.groupBy,
      group_count: groupCount,
      buckets: buckets.map(present.bucket),
    };
  });
}
