import { auditCalls } from './audit-calls.ts';
import { auditMail } from './audit-mail.ts';
import type { Facts } from './facts.ts';
import type { Entry } from './ledger.ts';

/** One thing that must not be: the rule that it breaks, and what was seen. */
export interface Finding {
  rule: keyof typeof rules;
  what: string;
}

/** What must hold after any run, whatever happened in it. */
export const rules = {
  A1: 'nothing that had a 200 is lost',
  A2: 'a second copy needs a blow between the final dot and the record of it: one for each blow at the most',
  A3: 'all copies of a message are the same bytes',
  A4: 'nothing arrives, and nothing is stored, that was not asked for, and nothing asked for once is stored twice',
  A5: 'statuses and attempts in the database agree with what arrived',
  A6: 'each email has one queued and one terminal event, and its endpoint was told of each',
  A7: 'no job, claim or open recipient is left behind',
  A8: 'quota used, and the numbers of the log, are what was accepted',
  A9: 'CR LF alone ends lines, none is longer than 998 octets, each DKIM signature is good',
  A10: 'each request ends in time, and each node does what a signal asks for',
} as const;

/** How many of what there was. */
export interface Totals {
  /** Emails with a 200. */
  accepted: number;
  /** Messages that arrived and were taken, once for each recipient. */
  copies: number;
  blows: number;
  /** Second copies after a blow between dot and reply (S9), and between reply and record (S10). */
  unanswered: number;
  unrecorded: number;
  /** How long before the blow the oldest of those replies was written, in ms: on its way, or read and not noted. */
  unrecordedMs: number;
  /** Webhook calls that were made again after a blow (S13). */
  calledAgain: number;
  /** The longest from a 200 to the message there, in ms, of recipients that nothing made wait on purpose. */
  slowestMs: number;
}

/** Holds what was asked and answered against what arrived and what the database says. */
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
