import { PassThrough } from 'node:stream';
import type Router from '@koa/router';
import type Koa from 'koa';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { Live } from '../live.ts';
import type { Services } from '../services.ts';

/** `GET /live`: server-sent events for browsers that watch. They end when the app emits `stopping`. */
export function liveRoutes(router: Router, app: Koa, services: Services): void {
  const { db, log } = services;
  const live = new Live(db, log);
  app.once('stopping', () => live.stop());
  app.on('logged out', (id: string) => live.end(id));

  router.get('/live', demandLogin(services), async (ctx) => {
    const stream = new PassThrough();
    await live.add(sessionOf(ctx), stream);
    // Koa ends the stream with its connection, unless that was gone before: with pipelined requests nothing else would.
    if (ctx.req.socket.destroyed) stream.destroy();
    ctx.type = 'text/event-stream';
    // Without this, nginx would buffer events until it has enough of them, and HAProxy, if it compresses, keep the end of each.
    ctx.set({ 'X-Accel-Buffering': 'no', 'Cache-Control': 'no-store, no-transform' });
    ctx.body = stream;
  });
}
