import type { OrderName } from '../core/destination-orders.ts';
import { pausedUntil, type Standing } from '../core/destinations.ts';
import { overlapMs } from '../core/dkim-keys.ts';
import { keyRecord } from '../core/domains.ts';
import type { DryRun } from '../core/dry-run.ts';
import type { Content, Listed } from '../core/email-log.ts';
import { countsOf } from '../core/erasures.ts';
import type { RecipientExplanation } from '../core/explain.ts';
import { isCounted, planOf } from '../core/plans.ts';
import type { Check } from '../core/record-checks.ts';
import type { Bucket } from '../core/stats.ts';
import type { Template, TemplateSummary } from '../core/templates.ts';
import type { Woken } from '../core/wakings.ts';
import type { Standing as SendingAddressStanding } from '../core/warm-up.ts';
import type {
  Account,
  ApiKey,
  Attempt,
  DkimKey,
  Domain,
  Email,
  Erasure,
  Recipient,
  Return,
  SandboxMessage,
  Suppression,
  Webhook,
  WebhookDelivery,
} from '../generated/prisma/client.ts';

/** What clients see of each noun: nothing that is not named here leaves the service. */

const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

export function apiKey(key: ApiKey) {
  return {
    id: key.id,
    name: key.name,
    key_prefix: key.keyPrefix,
    scopes: key.scopes,
    domains: key.domains,
    expires_at: iso(key.expiresAt),
    created_at: iso(key.createdAt),
    revoked_at: iso(key.revokedAt),
  };
}

export function domain(row: Domain) {
  return {
    id: row.id,
    domain: row.domain,
    status: row.status,
    dkim_selector: row.dkimSelector,
    verified_at: iso(row.verifiedAt),
    dns_warning: row.dnsWarning,
    tls: row.tls,
    pool: row.pool,
    created_at: iso(row.createdAt),
  };
}

/** @param domain the name of the domain that it is for */
export function dkimKey(key: DkimKey, domain: string) {
  return {
    id: key.id,
    selector: key.selector,
    algorithm: key.algorithm,
    status: key.status,
    record: keyRecord(key, domain),
    problem: key.problem,
    created_at: iso(key.createdAt),
    activated_at: iso(key.activatedAt),
    retired_at: iso(key.retiredAt),
    remove_after: key.retiredAt && iso(new Date(key.retiredAt.getTime() + overlapMs)),
  };
}

export function check({ ok, name, type, expected, found, problem }: Check) {
  return { ok, name, type, expected, found, problem };
}

export function email(row: Email) {
  return {
    id: row.id,
    status: row.status,
    from: row.from,
    // Mail that came by SMTP may be for blind recipients alone.
    to: [...row.to, ...row.cc, ...row.bcc][0] ?? '',
    cc: row.cc,
    bcc: row.bcc,
    reply_to: row.replyTo,
    subject: row.subject,
    tags: row.tags,
    type: row.type,
    created_at: iso(row.createdAt),
    ...(row.scheduledAt ? { scheduled_at: iso(row.scheduledAt) } : {}),
    sent_at: iso(row.sentAt),
    error: row.error,
  };
}

export const listedEmail = (row: Listed) => ({
  ...email(row),
  returned: row.returned,
  recipient_count: row.to.length + row.cc.length + row.bcc.length,
  held: row.held,
});

export function emailContent({ html, text, headers, attachments }: Content) {
  return {
    html,
    text,
    headers,
    attachments: attachments.map(({ filename, contentType, contentId, size }) => ({
      filename,
      content_type: contentType,
      content_id: contentId,
      size,
    })),
  };
}

export function recipient(row: Recipient) {
  return {
    address: row.address,
    kind: row.kind,
    status: row.status,
    attempts: row.attempts,
    last_response: row.lastResponse,
    waiting_for: row.waitingFor,
    next_attempt_at: soon(row.nextAttemptAt),
  };
}

/** While a destination is paused nobody knows when. */
const soon = (at: Date | null) => (at !== null && at < pausedUntil ? iso(at) : null);

export function returned(row: Return) {
  return {
    recipient: row.recipient,
    kind: row.kind,
    classification: row.classification,
    enhanced_code: row.enhancedCode,
    diagnostic: row.diagnostic,
    received_at: iso(row.receivedAt),
  };
}

export function attempt(row: Attempt) {
  return {
    id: row.id,
    at: iso(row.at),
    number: row.number,
    recipient: row.recipient,
    mx_host: row.mxHost,
    remote_address: row.remoteAddress,
    local_address: row.localAddress,
    tls_version: row.tlsVersion,
    tls_cipher: row.tlsCipher,
    verification: row.verification,
    phase: row.phase,
    outcome: row.outcome,
    uncertain: row.uncertain,
    reply_code: row.replyCode,
    enhanced_code: row.enhancedCode,
    reply: row.reply,
    reason: row.reason,
    duration_ms: row.durationMs,
    classification: row.classification,
    conversation: ((row.conversation ?? []) as [number, string, string][]).map(([ms, by, text]) => ({ ms, by, text })),
  };
}

/** `raw` is the source as it arrived; bytes that are not UTF-8 are shown as U+FFFD. */
export function sandboxMessage(row: SandboxMessage) {
  return {
    id: row.id,
    email_id: row.emailId,
    received_at: iso(row.receivedAt),
    mail_from: row.mailFrom,
    rcpt_to: row.rcptTo,
    from: row.headerFrom,
    subject: row.subject,
    tls_version: row.tlsVersion,
    dkim: row.dkim,
    size: row.size,
    raw: Buffer.from(row.raw).toString('utf8'),
    raw_truncated: row.raw.length < row.size,
  };
}

