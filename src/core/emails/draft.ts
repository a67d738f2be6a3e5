import { createHash } from 'node:crypto';
import { type ApiError, invalidRequest } from '../../errors.ts';
import type {
  Email,
  EmailType,
  RecipientKind,
  RecipientStatus,
  SuppressionReason,
  TlsLevel,
  UncertainPolicy,
} from '../../generated/prisma/client.ts';
import { newId } from '../../ids.ts';
import { comparable, formatMailbox, type Mailbox } from '../../mail/address/address.ts';
import type { Header } from '../../mail/headers/headers.ts';
import { saysHowToUnsubscribe } from '../../mail/links/list-unsubscribe.ts';
import {
  hasTooManyUnsubscribePlaces,
  holdsUnsubscribePlace,
  mostUnsubscribePlaces,
} from '../../mail/links/unsubscribe-place.ts';
import { cutText } from '../../mail/text/characters.ts';
import { grouped } from '../../numbers.ts';
import type { Sender } from '../accounts/keys.ts';
import * as suppressions from '../returns/suppressions.ts';

/** One email as it was parsed at the edge: each field has been checked there, and is not checked again. */
export interface SendRequest {
  from: Mailbox;
  to: Mailbox[];
  cc: Mailbox[];
  bcc: Mailbox[];
  replyTo: Mailbox[];
  /** May be empty, for mail that comes by SMTP. */
  subject: string;
  /** This and `text` may both be null, for mail that comes by SMTP. */
  html: string | null;
  text: string | null;
  headers: Header[];
  attachments: { filename: string; contentType: string; contentId: string | null; content: Buffer }[];
  tags: string[];
  type: EmailType;
  /** The TLS level that it asks for; its domain may ask for more. */
  tls: TlsLevel;
  /** What to do after an attempt that may have delivered it. */
  onUncertain: UncertainPolicy;
  /** Null: now. */
  scheduledAt: Date | null;
}

/** How an attachment is listed in `email_contents`: its bytes are in `attachments`. */
export interface StoredAttachment {
  sha256: string;
  filename: string;
  contentType: string;
  contentId: string | null;
}

/**
 * Looks at the places for our unsubscribe link in the bodies of marketing mail. Mail that says itself how to unsubscribe gets
 * no link, so it may have no place for one; other mail may not have too many.
 *
 * @returns a 400, or null if there is no objection
 */
export function refusalOfPlace({ type, headers, html, text }: SendRequest): ApiError | null {
  if (type !== 'marketing') return null;
  const [refused, reason] = saysHowToUnsubscribe(headers.map(({ name }) => name))
    ? [holdsUnsubscribePlace, 'has a place for the unsubscribe link, but the email has its own List-Unsubscribe']
    : [
        hasTooManyUnsubscribePlaces,
        `may have at most ${grouped(mostUnsubscribePlaces)} places for the unsubscribe link`,
      ];
  const field = refused(html) ? 'html' : refused(text) ? 'text' : null;
  return field && invalidRequest(`${field}: ${reason}`);
}

/** An email with all its rows, before any of them is written. */
export interface Draft {
  email: Email;
  request: SendRequest;
  attachments: (StoredAttachment & { content: Buffer })[];
  recipients: DraftRecipient[];
  /** Those of its addresses that are on the suppression list, for which nothing is sent. */
  refusals: { address: string; reason: SuppressionReason }[];
}

export interface DraftRecipient {
  position: number;
  kind: RecipientKind;
  address: string;
  destination: string;
  status: RecipientStatus;
  /** Null if nothing will be sent to it. */
  nextAttemptAt: Date | null;
}

/** Lays out an email with its recipients, each once. If one of them is on the suppression list, none is queued. */
export function draft(
  request: SendRequest,
  sender: Sender,
  domainId: string,
  suppressed: Map<string, SuppressionReason>,
  now: Date,
): Draft {
  const id = newId(now);
  const addressed = distinctRecipients(request);
  const refusals = suppressions.among(
    addressed.map(({ mailbox }) => mailbox.address),
    suppressed,
    request.type,
  );
  const isQueued = refusals.length === 0;
  const statusOf = (address: string): RecipientStatus => {
    if (isQueued) return 'queued';
    return refusals.some((entry) => entry.address === address) ? 'suppressed' : 'canceled';
  };
  const recipients = addressed.map(({ kind, mailbox }, position): DraftRecipient => {
    const { address, domain: destination } = mailbox;
    const nextAttemptAt = isQueued ? (request.scheduledAt ?? now) : null;
    return { position, kind, address, destination, status: statusOf(address), nextAttemptAt };
  });
  const email: Email = {
    id,
    accountId: sender.accountId,
    apiKeyId: sender.keyId,
    domainId,
    status: isQueued ? 'queued' : 'suppressed',
    type: request.type,
    from: formatMailbox(request.from),
    to: request.to.map(formatMailbox),
    cc: request.cc.map(formatMailbox),
    bcc: request.bcc.map(formatMailbox),
    replyTo: request.replyTo.map(formatMailbox),
    subject: request.subject,
    fromAddress: comparable(request.from.address),
    fromDomain: request.from.domain,
    recipientAddresses: addressed.map(({ mailbox }) => comparable(mailbox.address)),
    tags: request.tags,
    messageId: `${id}@${request.from.domain}`,
    tls: request.tls,
    onUncertain: request.onUncertain,
    pending: isQueued ? recipients.length : 0,
    failed: 0,
    suppressed: refusals.length,
    error: isQueued
      ? null
      : cutText(refusals.map(({ address, reason }) => `${address} is suppressed (${reason})`).join('; '), 2_000),
    createdAt: now,
    scheduledAt: request.scheduledAt,
    sentAt: null,
    erasedAt: null,
  };
  const attachments = request.attachments.map((attachment) => ({ ...attachment, sha256: sha256(attachment.content) }));
  return { email, request, attachments, recipients, refusals };
}

/** Each address once, in the most visible field that names it. */
function distinctRecipients(request: SendRequest): { kind: RecipientKind; mailbox: Mailbox }[] {
  const seen = new Set<string>();
  const kinds: [RecipientKind, Mailbox[]][] = [
    ['to', request.to],
    ['cc', request.cc],
    ['bcc', request.bcc],
  ];
  return kinds.flatMap(([kind, mailboxes]) =>
    mailboxes.flatMap((mailbox) => {
      const key = comparable(mailbox.address);
      if (seen.has(key)) return [];
      seen.add(key);
      return [{ kind, mailbox }];
    }),
  );
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');
