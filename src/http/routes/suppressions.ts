import type Router from '@koa/router';
import { z } from 'zod';
import * as suppressions from '../../core/suppressions.ts';
import { demandLogin, type Session } from '../auth.ts';
import { readJson } from '../body.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { mailbox, oneOf, page, parse } from '../validation.ts';

const bodyLimit = 16 * 1024;
const reasons = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

export const newSuppression = z.object({
  address: mailbox.describe('The address that is not to be sent to, in any case.'),
  reason: oneOf(reasons).nullish().describe('`manual` where it is omitted. `unsubscribe` stops marketing only.'),
});
export const suppressionQuery = z.object({
  ...page,
  reason: oneOf(reasons).optional().describe('Only those with this reason.'),
});

/** `GET` and `POST /suppressions`, and `DELETE /suppressions/:address`. */
export function suppressionRoutes(router: Router, { db, jwtSecret }: Services): void {
  const loggedIn = demandLogin(db, jwtSecret);

  router.get('/suppressions', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const { limit, offset, reason } = parse(suppressionQuery, ctx.query);
    const found = await suppressions.list(db, accountId, { limit, offset, reason: reason ?? null });
    ctx.body = { suppressions: found.suppressions.map(present.suppression), count: found.count };
  });

  router.post('/suppressions', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const { address, reason } = parse(newSuppression, await readJson(ctx, bodyLimit));
    const added = await suppressions.add(db, accountId, { address: address.address, reason: reason ?? 'manual' });
    ctx.body = { suppression: present.suppression(added) };
  });

  router.delete('/suppressions/:address', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const address = ctx.params.address ?? '';
    await suppressions.remove(db, accountId, address);
    ctx.body = { message: `${suppressions.suppressible(address)} is not suppressed any more` };
  });
}
