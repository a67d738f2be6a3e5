import t from 'tap';
import type { Classification, Phase } from '../../src/smtp/deliver.ts';
import { classify, saysEnough, slowDown } from '../../src/smtp/rules/classify.ts';
import { rules } from '../../src/smtp/rules/rules.ts';
import { replyOf, sampleReply } from './said.ts';

const table: [phase: Phase, line: string, expected: Classification][] = [
  ['rcpt', '550 5.1.1 The email account that you tried to reach does not exist', 'bad_mailbox'],
  ['rcpt', '550 5.1.10 RESOLVER.ADR.RecipientNotFound', 'bad_mailbox'],
  ['rcpt', '550 5.2.1 disabled', 'bad_mailbox'],
  ['dot', '550 5.1.1 user unknown', 'bad_mailbox'],
  ['rcpt', '550 no such user here', 'bad_mailbox'],
  ['rcpt', '550 Requested action not taken: mailbox unavailable', 'bad_mailbox'],
  ['rcpt', '553 unknown recipient', 'bad_mailbox'],
  ['rcpt', '550 5.4.1 Recipient address rejected: Access denied', 'bad_mailbox'],
  ['rcpt', '554 5.7.1 Recipient address rejected: Access denied', 'policy'],
  ['rcpt', '550 5.1.1 Recipient address rejected: Access denied', 'policy'],
  ['rcpt', '554 5.7.1 user unknown', 'bad_mailbox'],
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
  ['greeting', '550 5.1.1 no such user', 'policy'],
  ['ehlo', '502 what?', 'protocol'],
  ['rcpt', '550 5.1.2 bad domain', 'bad_domain'],
  ['mail', '550 5.1.8 bad sender', 'sender'],
  ['mail', '550 5.1.1 unknown', 'sender'],
  ['mail', '550 no such user', 'sender'],
  ['rcpt', '550 Verification failed for <bounces@example.org> No such user here. Sender verify failed', 'sender'],
  ['rcpt', '550 5.1.1 <bounces@example.org>: Sender address rejected: User unknown in virtual alias table', 'sender'],
  ['rcpt', '550 5.7.27 the sender is not SPF authenticated', 'authentication'],
  ['rcpt', '552 5.2.2 mailbox size limit exceeded', 'mailbox_full'],
  ['rcpt', '552 Mailbox size limit reached', 'mailbox_full'],
  ['rcpt', '552 5.0.0 Mailbox size limit reached', 'mailbox_full'],
  ['rcpt', '552 5.5.0 Mailbox size limit reached', 'mailbox_full'],
  ['rcpt', '550 5.0.0 Requested action not taken: mailbox unavailable', 'bad_mailbox'],
  ['rcpt', '552 5.2.3 message size limit exceeded', 'content'],
  ['rcpt', '452 insufficient system storage', 'network'],
  ['rcpt', '550 5.7.1 Relay access denied', 'network'],
  ['rcpt', '550 No such user, or your IP is listed at bl.example.net', 'policy'],
  ['rcpt', '550 5.1.1 account is temporarily disabled', 'other'],
  // After any failure of any mail to the address, such as for want of room: the domain takes mail.
  ['rcpt', '556 Address unavailable.', 'other'],
  ['mail', '417 DNS lookup failure: example.org.  Try again later.', 'sender'],
  ['rcpt', '412 You are not whitelisted by this recipient, please try again later.', 'policy'],
  ['mail', '417 DNS lookup on HELO mail.example.org failed.  Try again later.', 'authentication'],
  ['rcpt', '456 Address temporarily unavailable.', 'other'],
  ['rcpt', '556 Domain does not accept mail', 'bad_domain'],
  ['mail', '552 5.3.4 too big', 'content'],
  ['mail', '552 too big', 'content'],
  ['dot', '552 too big', 'content'],
  ['dot', '554 5.6.0 malformed', 'content'],
  ['dot', '554 no', 'content'],
  ['dot', '550 5.7.26 unauthenticated mail is not accepted', 'authentication'],
  ['dot', '550 5.7.1 does not pass DMARC', 'authentication'],
  ['dot', '550 5.7.25 no PTR', 'authentication'],
  ['dot', '554 5.7.9 policy', 'policy'],
  ['dot', '554 message refused', 'policy'],
  ['dot', '550 spam message rejected', 'content'],
  ['mail', '503 bad sequence', 'protocol'],
  ['rcpt', '501 syntax', 'protocol'],
  ['data', '554 5.5.1 no valid recipients', 'protocol'],
  ['dot', '451 4.4.2 time-out', 'network'],
  ['dot', '451 local error', 'network'],
  ['rcpt', '451 local error', 'network'],
  ['rcpt', '450 hm', 'other'],
  ['rcpt', '421 closing', 'network'],
];

t.test('each refusal is assigned to what it is about', async (t) => {
  for (const [phase, line, expected] of table) t.equal(classify(phase, replyOf(line)), expected, `${phase}: ${line}`);
});

