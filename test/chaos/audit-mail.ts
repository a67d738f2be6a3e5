import type { Finding, Totals } from './auditor.ts';
import type { Facts } from './facts.ts';
import type { Entry } from './ledger.ts';

type Of<Is extends Entry['is']> = Extract<Entry, { is: Is }>;

/** A kill this long after an answer was written explains a missing record of it. */
export const recordMs = 1_000;

/** The harness, which has other things to do, may read this much later what a node sent before its end. */
export const lagMs = 500;

/** One message that was accepted, or may count as accepted. */
interface Copy {
  at: number;
  repliedAt: number;
  arrived: Of<'arrived'>;
}

/** The behaviour of the receiving server that the harness's addresses ask for: see `mx.ts`. */
export const isRefused = (address: string) => address.startsWith('no-');

/** A1 to A5 and A9: emails, their recipients and what arrived of them. */
export function auditMail(
  entries: Entry[],
  facts: Facts,
): { findings: Finding[]; totals: Omit<Totals, 'calledAgain'> } {
  const findings: Finding[] = [];
  const add = (rule: Finding['rule'], what: string) => findings.push({ rule, what });
  const of = <Is extends Entry['is']>(is: Is) => entries.filter((entry): entry is Of<Is> => entry.is === is);

  const asked = new Map(of('asked').flatMap(({ mails }) => mails.map((mail) => [mail.tag, mail] as const)));
  const accepted = new Map<string, { id: string; at: number }>();
  for (const { at, status, ids } of of('answered')) {
    if (status !== 200) continue;
    for (const [tag, id] of Object.entries(ids)) {
      const before = accepted.get(tag);
      if (before && before.id !== id) add('A4', `${tag} was answered with ${before.id}, and again with ${id}`);
      if (!before) accepted.set(tag, { id, at });
    }
  }

  const repliedAt = new Map(of('replied').map(({ copy, at }) => [copy, at]));
  const copies = new Map<string, Copy[]>();
  for (const arrived of of('arrived')) {
    const { tag, messageId, to, wire } = arrived;
    const mail = asked.get(tag);
    if (!mail) add('A4', `a message that nobody asked for arrived: ${tag}, ${messageId}`);
    if (wire) add('A9', `${tag}: ${wire}`);
    for (const address of to) {
      if (mail && !mail.to.includes(address)) add('A4', `${tag} arrived for ${address}, who was not a recipient`);
      if (arrived.refused) continue;
      const copy = { at: arrived.at, repliedAt: repliedAt.get(arrived.copy) ?? Number.POSITIVE_INFINITY, arrived };
      const key = `${tag} ${address}`;
      copies.set(key, [...(copies.get(key) ?? []), copy]);
    }
  }

  const stored = Map.groupBy(facts.emails, ({ tag }) => tag);
  for (const [tag, rows] of stored) {
    if (!asked.has(tag)) add('A4', `${tag} is stored, and nobody asked for it`);
    if (rows.length > 1) add('A4', `${tag} is stored ${rows.length} times: ${rows.map(({ id }) => id).join(', ')}`);
  }
  for (const [tag, { id }] of accepted) {
    if (!stored.get(tag)?.some((row) => row.id === id)) add('A1', `${tag} had a 200 as ${id}, but is not stored`);
  }

  let slowestMs = 0;
  const recipients = Map.groupBy(facts.recipients, ({ emailId }) => emailId);
  const dots = Map.groupBy(facts.dots, ({ emailId, recipient }) => `${emailId} ${recipient}`);
  for (const { id, tag, status } of facts.emails) {
    const addresses = asked.get(tag)?.to ?? [];
    const rows = recipients.get(id) ?? [];
    if (rows.length !== addresses.length) add('A1', `${tag} has ${rows.length} of ${addresses.length} recipients`);
    const ending = addresses.some(isRefused) ? 'failed' : 'sent';
    if (status !== ending) add('A5', `${tag} is ${status}, and should be ${ending}`);
    for (const row of rows) {
      const taken = copies.get(`${tag} ${row.address}`) ?? [];
      const wanted = isRefused(row.address) ? 'failed' : 'delivered';
      if (wanted === 'delivered' && taken.length === 0) {
        add(accepted.has(tag) ? 'A1' : 'A5', `${tag} never arrived for ${row.address}, which is ${row.status}`);
      }
      if (row.status !== wanted) add('A5', `${row.address} of ${tag} is ${row.status}, and should be ${wanted}`);
      const known = dots.get(`${id} ${row.address}`) ?? [];
      if (known.length < taken.length) {
        add('A5', `${tag} arrived ${taken.length} times for ${row.address}, and ${known.length} attempts know of it`);
      }
      const delivered = known.filter(({ outcome }) => outcome === 'delivered').length;
      const most = wanted === 'delivered' ? Math.max(1, taken.length) : 0;
      if (delivered > most) add('A5', `${row.address} of ${tag} has ${delivered} attempts that delivered`);
      const since = accepted.get(tag)?.at;
      if (since !== undefined && taken[0] && !row.address.startsWith('later-')) {
        slowestMs = Math.max(slowestMs, taken[0].at - since);
      }
    }
  }

  const { unanswered, unrecorded, unrecordedMs } = explain(copies, of('blow'), add);
  return {
    findings,
    totals: {
      accepted: accepted.size,
      copies: [...copies.values()].reduce((sum, list) => sum + list.length, 0),
      blows: of('blow').length,
      unanswered,
      unrecorded,
      unrecordedMs: Math.round(unrecordedMs),
      slowestMs: Math.round(slowestMs),
    },
  };
}

/** A2 and A3: finds the blow behind each second copy; one blow explains one copy for each recipient. */
function explain(
  copies: Map<string, Copy[]>,
  blows: Of<'blow'>[],
  add: (rule: Finding['rule'], what: string) => void,
): { unanswered: number; unrecorded: number; unrecordedMs: number } {
  let unanswered = 0;
  let unrecorded = 0;
  let unrecordedMs = 0;
  for (const [who, list] of copies) {
    const used = new Set<Of<'blow'>>();
    for (const [index, copy] of list.entries()) {
      const before = list[index - 1];
      if (!before) continue;
      if (copy.arrived.sha256 !== before.arrived.sha256) add('A3', `${who} got copies that differ`);
      if (copy.arrived.messageId !== before.arrived.messageId)
        add('A3', `${who} got copies with different Message-IDs`);
      const between = blows.filter((blow) => !used.has(blow) && blow.at >= before.at - lagMs && blow.at <= copy.at);
      const inTheAir = between.find((blow) => blow.at <= before.repliedAt);
      const notRecorded = between.find((blow) => blow.at > before.repliedAt && blow.at <= before.repliedAt + recordMs);
      const blow = inTheAir ?? notRecorded;
      if (!blow) {
        add('A2', `${who} got copy ${index + 1} without a reason`);
        continue;
      }
      used.add(blow);
      if (inTheAir) unanswered += 1;
      else {
        unrecorded += 1;
        unrecordedMs = Math.max(unrecordedMs, blow.at - before.repliedAt);
      }
    }
  }
  return { unanswered, unrecorded, unrecordedMs };
}
