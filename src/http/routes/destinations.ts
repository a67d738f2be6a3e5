import type Router from '@koa/router';
import { z } from 'zod';
import * as destinations from '../../core/destinations.ts';
import { demandAdmin, demandLogin } from '../auth.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { line, page, parse } from '../validation.ts';

export const destinationQuery = z.object({ limit: page.limit });

const named = z.object({ name: line(253) });

/** `/admin/destinations`: where mail goes, for the operators of the server. */
export function destinationRoutes(router: Router, { db, jwtSecret }: Services): void {
  const operator = [...demandLogin(db, jwtSecret), demandAdmin];

  router.get('/admin/destinations', ...operator, async (ctx) => {
    const { limit } = parse(destinationQuery, ctx.query);
    const found = await destinations.list(db, limit);
    ctx.body = { destinations: found.map(present.destination) };
  });

  for (const order of ['pause', 'resume', 'flush'] as const) {
    router.post(`/admin/destinations/:name/${order}`, ...operator, async (ctx) => {
      const { name } = parse(named, ctx.params);
      const destination = await destinations.find(db, name);
      const flushed = await destinations[order](db, name, destination.destinations);
      ctx.body = {
        destination: present.destination(await destinations.find(db, name)),
        ...(order === 'flush' ? { flushed } : {}),
      };
    });
  }
}
