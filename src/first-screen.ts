import type { Config } from './config.ts';
import * as domains from './core/domains.ts';
import * as keys from './core/keys.ts';
import { verify } from './core/verification.ts';
import type { SendwrightNode } from './node.ts';

/** The sandbox's own sending domain, so that the first email needs no set-up. */
const sandboxDomain = 'example.test';

/**
 * Makes sure that the sandbox has a verified domain and a key for it, over the same way that a user would go.
 *
 * @param known the key of an earlier start, used again while it is good
 */
export async function prepareSandbox(node: SendwrightNode, known: string | undefined): Promise<string> {
  const { db, surroundings } = node;
  const { accountId } = node.admin;
  const listed = (await domains.list(db, accountId)).find((entry) => entry.domain === sandboxDomain);
  const domain = listed ?? (await domains.add(db, accountId, { domain: sandboxDomain }, surroundings));
  if (domain.status !== 'verified') await verify(db, accountId, domain.id, surroundings);
  const good =
    known !== undefined &&
    (await keys.authenticate(db, known).then(
      () => true,
      () => false,
    ));
  if (good) return known;
  const created = await keys.create(db, accountId, {
    name: 'sandbox (made at first start)',
    scopes: ['send'],
    domains: [sandboxDomain],
    expiresAt: null,
  });
  return created.key;
}

/** What the terminal shows when everything is up: where it is, how to log in, and what to do next. */
export function firstScreen(config: Config, node: SendwrightNode, sandboxKey: string | null): string {
  const { baseUrl, admin } = node;
  const login = admin.password
    ? `${admin.email} / ${config.admin.password ? '(ADMIN_PASSWORD)' : `${admin.password}   (generated now, shown only this once)`}`
    : `${admin.email} / the password from the first start`;
  const mode =
    config.deliveryMode === 'sandbox'
      ? 'sandbox mode: nothing leaves this machine'
      : `delivering to the internet as ${config.mailHostname}`;
  return [
    '',
    `  Sendwright is ready (${mode})`,
    '',
    `    URL          ${baseUrl}`,
    `    Reference    ${baseUrl}/docs`,
    `    Admin login  ${login}`,
    '',
    ...(sandboxKey ? firstEmail(baseUrl, sandboxKey) : firstDomain(baseUrl)),
    '  Stop with Ctrl-C.',
    '',
    '',
  ].join('\n');
}

function firstEmail(baseUrl: string, key: string): string[] {
  return [
    '  Send a first email:',
    '',
    `curl ${baseUrl}/api/v1/emails -H 'X-API-Key: ${key}' -H 'Content-Type: application/json' \\`,
    `  -d '{"from": "Me <hello@${sandboxDomain}>", "to": ["you@anywhere.test"], "subject": "Hello", "html": "<p>It works.</p>"}'`,
    '',
    '  Then look at each delivery attempt with the id from the answer:',
    '',
    `curl ${baseUrl}/api/v1/emails/<id>/attempts -H 'X-API-Key: ${key}'`,
    '',
  ];
}

function firstDomain(baseUrl: string): string[] {
  return [
    '  Next: log in, add a sending domain, publish the DNS records it answers with, and verify it.',
    '',
    `curl ${baseUrl}/api/v1/auth/login -H 'Content-Type: application/json' -d '{"email": "…", "password": "…"}'`,
    `curl ${baseUrl}/api/v1/domains -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' -d '{"domain": "example.com"}'`,
    '',
  ];
}
