import type Router from '@koa/router';
import { z } from 'zod';
import * as keys from '../../core/accounts/keys.ts';
import { readJson } from '../body/body.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { domainName, idOf, label, list, oneOf, parse, part, timestamp } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 64 * 1024;

export const newKey = z
  .object({
    name: label.describe('The name of the key.'),
    scopes: list(oneOf(keys.scopes), keys.scopes.length)
      .min(1, 'must name at least one scope')
      .nullish()
      .describe(
        '`send` allows every operation on emails and templates, and erasing recipients; `read` only reading. Defaults to `["send"]`.',
      ),
    domains: list(domainName, 100)
      .min(1, 'must name at least one domain; null: all domains of the account')
      .nullish()
      .describe(
        'The domains of the account, verified or not, that the key may send from, and whose emails it may cancel, reschedule, stop and release; it always reads the whole log. Omitted or null: all domains of the account. An empty list is refused, so that a list that is empty by mistake does not allow all domains.',
      ),
    expires_at: timestamp
      .refine((at) => at.getTime() > Date.now(), 'is in the past')
      .nullish()
      .describe('When the key expires. Omitted: never.'),
  })
  .transform(({ name, scopes, domains, expires_at: expiresAt }) => ({
    name,
    scopes: [...new Set(scopes ?? (['send'] as const))],
    domains: [...new Set(domains ?? [])],
    expiresAt: expiresAt ?? null,
  }));

/** `POST`, `GET` and `DELETE /keys`. */
export function keyRoutes(router: Router, services: Services): void {
  const { db } = services;
  const loggedIn = demandLogin(services);

  router.post('/keys', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const input = parse(newKey, await readJson(ctx, bodyLimit));
    const { key, apiKey } = await keys.create(db, accountId, input);
    ctx.body = {
      key,
      api_key: present.apiKey(apiKey),
      warning: 'Store this key now: it is shown only once and cannot be read again.',
    };
  });

  router.get('/keys', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const found = await keys.list(db, accountId, parse(z.object(part), ctx.query));
    ctx.body = { api_keys: found.map(present.apiKey) };
  });

  router.delete('/keys/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    ctx.body = { api_key: present.apiKey(await keys.revoke(db, accountId, idOf(ctx))) };
  });
}
