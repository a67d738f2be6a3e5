import { lagMs, recordMs } from './audit-mail.ts';
import type { Finding } from './auditor.ts';
import type { Facts } from './facts.ts';
import type { Entry } from './ledger.ts';

const terminal = ['email.delivered', 'email.failed', 'email.suppressed'];

/** A6, and the parts of A4 and A5 about webhooks and bounces. */
export function auditCalls(entries: Entry[], facts: Facts): { findings: Finding[]; calledAgain: number } {
  const findings: Finding[] = [];
  const add = (rule: Finding['rule'], what: string) => findings.push({ rule, what });
  const calls = Map.groupBy(
    entries.filter((entry) => entry.is === 'called'),
    ({ id }) => id,
  );
  const toldAt = Map.groupBy(
    entries.filter((entry) => entry.is === 'told'),
    ({ id }) => id,
  );
  const blows = entries.filter((entry) => entry.is === 'blow');
  const known = new Map(facts.calls.map((call) => [call.id, call]));

  for (const [id, [first]] of calls) {
    if (!known.has(id)) add('A4', `a call came that is not in the log: ${id} (${first?.event})`);
  }
  for (const { id, event, status } of facts.calls) {
    if (status !== 'pending' && status !== 'succeeded') add('A6', `the call ${id} (${event}) is ${status}`);
    if (status === 'succeeded' && !calls.has(id)) add('A6', `the call ${id} (${event}) was never made`);
  }
  const events = Map.groupBy(facts.calls, ({ emailId }) => emailId);
  for (const { id, tag } of facts.emails) {
    const of = (events.get(id) ?? []).map(({ event }) => event);
    const queued = of.filter((event) => event === 'email.queued').length;
    const ended = of.filter((event) => terminal.includes(event)).length;
    if (queued !== 1) add('A6', `${tag} has ${queued} events for being queued`);
    if (ended !== 1) add('A6', `${tag} has ${ended} terminal events`);
  }
  auditReturns(entries, facts, add);

  let calledAgain = 0;
  for (const [id, made] of calls) {
    const used = new Set<Entry>();
    const answers = toldAt.get(id) ?? [];
    for (const [index, call] of made.entries()) {
      const before = made[index - 1];
      if (!before) continue;
      if (call.sha256 !== before.sha256) add('A3', `the call ${id} was made again with another body`);
      const answered = answers.find(({ at }) => at >= before.at)?.at ?? Number.POSITIVE_INFINITY;
      const blow = blows.find(
        (one) => !used.has(one) && one.at >= before.at - lagMs && one.at <= call.at && one.at <= answered + recordMs,
      );
      if (blow) used.add(blow);
      else add('A2', `the call ${id} (${call.event}) was made again without a reason`);
      calledAgain += 1;
    }
  }
  return { findings, calledAgain };
}

/** A bounce that had its 250 is recorded once, and reported once, however often it was sent. */
function auditReturns(entries: Entry[], facts: Facts, add: (rule: Finding['rule'], what: string) => void): void {
  const taken = new Set(
    entries.filter((entry) => entry.is === 'returned').map(({ emailId, address }) => `${emailId} ${address}`),
  );
  for (const who of taken) {
    const [emailId = ''] = who.split(' ');
    const rows = facts.returns.filter((row) => `${row.emailId} ${row.address}` === who && row.kind === 'bounce').length;
    if (rows !== 1) add('A1', `a bounce for ${who} had a 250, but is stored ${rows} times`);
    const told = facts.calls.filter((call) => call.emailId === emailId && call.event === 'email.bounced').length;
    if (told !== 1) add('A6', `the bounce for ${who} has ${told} events`);
  }
  for (const { emailId, address } of facts.returns) {
    if (!taken.has(`${emailId} ${address}`)) add('A4', `a bounce for ${address} was never sent`);
  }
}
