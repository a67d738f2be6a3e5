import type Router from '@koa/router';
import { unavailable } from '../../errors.ts';
import type { Services } from '../services.ts';

/** `GET /healthz`: the process answers. `GET /readyz`: so do the database and the queue's tables in it. */
export function healthRoutes(router: Router, { db }: Services): void {
  router.get('/healthz', (ctx) => {
    ctx.body = { status: 'ok' };
  });

  router.get('/readyz', async (ctx) => {
    try {
      await db.query({ text: 'SELECT 1 FROM accounts, pgboss.version LIMIT 1' });
    } catch {
      throw unavailable();
    }
    ctx.body = { status: 'ready' };
  });
}
