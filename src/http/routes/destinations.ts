import type Router from '@koa/router';
import { z } from 'zod';
import * as orders from '../../core/destination-orders.ts';
import * as destinations from '../../core/destinations.ts';
import * as warmUp from '../../core/warm-up.ts';
import { dayOf } from '../../sending-pools.ts';
import { demandAdmin, demandLogin } from '../auth.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { page, parse } from '../validation.ts';

export const destinationQuery = z.object({
  limit: page.limit,
  offset: page.offset.describe('How many to leave out, from those with most waiting on.'),
});

/** `/admin/destinations`: where mail goes, for the operators of the server. */
export function destinationRoutes(router: Router, { db, jwtSecret }: Services): void {
  const operator = [...demandLogin(db, jwtSecret), demandAdmin];

  router.get('/admin/destinations', ...operator, async (ctx) => {
    const found = await destinations.list(db, parse(destinationQuery, ctx.query));
    const addresses = await warmUp.listOnce(db, dayOf(new Date()));
    ctx.body = { destinations: found.map(present.destination), sending_ips: addresses.map(present.sendingAddress) };
  });

  for (const order of orders.orderNames) {
    router.post(`/admin/destinations/:name/${order}`, ...operator, async (ctx) => {
      ctx.body = present.orderGiven(order, await orders.give(db, ctx.params.name ?? '', order));
    });
  }
}
