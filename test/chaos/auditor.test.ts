import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { audit, type Finding } from './auditor.ts';
import type { Facts } from './facts.ts';
import { type Entry, Ledger } from './ledger.ts';

type Entries = Entry[];

type Good = ReturnType<typeof goodRun>;

/** A run in which all went well: one email to two people, of whom one is refused by the server, and one to a third. */
function goodRun(): { entries: Entries; facts: Facts } {
  const arrived = { is: 'arrived', refused: false, wire: null, sha256: 'aa' } as const;
  const entries: Entries = [
    { at: 0, is: 'asked', key: 'k1', mails: [{ tag: 'k1', to: ['ok-1@a.test', 'no-1@a.test'] }] },
    { at: 10, is: 'answered', key: 'k1', status: 200, ids: { k1: 'e1' }, tookMs: 10, while: null },
    { at: 11, is: 'asked', key: 'k2', mails: [{ tag: 'k2', to: ['ok-2@b.test'] }] },
    { at: 20, is: 'answered', key: 'k2', status: 200, ids: { k2: 'e2' }, tookMs: 9, while: null },
    { at: 100, ...arrived, copy: 1, tag: 'k1', messageId: '<e1@x>', to: ['ok-1@a.test'] },
    { at: 110, is: 'replied', copy: 1 },
    { at: 120, ...arrived, copy: 2, tag: 'k2', messageId: '<e2@x>', to: ['ok-2@b.test'], sha256: 'bb' },
    { at: 130, is: 'replied', copy: 2 },
    { at: 140, is: 'called', id: 'w1', event: 'email.queued', emailId: 'e1', sha256: 'c1' },
    { at: 141, is: 'told', id: 'w1' },
    { at: 150, is: 'called', id: 'w2', event: 'email.failed', emailId: 'e1', sha256: 'c2' },
    { at: 151, is: 'told', id: 'w2' },
    { at: 160, is: 'called', id: 'w3', event: 'email.queued', emailId: 'e2', sha256: 'c3' },
    { at: 161, is: 'told', id: 'w3' },
    { at: 170, is: 'called', id: 'w4', event: 'email.delivered', emailId: 'e2', sha256: 'c4' },
    { at: 171, is: 'told', id: 'w4' },
    { at: 9_000, is: 'returned', emailId: 'e2', address: 'ok-2@b.test' },
    { at: 9_010, is: 'called', id: 'w5', event: 'email.bounced', emailId: 'e2', sha256: 'c5' },
    { at: 9_011, is: 'told', id: 'w5' },
  ];
  const recipient = { settled: true, says: null };
  const call = { status: 'succeeded' };
  const facts: Facts = {
    emails: [
      { id: 'e1', tag: 'k1', status: 'failed', messageId: 'e1@x' },
      { id: 'e2', tag: 'k2', status: 'sent', messageId: 'e2@x' },
    ],
    recipients: [
      { ...recipient, emailId: 'e1', address: 'ok-1@a.test', status: 'delivered' },
      { ...recipient, emailId: 'e1', address: 'no-1@a.test', status: 'failed' },
      { ...recipient, emailId: 'e2', address: 'ok-2@b.test', status: 'delivered' },
    ],
    dots: [
      { emailId: 'e1', recipient: 'ok-1@a.test', outcome: 'delivered', uncertain: false },
      { emailId: 'e2', recipient: 'ok-2@b.test', outcome: 'delivered', uncertain: false },
    ],
    calls: [
      { ...call, id: 'w1', emailId: 'e1', event: 'email.queued' },
      { ...call, id: 'w2', emailId: 'e1', event: 'email.failed' },
      { ...call, id: 'w3', emailId: 'e2', event: 'email.queued' },
      { ...call, id: 'w4', emailId: 'e2', event: 'email.delivered' },
      { ...call, id: 'w5', emailId: 'e2', event: 'email.bounced' },
    ],
    returns: [{ emailId: 'e2', address: 'ok-2@b.test', kind: 'bounce' }],
    jobs: 0,
    charged: 2,
    counted: 2,
  };
  return { entries, facts };
}

