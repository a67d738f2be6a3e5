import type { Database } from '../../db/client.ts';
import { comparable, withALabels } from '../../mail/address/address.ts';
import type { NamedRecipient, ReturnPath } from '../../mail/links/token.ts';
import type { ReturnedRecipient } from '../../mail/returns/delivery-status.ts';
import type { Queue } from '../../queue.ts';
import { saysNobodyThere } from '../../smtp/deliver.ts';
import { cleanRemoteText } from '../../smtp/replies/reply.ts';
import { classifyNotice } from './return-class.ts';
import { type Returned, type ReturnedEmail, recordFor } from './returns.ts';

/** Notices about older emails are ignored: servers give up within days, providers report within weeks. */
const withinDays = 90;

type Recipients = ReturnedEmail['recipients'];

/**
 * Records a bounce or a delay for the recipients whom both the return path and the notice name. A recipient who is said not
 * to exist goes onto the suppression list.
 *
 * @returns what was new
 */
export function bounced(
  db: Database,
  queue: Queue,
  path: ReturnPath,
  notice: ReturnedRecipient[],
): Promise<Returned[]> {
  return recordFor(db, queue, { emailId: path.emailId, withinDays }, (email) => {
    const meant = namedBy(path, email.recipients);
    return notice.flatMap((one) => bounceOf(one, meant));
  });
}

function bounceOf(notice: ReturnedRecipient, meant: Recipients): Returned[] {
  if (notice.action !== 'failed' && notice.action !== 'delayed') return [];
  const found = whoIs(notice, meant);
  if (!found) return [];
  const { classification, enhancedCode, diagnostic, permanent } = classifyNotice(notice);
  return [
    {
      address: found.address,
      kind: notice.action === 'failed' ? 'bounce' : 'delay',
      // What a notice says about another address does not hold for this one, and must not keep a later notice from counting.
      classification: found.certain ? classification : 'other',
      enhancedCode,
      diagnostic: found.certain
        ? diagnostic
        : cleanRemoteText(
            `for ${notice.address ?? notice.aliases.join(' or ')}: ${diagnostic ?? 'no reason was given'}`,
          ),
      suppress: saysNobodyThere(classification) && permanent && found.certain ? 'bounce' : null,
    },
  ];
}

/**
 * Which recipient of the return path a notice is about. If the path has several, the notice must name one of them. If it has
 * one, that is the recipient; but if the notice names another address, the mail was forwarded, and the failure is not
 * certainly the recipient's. This holds even if the notice also names the original recipient, as lists and aliases do (RFC
 * 3464 section 2.3.1).
 */
function whoIs(
  { address, aliases }: ReturnedRecipient,
  meant: Recipients,
): { address: string; certain: boolean } | null {
  const names = [...(address === null ? [] : [address]), ...aliases].map(asOurs);
  const named = meant.find((one) => names.includes(comparable(one.address)));
  if (named) return { address: named.address, certain: address !== null && sameMailbox(address, named.address) };
  const [only, ...others] = meant;
  if (!only || others.length > 0) return null;
  return {
    address: only.address,
    certain: names.length === 0 || names.some((name) => sameMailbox(name, only.address)),
  };
}

/** An address of a report in the form for comparing it with a recipient's. */
const asOurs = (address: string) => comparable(withALabels(address));

/** The same local part up to a `+`: servers on the way rename the domain and drop the detail. */
function sameMailbox(one: string, other: string): boolean {
  const local = (address: string) => comparable(address).split('@', 1)[0]?.split('+', 1)[0];
  return local(one) === local(other);
}

function namedBy({ recipient }: Pick<ReturnPath, 'recipient'>, all: Recipients): Recipients {
  if (recipient === null) return all;
  const named = all.filter(({ position }) => position === recipient.position);
  return recipient.alone ? named : all.filter(({ destination }) => destination === named[0]?.destination);
}

/** The part of a complaint that names an email of ours: only we can have made it. */
export type Evidence = { by: 'unsubscribe'; named: NamedRecipient } | { by: 'return path'; path: ReturnPath };

/** The id of the email that it names. */
export const emailOf = (evidence: Evidence): string =>
  evidence.by === 'unsubscribe' ? evidence.named.emailId : evidence.path.emailId;

/**
 * Records that a recipient reported an email as spam, or asked its provider for no more of it. The address goes onto the
 * suppression list if it is certain: the evidence names only this one, or the report names one of those in the evidence.
 *
 * @param addresses whom the report names, if anybody
 * @returns what was new
 */
export function complained(
  db: Database,
  queue: Queue,
  evidence: Evidence,
  report: { kind: 'complaint' | 'unsubscribe'; type: string; addresses: string[] },
): Promise<Returned[]> {
  return recordFor(db, queue, { emailId: emailOf(evidence), withinDays }, (email) => {
    const readers = readersOf(evidence, email.recipients);
    const named = report.addresses.map(asOurs);
    const found =
      readers.length === 1 ? readers[0] : readers.find(({ address }) => named.includes(comparable(address)));
    const reason = report.kind;
    return found
      ? [
          {
            address: found.address,
            kind: reason,
            classification: null,
            enhancedCode: null,
            diagnostic: `reported as ${report.type}`,
            suppress: reason,
          },
        ]
      : [];
  });
}

function readersOf(evidence: Evidence, all: Recipients): Recipients {
  if (evidence.by === 'unsubscribe') return all.filter(({ position }) => position === evidence.named.position);
  return namedBy(evidence.path, all);
}
