import type { Database } from '../../db/client.ts';
import { ApiError, fromDomainNotVerified } from '../../errors.ts';
import type { Email } from '../../generated/prisma/client.ts';
import type { SuppressionReason } from '../../generated/prisma/enums.ts';
import { createReturnPath } from '../../mail/token.ts';
import { type SendingPools, type SourceOutlook, sourceOutlook } from '../../sending-pools.ts';
import { type LookUpOptions, resolveDestination, resolveHost } from '../../smtp/mx.ts';
import { cleanRemoteText } from '../../smtp/reply.ts';
import type { TlsLevel, TlsPolicyName } from '../../smtp/tls-names.ts';
import type { TlsPolicies } from '../../smtp/tls-policies.ts';
import type { TlsDemand } from '../../smtp/tls-policy.ts';
import type { Sender } from '../accounts/keys.ts';
import * as plans from '../accounts/plans.ts';
import { findDmarc, isAligned } from '../domains/dmarc.ts';
import type { Surroundings } from '../domains/record-checks.ts';
import { addedDomains, demandSendFrom } from '../domains/sender-domains.ts';
import { askSpf } from '../domains/spf.ts';
import { type Draft, type DraftRecipient, draft, refusalOfPlace, type SendRequest } from '../emails/draft.ts';
import { resolve, type Sendable } from '../emails/template-sending.ts';
import * as suppressions from '../returns/suppressions.ts';
import type { TokenKeys } from '../secrets/service-secrets.ts';
import { demandOf } from './outgoing.ts';
import { build, isPersonal, openKey, type Signing } from './outgoing-message.ts';

/** The outcome that sending an email would have; nothing is stored or sent. */
export interface DryRun {
  /** The outcome of its acceptance. */
  would: 'be_queued' | 'be_scheduled' | 'be_suppressed' | 'exceed_quota';
  /** The bytes that would be sent, with the signature. */
  message: Buffer;
  returnPath: string;
  /** The addresses that it would be sent from; null: the system chooses. */
  source: SourceOutlook | null;
  suppressed: { address: string; reason: SuppressionReason }[];
  destinations: DryDestination[];
  authentication: Authentication;
}

export interface DryDestination {
  domain: string;
  recipients: string[];
  /** In the order in which they would be tried. */
  hosts: { name: string; preference: number; addresses: string[]; problem: string | null }[];
  /** Why mail for this domain could not be delivered now; `permanent` says that trying later would not help. */
  problem: { permanent: boolean; reason: string } | null;
  tls: { policy: TlsPolicyName; source: string; notes: string[] };
}

/** How a receiver would see the message, and whether what passes is aligned with the `From` domain (RFC 7489 section 3.1). */
export interface Authentication {
  dkim: { domain: string; selector: string; aligned: boolean };
  spf: { domain: string; results: { ip: string; result: string }[]; aligned: boolean };
  dmarc: { record: string | null; wouldPass: boolean };
}

export interface DryRunTools {
  surroundings: Surroundings;
  lookUp: LookUpOptions;
  tlsPolicies: TlsPolicies;
  tokenKeys: TokenKeys;
  sendingPools: SendingPools;
  baseUrl: string;
}

const spfTimeoutMs = 10_000;

/**
 * Follows `answerAll` and a delivery up to the point where something would be written or sent.
 *
 * @throws ApiError as `answerAll` refuses: 400, 403
 */
export async function dryRun(db: Database, sender: Sender, sendable: Sendable, tools: DryRunTools): Promise<DryRun> {
  const request = await complete(db, sender, sendable);
  const { signing, domainTls, pool } = await findSigning(db, sender, request);
  const demand = demandOf(request.tls, signing.domain, domainTls);
  const addresses = [...request.to, ...request.cc, ...request.bcc].map((mailbox) => mailbox.address);
  const listed = await suppressions.find(db, sender.accountId, addresses);
  const drafted = draft(request, sender, signing.domainId, listed, new Date());
  const { email, recipients } = drafted;
  const byDomain = [...Map.groupBy(recipients, ({ destination }) => destination)];
  const [message, isGranted, destinations, authentication] = await Promise.all([
    buildMessage(drafted, signing, demand, tools),
    email.status === 'queued' && plans.isCounted(sender.plan) ? plans.wouldGrant(db, sender.accountId) : true,
    Promise.all(byDomain.map(([domain, to]) => lookUpDestination(domain, to, demand, tools))),
    authenticate(request.from.domain, signing, tools.surroundings),
  ]);
  return {
    would: outcomeOf(email, isGranted),
    message,
    returnPath: createReturnPath(tools.tokenKeys.returnPath, email.id, tools.surroundings.mailHostname),
    source: sourceOutlook(tools.sendingPools, { type: email.type, pool }),
    suppressed: suppressions.among(addresses, listed, request.type),
    destinations,
    authentication,
  };
}

/** The whole request, if it names a template. */
async function complete(db: Database, sender: Sender, sendable: Sendable): Promise<SendRequest> {
  const [request] = await resolve(db, sender.accountId, [sendable]);
  if (!request || request instanceof ApiError) throw request ?? new Error('no request was resolved');
  const refusal = refusalOfPlace(request);
  if (refusal) throw refusal;
  return request;
}

