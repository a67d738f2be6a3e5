import type { Attempt, Recipient } from '../../generated/prisma/client.ts';
import { type Classification, saysNobodyThere } from '../../smtp/deliver.ts';
import { objections } from '../outgoing/objection.ts';
import { tlsSetting } from '../outgoing/outgoing.ts';
import { wasStopped } from '../recipients/settlement.ts';
import { warmUpOf } from '../recipients/waiting-for.ts';
import type { Cause } from './cause.ts';

/** What each class of failure means, and what people can do about it. */
export const meanings: Record<Classification, { meaning: string; advice: string }> = {
  bad_mailbox: {
    meaning: 'The mailbox does not exist.',
    advice: 'Check the part before the @ for typing errors, or ask the recipient for their current address.',
  },
  bad_domain: {
    meaning: 'The domain does not exist or takes no mail.',
    advice: 'Check the part after the @ for typing errors.',
  },
  mailbox_full: {
    meaning: 'The mailbox is full.',
    advice: 'Only its owner can free space: contact them another way.',
  },
  content: {
    meaning:
      'The server objects to the message itself: its size, its form, an attachment, a link, or words that look like spam.',
    advice: 'The reply may say which. To find out, send one without the attachment or the links.',
  },
  policy: {
    meaning:
      'The server does not accept mail from here, or not yet: because of a blocklist, a poor reputation, greylisting or a rule of its own.',
    advice:
      'If the reply names a blocklist or a page, look up the sending address there; otherwise ask the postmaster of the receiving side.',
  },
  authentication: {
    meaning:
      'The server doubts who is sending: SPF, DKIM, DMARC, or the reverse DNS and EHLO name of the sending address.',
    advice:
      'Verify the sending domain again, publish a DMARC record, and give the sending address a reverse DNS name that leads back to it.',
  },
  rate: {
    meaning: 'The server wants to receive less mail at a time.',
    advice: 'Spread large mailings over several hours; this server slows down automatically.',
  },
  network: {
    meaning: 'The receiving side could not be reached, or has a problem of its own.',
    advice:
      'The receiving side has to fix this, unless mail to other domains fails in the same way: then check the network and the resolver here.',
  },
  protocol: {
    meaning: 'The conversation with the server went wrong.',
    advice: 'If it happens again, tell its postmaster; the attempt log shows what was said.',
  },
  sender: {
    meaning:
      'Something on the sending side stands in the way: the sender’s address or domain, the key, the account or this server.',
    advice:
      'Verify the sending domain again, and check that its DNS records and those of this server can be looked up; if this server is named, its operator has to act.',
  },
  other: {
    meaning: 'The server gave no reason that we recognize.',
    advice: 'The text of the reply may name one.',
  },
};

/**
 * What people can do about it; null if there is nothing to do.
 *
 * @param attempt the one that delivered it, or the last one; null: there was none
 */
export function adviceOf(recipient: Recipient, cause: Cause | null, attempt: Attempt | null): string | null {
  const hasArrived = attempt?.outcome === 'delivered';
  if (wasStopped(recipient.lastResponse) && !hasArrived) return null;
  switch (cause) {
    case null:
    case 'scheduled':
    case 'being_delivered':
    case 'canceled':
      return null;
    case 'in_queue':
      return 'If this lasts, check that a node with the role mta is running.';
    case 'on_hold':
      return 'An operator ends the hold with `sendwright release --waiting send`, or `--waiting fail` if the waiting mail must not be sent.';
    case 'held_back':
      return recipient.waitingFor?.startsWith(warmUpOf(''))
        ? 'New sending addresses may send a little more each day (WARM_UP_PLAN). An operator sees them at /api/v1/admin/destinations, and can add an address to the pool or give the domain another one.'
        : 'An operator sees the destination, and can resume or flush it, at /api/v1/admin/destinations.';
    case 'uncertain':
      return 'Ask the recipient, or the postmaster of the receiving side, whether its Message-ID arrived; then choose retry, delivered or failed with POST /api/v1/emails/:id/release.';
    case 'crashed':
      return 'The log of the service, or of the program that starts it, says why it ended; it may have run out of memory. Once that is fixed, choose retry with POST /api/v1/emails/:id/release, or failed.';
    case 'suppressed':
      return 'If the address works again, take it off the suppression list and send again.';
    case 'retrying':
      return `${adviceAfter(attempt)} It is tried again automatically.`;
    case 'refused':
      // Somebody has decided: no server refused it.
      if (attempt === null) return null;
      if (saysNobodyThere(classificationOf(attempt)))
        return `${adviceAfter(attempt)} The address went onto the suppression list.`;
      return onObjection.get(attempt.reason) ?? `${adviceAfter(attempt)} ${sendAgain}`;
    case 'given_up':
      return hasArrived ? 'There is no need to send it again.' : `${adviceAfter(attempt)} ${sendAgain}`;
  }
}

