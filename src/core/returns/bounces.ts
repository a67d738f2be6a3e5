import type { Database } from '../../db/client.ts';
import { comparable } from '../../mail/address.ts';
import type { ReturnedRecipient } from '../../mail/delivery-status.ts';
import type { NamedRecipient, ReturnPath } from '../../mail/token.ts';
import type { Queue } from '../../queue.ts';
import { saysNobodyThere } from '../../smtp/deliver.ts';
import { cleanRemoteText } from '../../smtp/reply.ts';
import { judge } from './return-class.ts';
import { type Returned, type ReturnedEmail, recordFor } from './returns.ts';

/** A notice about an older email changes nothing: servers give up within days, providers report within weeks. */
const withinDays = 90;

type Recipients = ReturnedEmail['recipients'];

/**
 * Writes down a bounce or a delay for those recipients whom both the return path and the notice name. Who is said not to
 * exist goes onto the suppression list.
 *
 * @returns what was new
 */
export function bounced(
  db: Database,
  queue: Queue,
  path: ReturnPath,
  notice: ReturnedRecipient[],
): Promise<Returned[]> {
  return recordFor(db, queue, path.emailId, withinDays, (email) => {
    const meant = namedBy(path, email.recipients);
    return notice.flatMap((one) => bounceOf(one, meant));
  });
}

function bounceOf(notice: ReturnedRecipient, meant: Recipients): Returned[] {
  if (notice.action !== 'failed' && notice.action !== 'delayed') return [];
  const found = whoIs(notice, meant);
  if (!found) return [];
  const { classification, enhancedCode, diagnostic, permanent } = judge(notice);
  return [
    {
      address: found.address,
      kind: notice.action === 'failed' ? 'bounce' : 'delay',
      // What is said of somebody else says nothing of this one, and nothing that a later notice could not.
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
 * Whom of those that the return path speaks for a notice is about. Of several it has to be one by name. A return path of one
 * recipient names it, but where the notice names somebody else the mail was passed on: that one's end is not the recipient's,
 * even where the notice says as well to whom the mail was written, as lists and aliases do (RFC 3464 section 2.3.1).
 */
function whoIs(
  { address, aliases }: ReturnedRecipient,
  meant: Recipients,
): { address: string; certain: boolean } | null {
  const names = [...(address === null ? [] : [address]), ...aliases].map(comparable);
  const named = meant.find((one) => names.includes(comparable(one.address)));
  if (named) return { address: named.address, certain: address !== null && sameMailbox(address, named.address) };
  const [only, ...others] = meant;
  if (!only || others.length > 0) return null;
  return {
    address: only.address,
    certain: names.length === 0 || names.some((name) => sameMailbox(name, only.address)),
  };
}

/** The same local part, whatever stands behind a `+`: servers rename the domain on the way, and leave the detail out. */
function sameMailbox(one: string, other: string): boolean {
  const local = (address: string) => comparable(address).split('@', 1)[0]?.split('+', 1)[0];
  return local(one) === local(other);
}

function namedBy({ recipient }: Pick<ReturnPath, 'recipient'>, all: Recipients): Recipients {
  if (recipient === null) return all;
  const named = all.filter(({ position }) => position === recipient.position);
  return recipient.alone ? named : all.filter(({ destination }) => destination === named[0]?.destination);
}

/** What of a complaint names an email of ours: only we can have made it. */
export type Evidence = { by: 'unsubscribe'; named: NamedRecipient } | { by: 'return path'; path: ReturnPath };

/** The email that it names. */
export const emailOf = (evidence: Evidence): string =>
  evidence.by === 'unsubscribe' ? evidence.named.emailId : evidence.path.emailId;

/**
 * Writes down that a recipient called an email spam, or asked its provider for no more of it. The address goes onto the suppression
 * list where it is certain whose it is: named by the evidence alone, or by the report among those whom the evidence names.
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
  return recordFor(db, queue, emailOf(evidence), withinDays, (email) => {
    const readers = readersOf(evidence, email.recipients);
    const named = report.addresses.map(comparable);
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
