import t from 'tap';
import { classify } from '../../src/smtp/classify.ts';
import type { Classification, Phase } from '../../src/smtp/deliver.ts';

const replyOf = (line: string) => {
  const [, code, enhanced = null, text = ''] = /^(\d+)(?: (\d\.\d+\.\d+))?(?: (.*))?$/.exec(line) ?? [];
  return { code: Number(code), enhanced, text };
};

const table: [phase: Phase, line: string, expected: Classification][] = [
  ['rcpt', '550 5.1.1 The email account that you tried to reach does not exist', 'bad_mailbox'],
  ['rcpt', '550 5.1.10 RESOLVER.ADR.RecipientNotFound', 'bad_domain'],
  ['rcpt', '550 5.2.1 disabled', 'bad_mailbox'],
  ['dot', '550 5.1.1 user unknown', 'bad_mailbox'],
  ['rcpt', '550 no such user here', 'bad_mailbox'],
  ['rcpt', '550 Requested action not taken: mailbox unavailable', 'bad_mailbox'],
  ['rcpt', '553 unknown recipient', 'bad_mailbox'],
  ['rcpt', '550 5.1.1 blocked using zen.spamhaus.org', 'policy'],
  ['rcpt', '550 blocked, see https://www.spamhaus.org: user unknown', 'policy'],
  ['rcpt', '550 no', 'other'],
  ['rcpt', '550', 'other'],
  ['rcpt', '550 5.7.1 Unfortunately, messages from [192.0.2.1] were not sent (S3150)', 'policy'],
  ['rcpt', '554 5.7.1 Service unavailable; client host blocked', 'policy'],
  ['rcpt', '450 4.2.0 Greylisted', 'policy'],
  ['rcpt', '451 4.7.1 greylisted, please try again', 'policy'],
  ['rcpt', '452 4.2.2 over quota', 'mailbox_full'],
  ['rcpt', '552 mailbox is full', 'mailbox_full'],
  ['rcpt', '552 5.2.2', 'mailbox_full'],
  ['rcpt', '452 4.5.3 too many recipients', 'rate'],
  ['rcpt', '450 too many connections from your host', 'rate'],
  ['mail', '421 4.7.28 unusual rate of mail', 'rate'],
  ['mail', '421 4.7.0 too many messages, try again later', 'rate'],
  ['greeting', '421 too many connections', 'rate'],
  ['greeting', '421 service not available', 'network'],
  ['greeting', '554 no service for you', 'policy'],
  ['rcpt', '550 5.1.2 bad domain', 'bad_domain'],
  ['mail', '550 5.1.8 bad sender', 'sender'],
  ['mail', '550 5.1.1 unknown', 'sender'],
  ['mail', '550 no such user', 'sender'],
  ['mail', '552 5.3.4 too big', 'content'],
  ['mail', '552 too big', 'content'],
  ['dot', '552 too big', 'content'],
  ['dot', '554 5.6.0 malformed', 'content'],
  ['dot', '554 message refused', 'content'],
  ['dot', '550 5.7.26 unauthenticated mail is not accepted', 'authentication'],
  ['dot', '550 5.7.1 does not pass DMARC', 'authentication'],
  ['dot', '550 5.7.25 no PTR', 'authentication'],
  ['dot', '554 5.7.9 policy', 'policy'],
  ['dot', '550 spam message rejected', 'policy'],
  ['mail', '503 bad sequence', 'protocol'],
  ['rcpt', '501 syntax', 'protocol'],
  ['data', '554 5.5.1 no valid recipients', 'protocol'],
  ['dot', '451 4.4.2 time-out', 'network'],
  ['dot', '451 local error', 'other'],
  ['rcpt', '451 local error', 'other'],
  ['rcpt', '421 closing', 'network'],
];

t.test('a refusal is about something', async (t) => {
  for (const [phase, line, expected] of table) t.equal(classify(phase, replyOf(line)), expected, `${phase}: ${line}`);
});

t.test('only a reply about the recipient says that the mailbox is bad', async (t) => {
  for (const phase of ['greeting', 'ehlo', 'starttls', 'mail'] as const) {
    for (const line of ['550 5.1.1 no such user', '550 no such user', '553 unknown user'])
      t.not(classify(phase, replyOf(line)), 'bad_mailbox');
  }
});

t.test('a long text is judged in a moment', async (t) => {
  const started = performance.now();
  for (const word of ['exceed ', 'mailbox ', 'no such ', 'user ', 'a'.repeat(7)]) {
    classify('rcpt', { code: 550, enhanced: null, text: word.repeat(2_000).slice(0, 2_000) });
  }
  t.ok(performance.now() - started < 100);
});