function outcomeOf({ status, scheduledAt, createdAt }: Email, isGranted: boolean): DryRun['would'] {
  if (status === 'suppressed') return 'be_suppressed';
  if (!isGranted) return 'exceed_quota';
  return scheduledAt !== null && scheduledAt > createdAt ? 'be_scheduled' : 'be_queued';
}

/** The message as it would be sent; if each recipient gets a copy of their own, the first recipient's. */
async function buildMessage(
  { email, request, recipients, attachments }: Draft,
  signing: Signing,
  tls: TlsDemand,
  { surroundings, tokenKeys, baseUrl }: DryRunTools,
): Promise<Buffer> {
  const source = {
    ...email,
    html: request.html,
    text: request.text,
    headers: request.headers.map(({ name, value }): [string, string] => [name, value]),
    attachments,
    tls,
    dueAt: request.scheduledAt ?? email.createdAt,
  };
  const keys = signing.keys.map((key) => openKey(surroundings.keyring, signing, key));
  const places = { key: tokenKeys.unsubscribe, baseUrl, host: surroundings.mailHostname };
  const [first] = recipients;
  const copy = isPersonal(source) && first ? { position: 0, address: first.address, places } : null;
  return Buffer.concat(await build(source, keys, copy));
}

async function findSigning(
  db: Database,
  sender: Sender,
  { from }: SendRequest,
): Promise<{ signing: Signing; domainTls: TlsLevel; pool: string | null }> {
  demandSendFrom(sender, from.domain);
  const row = await db.prisma.domain.findFirst({
    where: { accountId: sender.accountId, domain: from.domain, status: 'verified' },
    include: { dkimKeys: { where: { status: 'active' } } },
  });
  if (!row) {
    const added = await addedDomains(db, sender.accountId, [from.domain]);
    throw fromDomainNotVerified(from.domain, added.has(from.domain));
  }
  const keys = [
    { selector: row.dkimSelector, sealed: Buffer.from(row.dkimPrivateKey) },
    ...row.dkimKeys.flatMap(({ selector, privateKey }) =>
      privateKey ? [{ selector, sealed: Buffer.from(privateKey) }] : [],
    ),
  ];
  return { signing: { domainId: row.id, domain: row.domain, keys }, domainTls: row.tls, pool: row.pool };
}

async function lookUpDestination(
  domain: string,
  drafted: DraftRecipient[],
  demand: TlsDemand,
  { lookUp, tlsPolicies }: DryRunTools,
): Promise<DryDestination> {
  const recipients = drafted.map(({ address }) => address);
  const found = await resolveDestination(domain, lookUp);
  const named = found.kind === 'hosts' ? found.hosts : [];
  const names = named.map(({ name }) => name);
  const [{ refused, ...tls }, reached] = await Promise.all([
    tlsPolicies.describe(domain, demand, names),
    Promise.all(named.map(async (host) => ({ ...host, at: await resolveHost(host.name, lookUp) }))),
  ]);
  if (found.kind !== 'hosts') {
    const problem = { permanent: found.kind === 'permanent', reason: found.reason };
    return { domain, recipients, hosts: [], tls, problem };
  }
  const hosts = reached.map(({ name, preference, at }) =>
    at.kind === 'addresses'
      ? { name, preference, addresses: at.addresses, problem: refused.get(name) ?? null }
      : { name, preference, addresses: [], problem: at.reason },
  );
  const isReachable = hosts.some(({ problem }) => problem === null);
  // A policy that forbids a host may change.
  const permanent = refused.size === 0 && reached.every(({ at }) => at.kind === 'permanent');
  const problem = isReachable ? null : { permanent, reason: hosts[0]?.problem ?? 'no host can be reached' };
  return { domain, recipients, hosts, tls, problem };
}

async function authenticate(from: string, signing: Signing, where: Surroundings): Promise<Authentication> {
  const { mailHostname, sendingIps, resolve } = where;
  const sender = `bounces@${mailHostname}`;
  const results = await Promise.all(
    sendingIps.map(async (ip) => {
      const { result } = await askSpf({ sender, ip, mailHostname, resolve, timeoutMs: spfTimeoutMs });
      return { ip, result };
    }),
  );
  const dkim = {
    domain: signing.domain,
    selector: signing.keys[0]?.selector ?? '',
    aligned: isAligned(signing.domain, from),
  };
  const spfAligned = isAligned(mailHostname, from);
  const spfPasses = results.length > 0 && results.every(({ result }) => result === 'pass');
  const found = await findDmarc(from, where);
  // Several records count as none. If the lookup fails now, the email would be sent all the same.
  const [policy, ...others] = found.kind === 'records' ? found.records : [];
  const record = policy === undefined || others.length > 0 ? null : cleanRemoteText(policy, 500);
  return {
    dkim,
    spf: { domain: mailHostname, results, aligned: spfAligned },
    dmarc: { record, wouldPass: dkim.aligned || (spfAligned && spfPasses) },
  };
}
