import { auditCalls } from './audit-calls.ts';
import { auditMail } from './audit-mail.ts';
import type { Facts } from './facts.ts';
import type { Entry } from './ledger.ts';

/** A violation: the broken rule, and what was seen. */
export interface Finding {
  rule: keyof typeof rules;
  what: string;
}

/** What must hold after any run, whatever happened in it. */
export const rules = {
  A1: 'nothing that had a 200 is lost',
  A2: 'a second copy needs a blow between the final dot and the record of it: at most one copy per blow',
  A3: 'all copies of a message are the same bytes',
  A4: 'nothing arrives or is stored that nobody asked for, and nothing requested once is stored twice',
  A5: 'statuses and attempts in the database agree with what arrived',
  A6: 'each email has one queued and one terminal event, and its endpoint got each',
  A7: 'no job, claim or open recipient is left behind',
  A8: 'the quota used, and the counts of the log, match what was accepted',
  A9: 'lines end only in CR LF, none is longer than 998 octets, each DKIM signature is valid',
  A10: 'each request ends in time, and each node obeys signals',
} as const;

/** Totals. */
export interface Totals {
  /** Emails with a 200. */
  accepted: number;
  /** Messages that arrived and were accepted, once for each recipient. */
  copies: number;
  blows: number;
  /** Second copies after a blow between dot and reply (S9), and between reply and record (S10). */
  unanswered: number;
  unrecorded: number;
  /** The age of the oldest of those replies at the blow, in ms: in transit, or read but not recorded. */
  unrecordedMs: number;
  /** Webhook calls that were repeated after a blow (S13). */
  calledAgain: number;
  /** The longest time from a 200 to the message's arrival, in ms, of recipients that nothing delayed on purpose. */
  slowestMs: number;
}

/** Compares requests and answers with what arrived and what the database says. */
export function audit(entries: Entry[], facts: Facts): { findings: Finding[]; totals: Totals } {
  const mail = auditMail(entries, facts);
  const calls = auditCalls(entries, facts);
  return {
    findings: [...mail.findings, ...calls.findings, ...leftBehind(facts), ...quota(facts)],
    totals: { ...mail.totals, calledAgain: calls.calledAgain },
  };
}

function leftBehind(facts: Facts): Finding[] {
  const open = facts.recipients.filter(({ settled }) => !settled);
  const calls = facts.calls.filter(({ status }) => status === 'pending');
  return [
    ...open.map(({ emailId, address, says }) => ({
      rule: 'A7' as const,
      what: `${address} of ${emailId} is still open: ${says}`,
    })),
    ...calls.map(({ id, event }) => ({ rule: 'A7' as const, what: `the call ${id} (${event}) is still open` })),
    ...(facts.jobs > 0 ? [{ rule: 'A7' as const, what: `${facts.jobs} jobs are left` }] : []),
  ];
}

function quota({ charged, counted, emails }: Facts): Finding[] {
  const wrong = (name: string, n: number): Finding[] =>
    n === emails.length ? [] : [{ rule: 'A8', what: `${name}: ${n}, but ${emails.length} emails were accepted` }];
  return [...wrong('the quota', charged), ...wrong("the log's count", counted)];
}