t.test('only a reply about the recipient can say that the mailbox does not exist', async (t) => {
  const replies = rules.filter((rule) => rule.is.startsWith('bad_')).flatMap((rule) => rule.samples.map(sampleReply));
  for (const phase of ['connect', 'greeting', 'ehlo', 'starttls', 'mail'] as const) {
    for (const reply of replies) t.notMatch(classify(phase, reply), /^bad_/, `${phase}: ${reply.text}`);
  }
});

t.test('one answer to a message for several recipients does not say that any of them does not exist', async (t) => {
  for (const line of ['550 5.1.1 user unknown', '550 no such user', '550 5.1.2 unknown domain']) {
    for (const phase of ['data', 'dot'] as const) {
      t.match(classify(phase, replyOf(line), 1), /^bad_/, `${phase}: ${line}`);
      t.equal(classify(phase, replyOf(line), 2), 'other', `${phase}: ${line}`);
    }
    t.match(classify('rcpt', replyOf(line), 2), /^bad_/, 'each RCPT has its own answer');
  }
  t.equal(classify('dot', replyOf('550 5.7.1 blocked'), 2), 'policy');
});

const unread = ['존재하지', 'ไม่มีผู้ใช้', 'Διεύθυνση', '', '\u00d3\u00c3\u00bb\u00a7\u00b2\u00bb'];

t.test('if the text is in an unknown language, the codes alone decide', async (t) => {
  const cases: [Phase, string, Classification][] = [
    ['rcpt', '550 5.1.1', 'bad_mailbox'],
    ['rcpt', '550 5.1.2', 'bad_domain'],
    ['rcpt', '552 5.2.2', 'mailbox_full'],
    ['rcpt', '550', 'other'],
    ['rcpt', '550 5.0.0', 'other'],
    ['rcpt', '553', 'other'],
    ['rcpt', '554 5.7.1', 'policy'],
    ['rcpt', '451', 'network'],
    ['mail', '550', 'sender'],
    ['mail', '451 4.3.0', 'network'],
    ['dot', '554', 'content'],
    ['dot', '550', 'other'],
    ['dot', '451', 'network'],
    ['greeting', '554', 'policy'],
    ['greeting', '421', 'network'],
    ['ehlo', '501', 'protocol'],
  ];
  for (const [phase, codes, expected] of cases) {
    for (const text of unread)
      t.equal(classify(phase, replyOf(`${codes} ${text}`)), expected, `${phase}: ${codes} ${text}`);
  }
});

t.test('an enhanced code written as #5.1.1 counts if it agrees with the code', async (t) => {
  t.equal(classify('rcpt', replyOf('550 #5.1.1 ?')), 'bad_mailbox');
  t.equal(classify('rcpt', replyOf('550 sorry (#5.1.1)')), 'bad_mailbox');
  t.equal(classify('rcpt', replyOf('450 sorry (#5.1.1)')), 'other');
  t.equal(classify('rcpt', replyOf('550 sorry (#5.1.15)')), 'other');
  t.equal(classify('rcpt', replyOf('550 a#5.1.1 sorry')), 'other');
});

t.test('a request to send less says what it is about', async (t) => {
  const cases: [string, 'connections' | 'rate' | null][] = [
    ['421 4.3.2 The maximum number of concurrent connections has exceeded a per-source limit', 'connections'],
    ['421 Trop de connexions', 'connections'],
    ['421 4.7.28 unusual rate of unsolicited mail', 'rate'],
    ['450 4.7.1 message rate limit', 'rate'],
    ['421 4.7.0 [TSS04] temporarily deferred due to unexpected volume or user complaints', 'rate'],
    ['451 4.7.500 Server busy. Please try again later', 'rate'],
    ['450 4.2.1 The user you are trying to contact is receiving mail too quickly', null],
    ['452 4.5.3 too many recipients', null],
    ['450 4.2.0 Greylisted', null],
    ['550 5.1.1 user unknown', null],
    ['452 4.2.2 mailbox full', null],
    ['421 closing', null],
  ];
  for (const [line, expected] of cases) t.equal(slowDown('rcpt', replyOf(line)), expected, line);
});

t.test(
  'text that names a connection or session is about that, unless it is about the message or a mailbox',
  async (t) => {
    const table: [phase: Phase, line: string, expected: boolean][] = [
      ['mail', '550 5.7.0 Only one message per session', true],
      ['mail', '503 5.5.1 Maximum number of messages per connection reached', true],
      ['rcpt', '550 5.7.1 Recipients per hour limit exceeded', true],
      ['rcpt', '550 5.1.1 User unknown (session a1b2)', false],
      ['dot', '550 5.7.1 Message rejected as spam. Session: a1b2-c3', false],
      ['dot', '554 5.7.1 refused, session a1b2', false],
      ['mail', '550 5.7.1 no', false],
      ['mail', '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org', false],
      ['dot', '550 5.7.1 likely suspicious due to the very low reputation of the sending domain', false],
      ['dot', '550 5.7.28 Our system has detected an unusual rate of mail', true],
    ];
    for (const [phase, line, expected] of table)
      t.equal(saysEnough(phase, replyOf(line)), expected, `${phase}: ${line}`);
  },
);
