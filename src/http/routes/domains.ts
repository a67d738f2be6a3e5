import type Router from '@koa/router';
import { z } from 'zod';
import * as dkimKeys from '../../core/domains/dkim-keys.ts';
import * as domains from '../../core/domains/domains.ts';
import { check } from '../../core/domains/record-checks.ts';
import { verify } from '../../core/domains/verification.ts';
import { invalidRequest } from '../../errors.ts';
import type { Domain } from '../../generated/prisma/client.ts';
import { dkimAlgorithms } from '../../mail/compose/dkim-key.ts';
import { poolName, type SendingPools } from '../../smtp/connections/sending-pools.ts';
import { tlsLevels } from '../../smtp/replies/tls-names.ts';
import { readJson, readOptionalJson, refuseFields } from '../body/body.ts';
import { demandLogin, demandSession, sessionOf } from '../credentials/auth.ts';
import { idOf, line, oneOf, parse, part, text } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

const bodyLimit = 16 * 1024;

export const newDkimKey = z.object({
  algorithm: oneOf(dkimAlgorithms)
    .describe(
      '`rsa` replaces the signing key; `ed25519` signs in addition to it. Omitted: the algorithm of `private_key`, or `rsa`.',
    )
    .optional(),
  private_key: text(10_000)
    .describe('An existing private key to import, as PEM without a passphrase. Omitted: a new key is generated.')
    .optional(),
  selector: z
    .string({ error: 'must be a string' })
    .regex(
      /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,3}$/,
      'must be a name in lower case, such as sw2027',
    )
    .describe('The DKIM selector. Omitted: one that is not in use.')
    .optional(),
});

/** How mail of the domain is sent. */
const settings = z.object({
  tls: oneOf(tlsLevels)
    .optional()
    .describe(
      '`opportunistic` encrypts if the server supports it; `required` waits rather than send unencrypted; `verified` also requires a valid certificate.',
    ),
  pool: z
    .string({ error: 'must be a string or null' })
    .regex(poolName, 'must have 1 to 32 characters: a-z, 0-9 and -')
    .nullable()
    .optional()
    .describe(
      'The pool of addresses that its mail is sent from, one of those in `SENDING_IPS`; null: the pool for the type of the email.',
    ),
});

export const newDomain = settings.extend({
  domain: line(1_000).describe('The name, such as `shop.example.com`. A subdomain is a separate domain.'),
});

export const domainChange = settings.refine(({ tls, pool }) => tls !== undefined || pool !== undefined, {
  path: ['tls'],
  message: 'is required unless pool is given',
});

export const domainQuery = z.object({
  checks: oneOf(['true'])
    .optional()
    .describe('Looks up the three records now, as `verify` does, and adds `checks`. Nothing changes.'),
});

/** `POST`, `GET`, `GET /:id`, `PATCH /:id`, `POST /:id/verify`, `POST /:id/rotate-dkim` and `DELETE /domains`; `DELETE /dkim-keys/:id`. */
export function domainRoutes(router: Router, services: Services): void {
  const { db, keyring, mailHostname, surroundings } = services;
  const loggedIn = demandLogin(services);
  const withRecords = async (domain: Domain) => {
    const keys = await dkimKeys.list(db, domain.accountId, domain.id);
    return {
      domain: present.domain(domain),
      dns_records: domains.dnsRecords(domain, mailHostname, surroundings.sendingIps),
      dkim_keys: keys.map((key) => present.dkimKey(key, domain.domain)),
      recommended_records: domains.recommendedRecords(domain, mailHostname, keys),
    };
  };

  router.post('/domains', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const input = parse(newDomain, await readJson(ctx, bodyLimit));
    if (input.pool) demandPool(services.sendingPools, input.pool);
    ctx.body = await withRecords(await domains.add(db, accountId, input, keyring));
  });

  router.get('/domains', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const found = await domains.list(db, accountId, parse(z.object(part), ctx.query));
    ctx.body = { domains: found.map(present.domain) };
  });

  // No turn is held: it may look up DNS, which can take 15 seconds.
  router.get('/domains/:id', demandSession(services), async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { checks } = parse(domainQuery, ctx.query);
    const domain = await domains.get(db, accountId, idOf(ctx));
    const found = checks ? { checks: present.checks(await check(domain, surroundings)) } : {};
    ctx.body = { ...(await withRecords(domain)), ...found };
  });

  router.patch('/domains/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { tls, pool } = parse(domainChange, await readJson(ctx, bodyLimit));
    const { id } = await domains.get(db, accountId, idOf(ctx));
    if (pool) demandPool(services.sendingPools, pool);
    const changes = { ...(tls === undefined ? {} : { tls }), ...(pool === undefined ? {} : { pool }) };
    ctx.body = await withRecords(await domains.change(db, accountId, id, changes));
  });

  router.post('/domains/:id/verify', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    await refuseFields(ctx);
    const { domain, checks } = await verify(db, accountId, idOf(ctx), surroundings);
    ctx.body = { ...(await withRecords(domain)), checks: present.checks(checks) };
  });

  router.post('/domains/:id/rotate-dkim', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const input = parse(newDkimKey, await readOptionalJson(ctx, bodyLimit));
    const { algorithm, private_key: privateKey, selector } = input;
    const id = idOf(ctx);
    await dkimKeys.rotate(db, accountId, id, { algorithm, privateKey, selector }, keyring);
    ctx.body = await withRecords(await domains.get(db, accountId, id));
  });

  router.delete('/dkim-keys/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { selector } = await dkimKeys.remove(db, accountId, idOf(ctx));
    ctx.body = { message: `the key ${selector} was removed` };
  });

  router.delete('/domains/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const domain = await domains.remove(db, accountId, idOf(ctx));
    ctx.body = { message: `domain ${domain.domain} was removed` };
  });
}

function demandPool({ addresses }: SendingPools, name: string): void {
  const known = [...new Set(addresses.map(({ pool }) => pool))];
  if (known.includes(name)) return;
  const there = known.length === 0 ? 'no pools are configured' : `configured pools: ${known.slice(0, 20).join(', ')}`;
  throw invalidRequest(`pool: ${name} is not configured on this node; ${there}`);
}