const sendAgain = 'It is not tried again; send it again once that is fixed.';

/** What to do where mail is due and no node would deliver it. */
export const adviceWithoutNode = 'An operator has to start a node with the role mta, or find out why it has ended.';

/** By what was objected to before the attempt. */
const onObjection = new Map([
  [objections.domain, `Add the sending domain again if it was removed, and verify it. ${sendAgain}`],
  [objections.account, `An operator of this server can resume the account. ${sendAgain}`],
  [
    objections.key,
    'What a key has scheduled is not sent once the key is revoked. It is not tried again; send it again with another key.',
  ],
]);

/** What people can do about an objection while the email still waits. */
export const adviceBefore = (objection: string): string | null => whileItWaits.get(objection) ?? null;

const whileItWaits = new Map([
  [objections.domain, 'Until then, add the sending domain again if it was removed, and verify it.'],
  [objections.account, 'Until then, an operator of this server can resume the account.'],
  [objections.key, 'Cancel it, and schedule it again with another key.'],
]);

const classificationOf = (attempt: Attempt | null) => (attempt?.classification ?? 'other') as Classification;

/**
 * The meaning of a class, and what people can do about it.
 *
 * @param classification null: not known; after a way back from a later release there may be one that we do not know
 */
export function adviceAbout(classification: string | null): string {
  const known = Object.hasOwn(meanings, classification ?? '') ? (classification as Classification) : 'other';
  const { meaning, advice } = meanings[known];
  return `${meaning} ${advice}`;
}

/** Advice after an attempt that did not succeed. */
function adviceAfter(attempt: Attempt | null): string {
  const special = attempt && specialAdvice(attempt);
  return special ?? adviceAbout(classificationOf(attempt));
}

/** Advice if the failure tells more than its class; null: it does not. */
function specialAdvice({
  uncertain,
  phase,
  reason,
  classification,
  enhancedCode,
  verification,
}: Attempt): string | null {
  if (uncertain)
    return 'The server may have taken the message although its answer never came. Each attempt has the same Message-ID, by which most receivers show a second copy only once.';
  if (phase === 'dns' && reason.includes('ALLOW_PRIVATE_NETWORKS'))
    return 'This server does not deliver to private addresses; its operator can allow it with ALLOW_PRIVATE_NETWORKS.';
  // The way to the recipient leads back here (RFC 3463 section 3.5).
  if (classification === 'sender' && enhancedCode === '5.4.6')
    return 'The MX records of the recipient’s domain lead to this server, which keeps no mailboxes: they belong to the server that does.';
  if (/ cannot be used \(its (?:MX records|addresses|TLSA records): /.test(reason))
    return 'It could not be found out whether the receiving domain demands TLS (DANE). If mail to other domains waits for the same reason, the validating resolver of this server (DANE_RESOLVER) has to be checked; otherwise the receiving side has to fix its name servers.';
  if (reason.includes(' cannot be used (stored policies '))
    return 'It could not be found out whether the receiving domain demands TLS (MTA-STS), because this server could not read what it has stored. If this lasts, its operator has to check the database.';
  const isForbiddenByPolicy = (phase === 'starttls' || phase === 'dns') && verification !== 'none';
  if (!isForbiddenByPolicy) return null;
  return reason.includes(tlsSetting)
    ? 'The sending side demands this: with a lower `tls` level, of the email or of its domain, it would be sent.'
    : 'The receiving domain demands this itself, and only its operators can fix it.';
}
