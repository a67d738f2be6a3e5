import { PassThrough } from 'node:stream';
import type Router from '@koa/router';
import type Koa from 'koa';
import { demandLogin, sessionOf } from '../auth.ts';
import { Live } from '../live.ts';
import type { Services } from '../services.ts';

/** `GET /live`: server-sent events for who looks on in a browser. They end when the app is told that it is `stopping`. */
export function liveRoutes(router: Router, app: Koa, services: Services): void {
  const { db, log } = services;
  const live = new Live(db, log);
  app.once('stopping', () => live.stop());
  app.on('logged out', (id: string) => live.end(id));

  router.get('/live', ...demandLogin(services), async (ctx) => {
    const stream = new PassThrough();
    await live.add(sessionOf(ctx), stream);
    ctx.type = 'text/event-stream';
    // Of nginx, which would keep events back until there are enough of them.
    ctx.set('X-Accel-Buffering', 'no');
    ctx.body = stream;
  });
}