/** The auditor's findings on the good run after this change. */
function rulesAfter(change: (run: Good) => void) {
  const run = goodRun();
  change(run);
  const { findings, totals } = audit(
    run.entries.toSorted((a, b) => a.at - b.at),
    run.facts,
  );
  return { rules: [...new Set(findings.map(({ rule }: Finding) => rule))].sort(), totals };
}

/** A second copy of the second email, recorded as an attempt. */
function copyAgain({ entries, facts }: Good, at: number, sha256 = 'bb'): void {
  const copy = { is: 'arrived' as const, copy: 3, tag: 'k2', messageId: '<e2@x>', to: ['ok-2@b.test'], refused: false };
  entries.push({ at, ...copy, sha256, wire: null }, { at: at + 5, is: 'replied', copy: 3 });
  facts.dots.push({ emailId: 'e2', recipient: 'ok-2@b.test', outcome: 'deferred', uncertain: true });
}

const without = <T>(list: T[], leave: (one: T) => boolean) =>
  list.splice(0, list.length, ...list.filter((x) => !leave(x)));
const each = <T>(list: T[], change: (one: T) => void) => {
  for (const one of list) change(one);
};
const kill = (at: number) => ({ at, is: 'blow', blow: 'kill', node: 'A', stage: 'S9' }) as const;

t.test('the auditor finds nothing wrong with a good run', async (t) => {
  const { rules, totals } = rulesAfter(() => undefined);
  t.strictSame(rules, []);
  t.match(totals, { accepted: 2, copies: 2, unanswered: 0, unrecorded: 0, calledAgain: 0, slowestMs: 100 });
});

t.test('the auditor finds a loss', async (t) => {
  const lostRow = rulesAfter(({ facts }) => {
    without(facts.emails, ({ id }) => id === 'e2');
    facts.charged = facts.counted = 1;
  });
  t.strictSame(lostRow.rules, ['A1'], 'had a 200, and is not stored');
  const lostCopy = rulesAfter(({ entries }) => without(entries, (one) => one.is === 'arrived' && one.tag === 'k2'));
  t.strictSame(lostCopy.rules, ['A1'], 'is called delivered, and never arrived');
  t.strictSame(rulesAfter(({ facts }) => without(facts.recipients, ({ emailId }) => emailId === 'e2')).rules, ['A1']);
  t.strictSame(
    rulesAfter(({ facts }) => without(facts.returns, () => true)).rules,
    ['A1'],
    'a bounce that was answered with 250',
  );
});

t.test('the auditor finds a second copy that no blow explains', async (t) => {
  t.strictSame(rulesAfter((run) => copyAgain(run, 5_000)).rules, ['A2']);
  const early = rulesAfter((run) => {
    copyAgain(run, 9_000);
    run.entries.push(kill(4_000));
  });
  t.strictSame(early.rules, ['A2'], 'the first was answered long before the kill');
  const twice = rulesAfter((run) => {
    without(run.entries, (one) => one.is === 'replied' && one.copy === 2);
    copyAgain(run, 5_000);
    run.entries.push(kill(200));
    run.entries.push({
      ...(run.entries.find((one) => one.is === 'arrived' && one.copy === 3) as Entries[0]),
      at: 6_000,
    });
    run.facts.dots.push({ emailId: 'e2', recipient: 'ok-2@b.test', outcome: 'deferred', uncertain: true });
  });
  t.strictSame(twice.rules, ['A2'], 'one kill does not explain two');
  const call = rulesAfter(({ entries }) => {
    entries.push({ at: 8_000, is: 'called', id: 'w4', event: 'email.delivered', emailId: 'e2', sha256: 'c4' });
  });
  t.strictSame(call.rules, ['A2'], 'nor a webhook call');
});

