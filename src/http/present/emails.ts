import type { Content, Listed } from '../../core/log/email-log.ts';
import type { RecipientExplanation } from '../../core/log/explain.ts';
import type { Stopped } from '../../core/orders/stopping-matching.ts';
import type { DryRun } from '../../core/outgoing/dry-run.ts';
import type { ExportedContent, ExportedFile } from '../../core/privacy/account-export.ts';
import type { Attempt, Email, Recipient, Return, SandboxMessage } from '../../generated/prisma/client.ts';
import { iso, soon } from './times.ts';

export function email(row: Email) {
  return {
    id: row.id,
    status: row.status,
    from: row.from,
    // Mail submitted by SMTP may have only blind recipients.
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

type Parts = { recipients: Recipient[]; returns: Return[] };

const details = (row: Email, { recipients, returns }: Parts) => ({
  tls: row.tls,
  on_uncertain: row.onUncertain,
  api_key_id: row.apiKeyId,
  recipients: recipients.map(recipient),
  returns: returns.map(returned),
});

export const stopped = ({ stopped, canceled, inHand, held, rest }: Stopped) => ({
  stopped,
  canceled,
  in_hand: inHand,
  held,
  rest_waits: rest,
});

export const emailDetail = (row: Email, parts: Parts) => ({ ...email(row), ...details(row, parts) });

/** With all of `to`. The type is `email_type`, because `type` is the type of the line in an export. */
export function exportedEmail(row: Email, parts: Parts) {
  const { type, ...shown } = email(row);
  return { ...shown, to: row.to, email_type: type, ...details(row, parts) };
}

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

export function exportedContent({ emailId, html, text, headers, attachments }: ExportedContent) {
  return {
    email_id: emailId,
    html,
    text,
    headers: headers.map(([name, value]) => ({ name, value })),
    attachments: attachments.map(({ sha256, filename, contentType, contentId }) => ({
      sha256,
      filename,
      content_type: contentType,
      content_id: contentId,
    })),
  };
}

export function exportedFile({ sha256, size, content }: ExportedFile) {
  return { sha256, size, ...(content ? { content: content.toString('base64') } : {}) };
}

function recipient(row: Recipient) {
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

function returned(row: Return) {
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

export const exportedAttempt = (row: Attempt) => ({ email_id: row.emailId, ...attempt(row) });

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
