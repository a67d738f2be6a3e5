import type Router from '@koa/router';
import { z } from 'zod';
import * as accounts from '../../core/accounts/accounts.ts';
import * as erasures from '../../core/privacy/erasures.ts';
import { accountLines } from '../account-lines.ts';
import { readJson } from '../body/body.ts';
import { demandLogin, demandLoginOrKey, demandWholeAccount, senderOf, sessionOf } from '../credentials/auth.ts';
import { idOf, mailbox, oneOf, page, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 16 * 1024;

export const erasureRequest = z.object({
  address: mailbox.describe('The address whose data is erased; case does not matter.'),
  suppression: oneOf(['keep', 'remove'])
    .nullish()
    .describe(
      '`keep` (the default): an address on the suppression list stays there, because nothing else stops mail to it; `remove`: its entry is removed too.',
    ),
});

export const erasureQuery = z.object({
  ...page,
  address: mailbox.optional().describe('Only erasures of this address, matched by its hash.'),
});

export const exportQuery = z.object({
  attachments: oneOf(['included', 'referenced'])
    .optional()
    .describe('`included` (the default): with the bytes of files as base64; `referenced`: without them.'),
  webhook_deliveries: oneOf(['included', 'omitted'])
    .optional()
    .describe(
      '`included` (the default), or `omitted`: they are most of an export, and say again what happened to emails.',
    ),
});

/** `POST /recipients/erase`, `GET /recipients/erasures`, `GET /recipients/erasures/:id`, and `GET /account/export`. */
export function privacyRoutes(router: Router, services: Services): void {
  const { db } = services;
  const reader = demandLoginOrKey(services, 'read');

  router.post('/recipients/erase', demandLoginOrKey(services, 'send'), demandWholeAccount, async (ctx) => {
    const { accountId } = senderOf(ctx);
    const { address, suppression } = parse(erasureRequest, await readJson(ctx, bodyLimit));
    const input = { address: address.address, keepsSuppression: suppression !== 'remove' };
    ctx.body = { erasure: present.erasure(await erasures.ask(db, accountId, input, services)) };
  });

  router.get('/recipients/erasures', reader, async (ctx) => {
    const { address, ...rest } = parse(erasureQuery, ctx.query);
    const query = { ...rest, address: address?.address ?? null };
    const found = await erasures.list(db, senderOf(ctx).accountId, query, services.tokenKeys);
    ctx.body = { erasures: found.erasures.map(present.erasure), count: found.count };
  });

  router.get('/recipients/erasures/:id', reader, async (ctx) => {
    ctx.body = { erasure: present.erasure(await erasures.get(db, senderOf(ctx).accountId, idOf(ctx))) };
  });

  router.get('/account/export', demandLogin(services), async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { attachments, webhook_deliveries: deliveries } = parse(exportQuery, ctx.query);
    const account = await accounts.get(db, accountId);
    const parts = { files: attachments !== 'referenced', deliveries: deliveries !== 'omitted' };
    // The next page is read once the previous one was sent. It ends if the client hangs up.
    await services.exports.answer(accountId, ctx, async () => ({
      type: 'application/x-ndjson',
      filename: `sendwright-${account.id}.ndjson`,
      pieces: accountLines(db, account, parts),
    }));
  });
}
