import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import type { Database } from '../../db/client.ts';
import { ApiError, fromDomainNotVerified } from '../../errors.ts';
import type { Domain, Email } from '../../generated/prisma/client.ts';
import type { SuppressionReason } from '../../generated/prisma/enums.ts';
import { createReturnPath } from '../../mail/links/token.ts';
import { type SendingPools, type SourceOutlook, sourceOutlook } from '../../smtp/connections/sending-pools.ts';
import type { TlsDemand } from '../../smtp/policies/tls-policy.ts';
import type { Sender } from '../accounts/keys.ts';
import * as plans from '../accounts/plans.ts';
import type { Surroundings } from '../domains/record-checks.ts';
import { addedDomains, demandSendFrom } from '../domains/sender-domains.ts';
import { type Draft, draft, refusalOfPlace, type SendRequest } from '../emails/draft.ts';
import { resolve, type Sendable } from '../emails/template-sending.ts';
import * as suppressions from '../returns/suppressions.ts';
import type { TokenKeys } from '../secrets/service-secrets.ts';
import { type Authentication, authenticate } from './dry-authentication.ts';
import { type DestinationTools, type DryDestination, lookUpDestination } from './dry-destination.ts';
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

export interface DryRunTools extends DestinationTools {
  surroundings: Surroundings;
  tokenKeys: TokenKeys;
  sendingPools: SendingPools;
  clock: Clock;
  baseUrl: string;
}

/** Whoever asks beforehand often does so because name servers do not answer. */
const patienceMs = 15_000;

/**
 * Follows `answerAll` and a delivery up to the point where something would be written or sent. What DNS has not answered by
 * `patienceMs` counts as a failure of this moment.
 *
 * @throws ApiError as `answerAll` refuses: 400, 403
 */
export async function dryRun(db: Database, sender: Sender, sendable: Sendable, tools: DryRunTools): Promise<DryRun> {
  const request = await complete(db, sender, sendable);
  const { signing, domain } = await findSigning(db, sender, request);
  const demand = demandOf(request.tls, domain.domain, domain.tls);
  const addresses = [...request.to, ...request.cc, ...request.bcc].map((mailbox) => mailbox.address);
  const listed = await suppressions.find(db, sender.accountId, addresses);
  const drafted = draft(request, sender, signing.domainId, listed, tools.clock.now());
  const { email, recipients } = drafted;
  const byDomain = [...Map.groupBy(recipients, ({ destination }) => destination)];
  const ended = new AbortController();
  const late = sleep(patienceMs, undefined, { signal: ended.signal }).catch(() => undefined);
  const [message, isGranted, destinations, authentication] = await Promise.all([
    buildMessage(drafted, signing, demand, tools),
    email.status === 'queued' && plans.isCounted(sender.plan) ? plans.wouldGrant(db, sender.accountId) : true,
    Promise.all(
      byDomain.map(([domain, to]) => {
        const destination = { domain, recipients: to.map(({ address }) => address) };
        return lookUpDestination(destination, demand, tools, late);
      }),
    ),
    authenticate(request.from.domain, domain, tools.surroundings, late),
  ]).finally(() => ended.abort());
  return {
    would: outcomeOf(email, isGranted),
    message,
    returnPath: returnPathOf(drafted, tools),
    source: sourceOutlook(tools.sendingPools, { type: email.type, pool: domain.pool }, email.createdAt),
    suppressed: suppressions.among(addresses, listed, request.type),
    destinations,
    authentication,
  };
}

/** That of the first transaction: marketing mail has one for each recipient, other mail for each destination. */
function returnPathOf({ email, recipients }: Draft, { tokenKeys, surroundings }: DryRunTools): string {
  const [first] = recipients;
  const together = recipients.filter(({ destination }) => destination === first?.destination);
  const alone = email.type === 'marketing' || together.length === 1;
  return createReturnPath(tokenKeys.returnPath, email.id, surroundings.mailHostname, { position: 0, alone });
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
): Promise<{ signing: Signing; domain: Domain }> {
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
  return { signing: { domainId: row.id, domain: row.domain, keys }, domain: row };
}
