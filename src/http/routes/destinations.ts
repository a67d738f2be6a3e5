import { setTimeout as sleep } from 'node:timers/promises';
import type Router from '@koa/router';
import { z } from 'zod';
import * as orders from '../../core/destinations/destination-orders.ts';
import * as destinations from '../../core/destinations/destinations.ts';
import { findWaiting, giveUp } from '../../core/destinations/giving-up.ts';
import * as warmUp from '../../core/sources/warm-up.ts';
import type { Logger } from '../../log.ts';
import { dayOf } from '../../smtp/connections/sending-pools.ts';
import { readOptionalJson, refuseFields } from '../body/body.ts';
import { demandAdmin, demandLogin, sessionOf } from '../credentials/auth.ts';
import { line, oneOf, page, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

export const destinationQuery = z.object({
  q: line(253).optional().describe('Part of the name of the site, or of a domain that it receives mail for.'),
  state: oneOf(destinations.states).optional().describe('Only sites in this state.'),
  refusing: oneOf(['true'])
    .optional()
    .describe(
      'Only sites that refuse the mail of this server: the last that they accepted is 15 minutes or more before the last that they judged, and their last reply is a 5.7.x. Nothing waits for them, as each email fails at once: those with the most connections come first.',
    ),
  limit: page.limit,
  offset: page.offset.describe('How many to skip, those with the most waiting mail first.'),
});

/** A body with a reason is a few hundred bytes. */
const stopLimit = 16 * 1024;

export const stopRequest = z.object({
  reason: line(200).optional().describe('Why, for the owners of the emails, who see it in their log. Omitted: none.'),
});

/** `/admin/destinations`: where mail goes, for the operators of the server. */
export function destinationRoutes(router: Router, services: Services): void {
  const { db, queue, clock } = services;
  const operator = [demandLogin(services), demandAdmin];

  router.get('/admin/destinations', ...operator, async (ctx) => {
    const { q: part, refusing, ...wanted } = parse(destinationQuery, ctx.query);
    const found = await destinations.list(db, { part, refusing: refusing !== undefined, ...wanted });
    const addresses = await warmUp.listOnce(db, dayOf(clock.now()));
    ctx.body = {
      destinations: found.destinations.map(present.destination),
      count: found.count,
      sending_ips: addresses.map(present.sendingAddress),
    };
  });

  for (const order of orders.orderNames) {
    router.post(`/admin/destinations/:name/${order}`, ...operator, async (ctx) => {
      await refuseFields(ctx);
      const given = await orders.give(db, ctx.params.name ?? '', order);
      // Whoever pauses a destination counts on it that what is sent from then on waits.
      if (order === 'pause') await sleep(orders.heardWithinMs);
      ctx.body = present.orderGiven(order, given);
    });
  }

  router.get('/admin/destinations/:name/waiting', ...operator, async (ctx) => {
    ctx.body = present.waitingFor(await findWaiting(db, ctx.params.name ?? ''));
  });

  router.post('/admin/destinations/:name/stop', ...operator, async (ctx) => {
    const { reason = null } = parse(stopRequest, await readOptionalJson(ctx, stopLimit));
    const log: Logger = ctx.state.log;
    const { name = '' } = ctx.params;
    let stopped = 0;
    const onStopped = (some: number) => {
      stopped += some;
    };
    const order = () => ({ domain: destinations.domainOf(name), stopped, reason, by: sessionOf(ctx).user.id });
    try {
      ctx.body = present.givenUp(await giveUp(db, queue, name, reason, { onStopped }));
    } catch (error) {
      // It cannot be undone, so that it must be known who did what was done.
      if (stopped > 0)
        log.warn(order(), 'an operator gave up mail that waited for a domain, and an error ended it: see the request');
      throw error;
    }
    log.info(order(), 'an operator gave up the mail that waited for a domain');
  });
}
