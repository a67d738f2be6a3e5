import { setTimeout as sleep } from 'node:timers/promises';
import type { Config, NodeRole } from '../config.ts';
import { giveFirstPassword } from '../core/accounts/accounts.ts';
import * as keys from '../core/accounts/keys.ts';
import * as domains from '../core/domains/domains.ts';
import { verify } from '../core/domains/verification.ts';
import * as hold from '../core/operations/hold.ts';
import { newPassword } from '../crypto/password.ts';
import { databaseCodeOf } from '../db/errors.ts';
import { ApiError } from '../errors.ts';
import { isLoopback } from '../ip.ts';
import { oneLine, StartError } from '../process/start-error.ts';
import { submissionHostOf } from './doors.ts';
import type { SendwrightNode } from './node.ts';

/** The sandbox's own sending domain, so that the first email needs no set-up. */
const sandboxDomain = 'example.test';

/** How often it is tried to verify it, and how long after one another, in ms. */
const verifyTries = 5;
const verifyEveryMs = 1_000;

/**
 * Makes sure that the sandbox has a verified domain and a key for it, in the way that a user would.
 *
 * @param known the key of an earlier start, or the one that it would have made: used again unless it was revoked
 */
export async function prepareSandbox(node: SendwrightNode, known: string | undefined): Promise<string> {
  await prepareDomain(node);
  return prepareKey(node, known);
}

async function prepareDomain({ db, admin: { accountId }, surroundings }: SendwrightNode): Promise<void> {
  const find = async () => (await domains.list(db, accountId)).find((entry) => entry.domain === sandboxDomain);
  const add = () =>
    domains.add(db, accountId, { domain: sandboxDomain }, surroundings.keyring).catch(async (error: Error) => {
      // Another node that starts on this database was faster.
      const added = await find();
      if (added) return added;
      throw error;
    });
  const domain = (await find()) ?? (await add());
  if (domain.status === 'verified') return;
  for (let tries = 1; ; tries += 1) {
    try {
      return void (await verify(db, accountId, domain.id, surroundings));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // The sandbox's own DNS has the records, but on a very busy machine it may answer late.
      if (tries === verifyTries) throw unverified(error);
      await sleep(verifyEveryMs);
    }
  }
}

const unverified = (error: ApiError) =>
  new StartError(
    `the sandbox's own domain could not be verified (${oneLine(error.detail ?? error.message)}): start again when this machine is less busy`,
    { cause: error },
  );

async function prepareKey({ db, admin: { accountId } }: SendwrightNode, known: string | undefined): Promise<string> {
  const isGood = async (key: string) =>
    keys.authenticate(db, key).then(
      () => true,
      () => false,
    );
  if (known !== undefined && (await isGood(known))) return known;
  const made = { name: 'sandbox (made at first start)', scopes: ['send' as const], domains: [], expiresAt: null };
  try {
    return (await keys.create(db, accountId, made, known)).key;
  } catch (error) {
    // It was revoked, or another node that starts on this database has just made it.
    if (known === undefined || databaseCodeOf(error) !== 'P2002') throw error;
    return (await isGood(known)) ? known : (await keys.create(db, accountId, made)).key;
  }
}

type Shown = Pick<SendwrightNode, 'baseUrl' | 'submission' | 'admin'>;

/**
 * Shows the first screen. An admin who has no password gets a generated one, once everything else is up, so that no failed
 * start has used it. It is shown before it is in force, as the process may be killed at any moment.
 */
export async function showFirstScreen(
  config: Config,
  node: Shown & Pick<SendwrightNode, 'db'>,
  sandboxKey: string | null,
  say: (text: string) => void,
): Promise<void> {
  const { db, admin } = node;
  const onHold = (await hold.find(db)) !== null;
  // The sandbox's own does not count: a server that goes live on its database could send from nothing that exists. A name is
  // verified only once, so that two are enough to find another one.
  const verified = await domains.listAll(db, { limit: 2, verified: true });
  const canSend = verified.some(({ domain }) => domain !== sandboxDomain);
  const show = (password: string | null) => say(firstScreen(config, node, { sandboxKey, password, onHold, canSend }));
  const password = newPassword();
  if (admin.password !== 'none' || !(await giveFirstPassword(db, admin.userId, password, () => show(password))))
    show(null);
}

/**
 * What the terminal shows when everything is up: the addresses, how to log in, and what to do next.
 *
 * @param shown the sandbox's API key, the admin's password if it was generated now, whether nothing is sent, and whether a
 *   domain other than the sandbox's is verified
 */
