import type Router from '@koa/router';
import { z } from 'zod';
import * as domains from '../../core/domains.ts';
import { type Checks, verify } from '../../core/verification.ts';
import type { Domain } from '../../generated/prisma/client.ts';
import { demandLogin, type Session } from '../auth.ts';
import { readJson } from '../body.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { line, parse } from '../validation.ts';

const bodyLimit = 16 * 1024;

export const newDomain = z.object({
  domain: line(1_000).describe('The name, such as `shop.example.com`. A subdomain is a domain of its own.'),
});

/** `POST`, `GET`, `GET /:id`, `POST /:id/verify` and `DELETE /domains`. */
export function domainRoutes(router: Router, services: Services): void {
  const { db, encryptionKey, mailHostname, surroundings } = services;
  const loggedIn = demandLogin(db, services.jwtSecret);
  const withRecords = (domain: Domain) => ({
    domain: present.domain(domain),
    dns_records: domains.dnsRecords(domain, mailHostname),
    recommended_records: domains.recommendedRecords(domain, mailHostname),
  });

  router.post('/domains', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const input = parse(newDomain, await readJson(ctx, bodyLimit));
    ctx.body = withRecords(await domains.add(db, accountId, input, { encryptionKey }));
  });

  router.get('/domains', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    ctx.body = { domains: (await domains.list(db, accountId)).map(present.domain) };
  });

  router.get('/domains/:id', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    ctx.body = withRecords(await domains.get(db, accountId, ctx.params.id ?? ''));
  });

  router.post('/domains/:id/verify', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const { domain, checks } = await verify(db, accountId, ctx.params.id ?? '', surroundings);
    ctx.body = { ...withRecords(domain), checks: presentChecks(checks) };
  });

  router.delete('/domains/:id', ...loggedIn, async (ctx) => {
    const { accountId } = ctx.state.session as Session;
    const domain = await domains.remove(db, accountId, ctx.params.id ?? '');
    ctx.body = { message: `domain ${domain.domain} was removed` };
  });
}

function presentChecks({ verification, dkim, spf }: Checks) {
  return { verification: present.check(verification), dkim: present.check(dkim), spf: present.check(spf) };
}