export function suppression(row: Suppression) {
  return { address: row.address, reason: row.reason, email_id: row.emailId, created_at: iso(row.createdAt) };
}

export function erasure(row: Erasure) {
  return {
    id: row.id,
    status: row.doneAt === null ? 'pending' : 'done',
    address_hash: row.addressHash,
    suppression: row.keepsSuppression ? 'keep' : 'remove',
    counts: countsOf(row),
    asked_at: iso(row.askedAt),
    done_at: iso(row.doneAt),
  };
}

/** Counts of a day or a month that is over are not shown as if they were today's, nor 0 where nothing is counted. */
export function account(row: Account, now: Date = new Date()) {
  const today = now.toISOString();
  const isToday = row.usageDay?.toISOString().slice(0, 10) === today.slice(0, 10);
  const isThisMonth = row.usageMonth?.toISOString().slice(0, 7) === today.slice(0, 7);
  const plan = planOf(row.plan);
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    credit: row.credit.toFixed(2),
    usage: isCounted(row.plan)
      ? { day: isToday ? row.usageDayCount : 0, month: isThisMonth ? row.usageMonthCount : 0 }
      : { day: null, month: null },
    retention: { log_days: plan.logDays, content_days: plan.contentDays },
    suspended_at: iso(row.suspendedAt),
    created_at: iso(row.createdAt),
  };
}

export function templateSummary(template: TemplateSummary) {
  return {
    id: template.id,
    name: template.name,
    alias: template.alias,
    status: template.publishedAt ? 'published' : 'draft',
    published_at: iso(template.publishedAt),
    created_at: iso(template.createdAt),
    updated_at: iso(template.updatedAt),
  };
}

/** With the draft's content: what was published last can be rendered, but not read back. */
export function template(template: Template) {
  const { from, subject, replyTo, html, text, variables } = template.draft;
  return {
    ...templateSummary(template),
    has_unpublished_changes: template.changed,
    from,
    subject,
    reply_to: replyTo,
    html,
    text,
    variables: variables.map(({ key, type, fallback }) => ({ key, type, fallback_value: fallback })),
  };
}

export function webhook(row: Webhook) {
  return {
    id: row.id,
    url: row.url,
    events: row.events,
    status: row.status,
    disabled_reason: row.disabledReason,
    failing_since: iso(row.failingSince),
    created_at: iso(row.createdAt),
  };
}

export function webhookDelivery(row: WebhookDelivery) {
  return {
    id: row.id,
    webhook_id: row.webhookId,
    event: row.event,
    email_id: row.emailId,
    status: row.status,
    error: row.error,
    attempts: row.attempts,
    next_attempt_at: iso(row.nextAttemptAt),
    created_at: iso(row.createdAt),
  };
}

/** `payload` is the body as it is sent, parsed. */
export function webhookDeliveryWithPayload(row: WebhookDelivery) {
  return { ...webhookDelivery(row), payload: JSON.parse(row.payload) as unknown };
}

export function explanation(row: RecipientExplanation) {
  const last = row.lastAttempt;
  return {
    address: row.address,
    status: row.status,
    cause: row.cause,
    classification: row.classification,
    sentence: row.sentence,
    advice: row.advice,
    attempts: row.attempts,
    last_attempt: last && {
      at: iso(last.at),
      mx_host: last.mxHost,
      phase: last.phase,
      response: last.response,
      uncertain: last.uncertain,
    },
    tls: row.tls,
    next_attempt_at: soon(row.nextAttemptAt),
    gives_up_at: iso(row.givesUpAt),
  };
}

/** `raw` is the message as it would be sent; bytes that are not UTF-8 are shown as U+FFFD. */
export function dryRun({ would, message, returnPath, source, suppressed, destinations, authentication }: DryRun) {
  const { dkim, spf, dmarc } = authentication;
  return {
    dry_run: true,
    would,
    message: { size: message.length, raw: message.toString('utf8') },
    return_path: returnPath,
    source,
    suppressed,
    destinations,
    authentication: { dkim, spf, dmarc: { record: dmarc.record, would_pass: dmarc.wouldPass } },
  };
}

export function bucket(row: Bucket) {
  return {
    start: iso(row.start),
    group: row.group,
    accepted: row.accepted,
    suppressed: row.suppressed,
    complaints: row.complaints,
    delivered: row.delivered,
    pending: row.pending,
    failed: row.failed,
    failed_by_class: row.failedByClass,
    deferrals: row.deferrals,
    latency_ms: row.latencyMs,
  };
}

export function destination(row: Standing) {
  return {
    site: row.site,
    destinations: row.destinations,
    state: row.state,
    queued: row.queued,
    deferred: row.deferred,
    next_attempt_at: iso(row.nextAttemptAt),
    in_flight: row.running,
    connections: row.connections,
    most_connections: row.mostConnections,
    per_minute: row.perMinute,
    reason: row.reason,
    backoff_until: iso(row.backoffUntil),
    last_reply: row.lastReply,
    last_success_at: iso(row.lastSuccessAt),
    waiting_for: row.waitingFor,
    paused_at: iso(row.pausedAt),
  };
}

/** What an order came to. */
export function orderGiven(order: OrderName, { standing, woken }: { standing: Standing; woken: Woken | null }) {
  return {
    destination: destination(standing),
    ...(woken && order === 'flush' && { flushed: woken.recipients }),
    ...(woken && { rest_follows: woken.rest }),
  };
}

export function sendingAddress({ ip, pool, warmUp }: SendingAddressStanding) {
  return {
    ip,
    pool,
    warm_up: warmUp && {
      day: warmUp.day,
      cap: warmUp.cap,
      sent_today: warmUp.sent,
      begins_at: iso(warmUp.beginsAt),
      ends_at: iso(warmUp.endsAt),
    },
  };
}