export function firstScreen(
  config: Config,
  node: Shown,
  shown: { sandboxKey: string | null; password: string | null; onHold: boolean; canSend: boolean },
): string {
  const { baseUrl, admin } = node;
  const { sandboxKey, password, onHold, canSend } = shown;
  const login = password
    ? `${admin.email} / ${password}   (generated now, shown only this once)`
    : `${admin.email} / ${admin.password === 'configured' ? '(ADMIN_PASSWORD)' : 'the password from the first start'}`;
  const served = [`    Dashboard    ${baseUrl}`, `    Reference    ${baseUrl}/docs`];
  const setUp = canSend ? [] : firstDomain(baseUrl);
  const next = sandboxKey ? firstEmail(baseUrl, sandboxKey) : setUp;
  const isServed = config.roles.has('api');
  return [
    '',
    `  Sendwright is ready (${modeOf(config)})`,
    '',
    ...rolesLine(config),
    ...(isServed ? served : []),
    ...submissionLine(config, node),
    // Nobody logs in to a node without the API, but a password that was generated here is shown nowhere else.
    ...(isServed || password ? [`    Admin login  ${login}`] : []),
    ...remarks(config, onHold),
    '',
    ...(isServed ? next : ['  The dashboard and the API run on the nodes whose ROLES include api.', '']),
    '  Stop with Ctrl-C.',
    '',
    '',
  ].join('\n');
}

function modeOf({ deliveryMode, mailHostname, roles, sendingIps, mxPort }: Config): string {
  if (deliveryMode === 'sandbox') return 'sandbox mode: no mail leaves this machine';
  if (!roles.has('mta')) return `mail goes to the internet as ${mailHostname}`;
  // A rehearsal: nothing leaves the machine from loopback, and no MX host of the internet listens on another port.
  if (sendingIps.length > 0 && sendingIps.every(isLoopback))
    return `delivering to this machine alone as ${mailHostname}`;
  return `delivering to ${mxPort === 25 ? 'the internet' : `port ${mxPort} of MX hosts`} as ${mailHostname}`;
}

const work: Record<NodeRole, string> = {
  api: 'serves the API and the dashboard',
  mta: 'delivers mail',
  webhooks: 'calls webhooks',
  smtp: 'accepts mail, bounces and complaints by SMTP',
};

/** What this node does, if others do the rest. */
function rolesLine({ roles }: Config): string[] {
  const names = Object.keys(work) as NodeRole[];
  const mine = names.filter((role) => roles.has(role));
  if (mine.length === names.length) return [];
  return [`    This node    ${mine.map((role) => work[role]).join('; ')}   (ROLES=${mine.join()})`];
}

/** A hold, and settings that have no effect, or less than it seems. They may be intended, so they stop no start. */
function remarks(config: Config, onHold: boolean) {
  const { deliveryMode, sendingIps, roles, retryForMs, retryScheduleMs, smtp, ports, misspelled } = config;
  const [firstDelay = 0] = retryScheduleMs;
  const opensNone = roles.has('smtp') && Object.values(ports).every((port) => port === 0);
  const said = [
    onHold && 'nothing is sent until sendwright release --waiting send, or --waiting fail',
    deliveryMode === 'sandbox' &&
      sendingIps.length > 0 &&
      'SENDING_IPS has no effect in the sandbox: no mail leaves this machine',
    roles.has('mta') &&
      retryForMs < firstDelay &&
      'RETRY_FOR is shorter than the first delay of RETRY_SCHEDULE: deferred mail is retried only once, when RETRY_FOR ends',
    smtp.tls &&
      opensNone &&
      'SMTP_TLS_CERT has no effect: INBOUND_SMTP_PORT, SUBMISSION_PORT and SUBMISSIONS_PORT are 0',
    ...misspelled.map(({ written, meant }) => `${written} has no effect: did you mean ${meant}?`),
  ].filter((one) => typeof one === 'string');
  return said.map((one, index) => `    ${(index === 0 ? 'Note' : '').padEnd(13)}${one}`);
}

/** The user name can be anything; the password is an API key. */
function submissionLine(config: Config, { submission }: Shown): string[] {
  const ports = [
    submission.submission && `port ${submission.submission} (STARTTLS)`,
    submission.submissions && `port ${submission.submissions} (TLS)`,
  ].filter(Boolean);
  const host = submissionHostOf(config);
  return ports.length > 0 ? [`    SMTP         ${host}, ${ports.join(', ')}; the password is an API key`] : [];
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
    '  Next: log in, add a sending domain, publish the DNS records in the answer, and verify it.',
    '',
    `curl ${baseUrl}/api/v1/auth/login -H 'Content-Type: application/json' -d '{"email": "…", "password": "…"}'`,
    `curl ${baseUrl}/api/v1/domains -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' -d '{"domain": "example.com"}'`,
    '',
  ];
}
