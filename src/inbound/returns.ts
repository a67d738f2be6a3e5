import * as bounces from '../core/returns/bounces.ts';
import type { Returned } from '../core/returns/returns.ts';
import { unsubscribe } from '../core/returns/unsubscribe.ts';
import type { Database } from '../db/client.ts';
import { isUnavailable } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import { withALabels, withoutNeedlessQuotes } from '../mail/address/address.ts';
import { mostHops } from '../mail/headers/received-fields.ts';
import { type NamedRecipient, parseReturnPath, parseUnsubscribeAddress, type ReturnPath } from '../mail/links/token.ts';
import { parseUnsubscribeLink } from '../mail/links/unsubscribe-link.ts';
import { type Complaint, isFeedbackReport, readComplaint } from '../mail/returns/arf.ts';
import { isGenerated, isReport, type Notice, readNotice } from '../mail/returns/dsn.ts';
import { readLoosely } from '../mail/returns/loose-mime.ts';
import type { Queue } from '../queue.ts';
import { inCircles, notNow, Refusal } from './refusal.ts';

export interface ReturnTools {
  db: Database;
  queue: Queue;
  log: Logger;
  /** The host of our return path, and the keys that sign the tokens. */
  host: string;
  keys: { returnPath: Buffer; unsubscribe: Buffer };
}

/** What an address of ours is for. */
export type Mailbox =
  | { is: 'return path'; path: ReturnPath }
  | { is: 'unsubscribe'; named: NamedRecipient }
  /** Providers send feedback reports here. Nobody reads anything else. */
  | { is: 'feedback' };

/** How much of a header is read, in octets. */
const mostHeader = 64 * 1024;

/** The local parts of the addresses for feedback reports. */
const feedbackLocals = ['fbl', 'abuse', 'postmaster'];

/** The mailbox of this address, if it has a token of ours or takes reports. @throws Refusal for any other: nothing is relayed */
export function mailboxOf({ host, keys }: ReturnTools, written: string): Mailbox {
  const address = withALabels(withoutNeedlessQuotes(written));
  const path = parseReturnPath(keys.returnPath, address, host);
  if (path) return { is: 'return path', path };
  const named = parseUnsubscribeAddress(keys.unsubscribe, address, host);
  if (named) return { is: 'unsubscribe', named };
  const lower = address.toLowerCase();
  // RFC 5321 section 4.5.1: without a domain it is ours.
  if (lower === 'postmaster') return { is: 'feedback' };
  if (feedbackLocals.some((local) => lower === `${local}@${host.toLowerCase()}`)) return { is: 'feedback' };
  throw new Refusal(550, '5.7.1', 'no such address here; this server does not relay');
}

/**
 * Carries out what a message asks for, and returns once that is committed; the same message again changes nothing. A message
 * that asks for nothing we recognize is accepted and dropped. No answer is ever sent.
 *
 * @param nullSender whether the envelope sender is empty, as in mail from programs
 * @returns the reply
 * @throws Refusal 451 while the database is away; 554 if it loops, or is no report and was sent only to addresses for reports
 */
export async function receive(
  tools: ReturnTools,
  mailboxes: Mailbox[],
  message: Buffer,
  nullSender: boolean,
): Promise<string> {
  const hops = readLoosely(message.subarray(0, mostHeader)).header.all('received').length;
  if (hops > mostHops) throw inCircles(`the message has passed through more than ${mostHops} servers`);
  const complaint = readComplaint(message);
  // Providers stop sending reports to an address that refuses some.
  if (!complaint && mailboxes.every(({ is }) => is === 'feedback') && !isFeedbackReport(message))
    throw new Refusal(554, '5.6.0', 'this address accepts only feedback reports (RFC 5965)');
  const applyTo = complaint ? applyingComplaint(tools, complaint) : applyingMessage(tools, message, nullSender);
  try {
    for (const mailbox of mailboxes)
      tools.log.info({ to: mailbox.is, ...(await applyTo(mailbox)) }, 'a message came back');
  } catch (error) {
    throw isUnavailable(error) ? notNow() : error;
  }
  return '2.0.0 taken';
}

/** For the log: what it was, and what it changed. */
interface News {
  was: string;
  emailId?: string;
  changed: number;
}

type ApplyTo = (mailbox: Mailbox) => Promise<News>;

/** The message is read once, whomever it was sent to: that can take 50 ms, in which nothing else runs. */
function applyingMessage(tools: ReturnTools, message: Buffer, nullSender: boolean): ApplyTo {
  const notice = readNotice(message, nullSender);
  const isRequest = asksToUnsubscribe(message, notice, nullSender);
  return async (mailbox) => {
    if (mailbox.is === 'return path') return applyNotice(tools, mailbox.path, notice);
    if (mailbox.is !== 'unsubscribe' || !isRequest) return { was: notice.kind, changed: 0 };
    const { named } = mailbox;
    const found = await unsubscribe(tools.db, tools.queue, named);
    return { was: 'unsubscribe', emailId: named.emailId, changed: found ? 1 : 0 };
  };
}

async function applyNotice({ db, queue }: ReturnTools, path: ReturnPath, { kind, recipients }: Notice): Promise<News> {
  const isBounce = kind === 'bounce' || kind === 'delay';
  const news = isBounce ? await bounces.bounced(db, queue, path, recipients) : [];
  return { was: kind, emailId: path.emailId, changed: news.length };
}

/** A mail program unsubscribes on behalf of a person; reports and autoresponders do not. */
function asksToUnsubscribe(message: Buffer, { kind }: Notice, nullSender: boolean): boolean {
  if (nullSender || isReport(message)) return false;
  return kind === 'unknown' || (kind === 'auto_reply' && isGenerated(message));
}

function applyingComplaint(tools: ReturnTools, complaint: Complaint): ApplyTo {
  const { type, kind, recipients: addresses } = complaint;
  return async (mailbox) => {
    const evidence = evidenceOf(tools, mailbox, complaint);
    if (!evidence) return { was: `${kind} (${type}) about no email of ours`, changed: 0 };
    const news: Returned[] = await bounces.complained(tools.db, tools.queue, evidence, { kind, type, addresses });
    return { was: `${kind} (${type}), by ${evidence.by}`, emailId: bounces.emailOf(evidence), changed: news.length };
  };
}

/**
 * The best evidence of which email it is about: a token of one recipient, otherwise one of a transaction. A Message-ID is no
 * evidence, because anyone who was shown the message or a reply to it knows it.
 */
function evidenceOf({ host, keys }: ReturnTools, mailbox: Mailbox, { tokens }: Complaint): bounces.Evidence | null {
  const texts = tokens.map((token) => token.replace(/^mailto:/i, '').split('?', 1)[0] ?? '');
  const first = <T>(parse: (text: string) => T | null) => texts.map(parse).find((found) => found !== null) ?? null;
  const named =
    (mailbox.is === 'unsubscribe' ? mailbox.named : null) ??
    first((text) => parseUnsubscribeAddress(keys.unsubscribe, text, host)) ??
    first((text) => parseUnsubscribeLink(keys.unsubscribe, /\/unsubscribe\/([\w-]+)$/.exec(text)?.[1] ?? ''));
  if (named) return { by: 'unsubscribe', named };
  const path =
    (mailbox.is === 'return path' ? mailbox.path : null) ??
    first((text) => parseReturnPath(keys.returnPath, text, host));
  return path && { by: 'return path', path };
}
