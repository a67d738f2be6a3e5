import type Router from '@koa/router';
import { z } from 'zod';
import * as suppressions from '../../core/returns/suppressions.ts';
import type { Suppression } from '../../generated/prisma/client.ts';
import { comparable, partAsStored } from '../../mail/address/address.ts';
import { givingWay } from '../../pace/give-way.ts';
import { readJson } from '../body/body.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { line, list, mailbox, oneOf, page, parse, refusedField } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 16 * 1024;
export const suppressionReasons = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

export const newSuppression = z
  .object({
    address: mailbox.describe('The address to suppress; case does not matter.'),
    reason: oneOf(suppressionReasons)
      .nullish()
      .describe('Defaults to `manual`. `unsubscribe` only stops marketing emails.'),
  })
  // Meant to suppress a whole domain, it would suppress nothing: nobody has this local part.
  .refine(({ address }) => !address.address.startsWith('*@'), {
    path: ['address'],
    message: 'must be a single address: wildcards are not supported',
  });
export const suppressionQuery = z.object({
  ...page,
  reason: oneOf(suppressionReasons).optional().describe('Only addresses with this reason.'),
  address: line(320).optional().describe('Only addresses that contain this text; case does not matter.'),
  exact: oneOf(['true'])
    .optional()
    .describe(
      'Only the address that `address` is, and none that contains it. However long the list is, this is found at once.',
    ),
});

export const mostImported = 10_000;
/** Enough for that many addresses with their reasons. */
const importLimit = 4 * 1024 * 1024;
const mostValuesImported = 3 * mostImported + 10;

export const suppressionImport = z.object({
  suppressions: list(newSuppression, mostImported)
    .min(1, 'must not be empty')
    .describe('The addresses, each with the same fields as a single one.'),
});

/** The same before its items are parsed, one by one. */
const importBody = z.object({ suppressions: list(z.unknown(), mostImported).min(1, 'must not be empty') });

/** `GET` and `POST /suppressions`, `POST /suppressions/import`, `GET /suppressions/export`, and `DELETE /suppressions/:address`. */
export function suppressionRoutes(router: Router, services: Services): void {
  const { db } = services;
  const loggedIn = demandLogin(services);

  router.get('/suppressions', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { limit, offset, reason, address, exact } = parse(suppressionQuery, ctx.query);
    if (exact !== undefined && address === undefined) throw refusedField('address', 'is required with exact');
    // Text that looks like a domain may also be part of a local part, which is stored as it was written.
    const parts = address === undefined ? [] : [...new Set([address.toLowerCase(), partAsStored(address)])];
    const query = { limit, offset, reason: reason ?? null, parts, areWhole: exact !== undefined };
    const found = await suppressions.list(db, accountId, query);
    ctx.body = {
      suppressions: found.suppressions.map(present.suppression),
      count: found.count,
      count_exact: found.countExact,
    };
  });

  router.post('/suppressions', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { address, reason } = parse(newSuppression, await readJson(ctx, bodyLimit));
    const added = await suppressions.add(db, accountId, { address: address.address, reason: reason ?? 'manual' });
    ctx.body = { suppression: present.suppression(added) };
  });

  router.post('/suppressions/import', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { suppressions: given } = parse(importBody, await readJson(ctx, importLimit, mostValuesImported));
    const entries = await givingWay(given, (item, index) => {
      const { address, reason } = parse(newSuppression, item, ['suppressions', index]);
      return { address: address.address, reason: reason ?? ('manual' as const) };
    });
    await services.commitTurns.take(accountId, () => suppressions.addImported(db, accountId, entries));
    const addresses = new Set(entries.map(({ address }) => comparable(address)));
    const { size } = addresses;
    ctx.body = { message: `${size} ${size === 1 ? 'address is' : 'addresses are'} on the list`, count: size };
  });

  router.get('/suppressions/export', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    await services.exports.answer(accountId, ctx, async () => {
      const { count, pages } = await suppressions.exported(db, accountId);
      const headers = { 'X-Total-Count': String(count) };
      return { type: 'text/csv', filename: 'suppressions.csv', headers, pieces: csvOf(pages) };
    });
  });

  router.delete('/suppressions/:address', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const address = ctx.params.address ?? '';
    const { unsubscribed } = await suppressions.remove(db, accountId, address);
    ctx.body = {
      message: unsubscribed
        ? `${comparable(address)} gets mail again, but no marketing: its owner has unsubscribed`
        : `${comparable(address)} is no longer suppressed`,
    };
  });
}

async function* csvOf(pages: AsyncIterable<Suppression[]>): AsyncGenerator<string> {
  yield 'address,reason,email_id,created_at\r\n';
  for await (const some of pages) yield some.map(present.suppressionLine).join('');
}
