import type Router from '@koa/router';
import { z } from 'zod';
import * as destinations from '../../core/destinations.ts';
import * as warmUp from '../../core/warm-up.ts';
import { dayOf } from '../../sending-pools.ts';
import { demandAdmin, demandLogin } from '../auth.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { page, parse } from '../validation.ts';

export const destinationQuery = z.object({ limit: page.limit });

/** `/admin/destinations`: where mail goes, for the operators of the server. */
export function destinationRoutes(router: Router, { db, jwtSecret }: Services): void {
  const operator = [...demandLogin(db, jwtSecret), demandAdmin];

  router.get('/admin/destinations', ...operator, async (ctx) => {
    const { limit } = parse(destinationQuery, ctx.query);
    const found = await destinations.list(db, limit);
    const addresses = await warmUp.listOnce(db, dayOf(new Date()));
    ctx.body = { destinations: found.map(present.destination), sending_ips: addresses.map(present.sendingAddress) };
  });

  for (const order of ['pause', 'resume', 'flush'] as const) {
    router.post(`/admin/destinations/:name/${order}`, ...operator, async (ctx) => {
      const given = ctx.params.name ?? '';
      const known = await destinations.find(db, given);
      const name = destinations.domainOf(given) ?? given;
      const flushed = order === 'flush' ? { flushed: await destinations.flush(db, name, known.destinations) } : {};
      if (order === 'pause') await destinations.pause(db, name);
      if (order === 'resume') await destinations.resume(db, name);
      ctx.body = { destination: present.destination(await destinations.find(db, name)), ...flushed };
    });
  }
}
