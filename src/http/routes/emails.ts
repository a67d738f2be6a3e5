import type Router from '@koa/router';
import * as log from '../../core/log/email-log.ts';
import { explain } from '../../core/log/explain.ts';
import { anyDelivers } from '../../core/nodes/nodes.ts';
import * as hold from '../../core/operations/hold.ts';
import { objectionOutlook } from '../../core/outgoing/objection-outlook.ts';
import { tlsOutlook } from '../../core/outgoing/tls-outlook.ts';
import { sourceOf } from '../../core/sources/source-outlook.ts';
import { demandLoginOrKey, demandSessionOrKey, senderOf } from '../credentials/auth.ts';
import { logQuery } from '../input/log-query.ts';
import { idOf, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

/** `GET`, `GET /:id`, `GET /:id/attempts`, `GET /:id/content` and `GET /:id/explain` of `/emails`: the log. */
export function emailRoutes(router: Router, services: Services): void {
  const { db } = services;
  const reader = demandLoginOrKey(services, 'read');

  router.get('/emails', reader, async (ctx) => {
    const { accountId } = senderOf(ctx);
    const { page, filter } = parse(logQuery, ctx.query);
    const { emails, count, countExact, nextCursor } = await log.list(db, { accountId, ...filter }, page);
    ctx.body = { emails: emails.map(present.listedEmail), count, count_exact: countExact, next_cursor: nextCursor };
  });

  router.get('/emails/:id', reader, async (ctx) => {
    const { accountId } = senderOf(ctx);
    const { email, ...parts } = await log.get(db, accountId, idOf(ctx));
    ctx.body = { email: present.emailDetail(email, parts) };
  });

  router.get('/emails/:id/attempts', reader, async (ctx) => {
    const { accountId } = senderOf(ctx);
    const attempts = await log.attempts(db, accountId, idOf(ctx));
    ctx.body = { attempts: attempts.map(present.attempt) };
  });

  router.get('/emails/:id/content', reader, async (ctx) => {
    ctx.body = present.emailContent(await log.content(db, senderOf(ctx).accountId, idOf(ctx)));
  });

  // No turn is held: it looks up the TLS policies of destinations in DNS.
  router.get('/emails/:id/explain', demandSessionOrKey(services, 'read'), async (ctx) => {
    const { accountId } = senderOf(ctx);
    const id = idOf(ctx);
    const { email, recipients, returns } = await log.get(db, accountId, id);
    const attempts = await log.attempts(db, accountId, id);
    const tls = await tlsOutlook(db, { email, recipients }, services);
    const now = services.clock.now();
    const [onHoldSince, delivers] = [await hold.find(db), await anyDelivers(db)];
    const objection = await objectionOutlook(db, { email, recipients });
    const { summary, recipients: explained } = explain(
      { email, recipients, attempts, returns, tls, onHoldSince, delivers, objection },
      services.retryForMs,
      now,
    );
    const source = await sourceOf(db, email, services.sendingPools, now);
    ctx.body = { email: present.email(email), summary, source, recipients: explained.map(present.explanation) };
  });
}