t.test(
  'a second copy after a blow between the dot and its record is counted, and must have the same bytes',
  async (t) => {
    const inTheAir = (sha256?: string) =>
      rulesAfter((run) => {
        without(run.entries, (one) => one.is === 'replied' && one.copy === 2);
        run.entries.push(kill(200));
        copyAgain(run, 5_000, sha256);
      });
    t.strictSame(inTheAir().rules, []);
    t.match(inTheAir().totals, { unanswered: 1, unrecorded: 0, copies: 3 });
    t.strictSame(inTheAir('other').rules, ['A3']);
    const answered = rulesAfter((run) => {
      run.entries.push(kill(200));
      copyAgain(run, 5_000);
    });
    t.strictSame(answered.rules, []);
    t.match(answered.totals, { unanswered: 0, unrecorded: 1 });
  },
);

t.test('the auditor finds what nobody asked for', async (t) => {
  const stranger = (to: string, tag: string) =>
    rulesAfter(({ entries }) => {
      const message = { messageId: '<e1@x>', sha256: 'aa', refused: false, wire: null };
      entries.push({ at: 300, is: 'arrived', copy: 9, tag, to: [to], ...message });
    }).rules;
  t.strictSame(stranger('ok-1@a.test', 'k9'), ['A4'], 'a message that nobody asked for');
  t.strictSame(stranger('ok-9@a.test', 'k1'), ['A4'], 'a recipient that nobody asked for');
  const stored = rulesAfter(({ facts }) => {
    facts.emails.push({ id: 'e3', tag: 'k2', status: 'sent', messageId: 'e3@x' });
    facts.charged = facts.counted = 3;
  });
  t.ok(stored.rules.includes('A4'), 'a key that was used once has created two emails');
  const other = rulesAfter(({ entries }) => {
    entries.push({ at: 30, is: 'answered', key: 'k2', status: 200, ids: { k2: 'e9' }, tookMs: 1, while: null });
  });
  t.ok(other.rules.includes('A4'), 'a key has two answers');
});

t.test('the auditor finds contradictions, leftovers, and violations on the wire', async (t) => {
  const finds = (rules: Finding['rule'][], change: Parameters<typeof rulesAfter>[0], what: string) =>
    t.strictSame(rulesAfter(change).rules, rules, what);
  const failed = ({ facts }: Good) => each(facts.recipients, (row) => Object.assign(row, { status: 'failed' }));
  finds(['A5'], failed, 'arrived, but recorded as failed');
  finds(['A5'], ({ facts }) => void facts.dots.splice(0), 'arrived, but no attempt is recorded');
  const sent = ({ facts }: Good) => each(facts.emails, (row) => Object.assign(row, { status: 'sent' }));
  finds(['A5'], sent, 'one recipient failed, but the email did not');
  finds(['A4', 'A6'], ({ facts }) => without(facts.calls, ({ id }) => id === 'w1'), 'a call without an event');
  const again = { id: 'w9', emailId: 'e1', event: 'email.failed', status: 'succeeded' };
  finds(['A6'], ({ facts }) => void facts.calls.push(again), 'two terminal events, one of which was never delivered');
  finds(['A7'], ({ facts }) => void Object.assign(facts, { jobs: 1 }), 'a job');
  finds(['A7'], ({ facts }) => each(facts.recipients, (row) => Object.assign(row, { settled: false })), 'a claim');
  finds(['A8'], ({ facts }) => void Object.assign(facts, { charged: 3 }), 'charged for one too many');
  finds(['A8'], ({ facts }) => void Object.assign(facts, { counted: 1 }), 'counted one too few');
  const bare = ({ entries }: Good) => each(entries, (one) => Object.assign(one, { wire: 'a bare CR or LF' }));
  finds(['A9'], bare, 'a line end');
});

t.test('an entry is in the file before the call that writes it returns', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sendwright-ledger-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const ledger = new Ledger(join(folder, 'ledger.jsonl'));
  ledger.write({ is: 'replied', copy: 7 });
  const line = JSON.parse(readFileSync(ledger.path, 'utf8'));
  t.match(line, { is: 'replied', copy: 7 });
  t.ok(Math.abs(line.at - Date.now()) < 60_000);
  ledger.close();
});
