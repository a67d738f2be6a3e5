import t from 'tap';
import type { Phase } from '../../src/smtp/deliver.ts';
import { classify, comparableText, ruleFor } from '../../src/smtp/rules/classify.ts';
import type { Rule } from '../../src/smtp/rules/rule.ts';
import { rules } from '../../src/smtp/rules/rules.ts';
import { isLinear, least } from '../support/linear.ts';
import { sampleReply } from './said.ts';

const phasesOf = (rule: Rule): readonly Phase[] => rule.when ?? ['rcpt', 'dot'];
const titleOf = (rule: Rule) =>
  `${rule.is}: ${rule.text?.source.slice(0, 60) ?? rule.enhanced ?? rule.codes ?? 'the rest'}`;

t.test('each sample is judged as its rule says, wherever the rule applies', async (t) => {
  for (const rule of rules) {
    for (const sample of rule.samples)
      for (const phase of phasesOf(rule)) t.equal(classify(phase, sampleReply(sample)), rule.is, `${phase}: ${sample}`);
  }
  t.ok(rules.flatMap((rule) => rule.samples).length >= 400);
});

t.test('each rule is needed: it is the first to match one of its samples', async (t) => {
  for (const rule of rules) {
    const decided = rule.samples.filter((sample) =>
      phasesOf(rule).some((phase) => ruleFor(phase, sampleReply(sample)) === rule),
    );
    t.ok(decided.length > 0, titleOf(rule));
  }
});

t.test('each sample says whose it is, and appears once', async (t) => {
  const samples = rules.flatMap((rule) => rule.samples);
  for (const sample of samples) t.match(sample, /^[A-Z0-9a-z][\w .&-]{1,30}: [45]\d\d[ -]/);
  t.equal(new Set(samples).size, samples.length);
});

// The same sentence for both: only its code tells them apart.
const ambiguous = 'Recipient address rejected: Access denied';
/** What the texts of refusals about us say, without their codes. */
const aboutUs = rules
  .filter((rule) => rule.text && ['policy', 'authentication', 'rate', 'content', 'sender'].includes(rule.is))
  .flatMap((rule) => rule.samples.map((sample) => sampleReply(sample).text.replace(/\(?#\d\.\d{1,3}\.\d{1,3}\)?/, '')))
  .filter((text) => !text.endsWith(ambiguous));
/** What is said about a mailbox or domain that does not exist. */
const nobodyThere = rules
  .filter((rule) => rule.text && rule.is.startsWith('bad_'))
  .flatMap((rule) => rule.samples.map(sampleReply));

t.test('a server that blocks us with the code of an unknown mailbox suppresses nobody', async (t) => {
  t.ok(aboutUs.length > 150);
  for (const text of aboutUs) {
    for (const phase of ['rcpt', 'dot'] as const)
      t.notMatch(classify(phase, { code: 550, enhanced: '5.1.1', text }), /^bad_/, text);
  }
});

t.test('a server that blocks us in the words of an unknown mailbox suppresses nobody', async (t) => {
  t.ok(nobodyThere.length > 50);
  const suppressing = nobodyThere.flatMap((reply) =>
    aboutUs
      .flatMap((text) => [`${text} ${reply.text}`, `${reply.text} ${text}`])
      .filter((text) => classify('rcpt', { ...reply, text }).startsWith('bad_')),
  );
  t.same(suppressing.slice(0, 5), [], `${suppressing.length} pairs`);
});

t.test('addresses are names, not words', async (t) => {
  for (const local of ['spam', 'blocked', 'policy', 'no-such-user', 'mailbox.full', 'too-many-connections', 'spf']) {
    const text = `<${local}@example.com>: Recipient address rejected: User unknown in virtual mailbox table`;
    t.equal(classify('rcpt', { code: 550, enhanced: '5.1.1', text }), 'bad_mailbox', local);
    t.equal(classify('rcpt', { code: 550, enhanced: null, text: `<${local}@example.com>: no` }), 'other', local);
  }
  t.equal(
    comparableText('<Jané.Doe@Example.com> [a@b.c]: Empfänger  _unbekannt_, désactivé'),
    ': empfanger unbekannt , desactive',
  );
});

t.test('DOS-06 every repetition in a rule is bounded', async (t) => {
  for (const { text } of rules) {
    if (!text) continue;
    const bare = text.source.replace(/\\./g, 'x').replace(/\[[^\]]*\]/g, 'x');
    t.notMatch(bare, /[*+]|\{\d+,\}/, text.source);
    t.notOk(text.global || text.sticky, 'a rule keeps no state from one reply to the next');
  }
});

/** Texts that make a rule try for long: the words it looks for, over and over, without what should follow them. */
const hostile = (rule: Rule, length: number) =>
  [...new Set(rule.text?.source.match(/\p{L}{3,}/gu) ?? [])]
    .map((word) => `${word} `.repeat(length).slice(0, length))
    .filter((text) => !rule.text?.test(text))
    .slice(0, 15);

t.test('DOS-06 the time to judge grows no faster than the text, and 64 kB of it takes less than 50 ms', async (t) => {
  for (const rule of rules) {
    for (const [at, text] of hostile(rule, 65_536).entries())
      await isLinear(t, `${titleOf(rule)} (${at})`, text, (said) => rule.text?.test(said));
  }
});

t.test('DOS-06 making a text comparable is linear too', async (t) => {
  for (const part of ['a', 'a@', '@', 'é', 'a\u0301', '\u0301', '<', '< ', '_', ' ', '(#5.1.', '\ufdfa', 'a.b@c.'])
    await isLinear(t, part, part.repeat(65_536 / part.length), comparableText);
});

t.test('a reply of maximum length is judged in milliseconds', async (t) => {
  for (const part of ['mailbox ', 'too many ', 'your ip ', 'sender ', 'ящик ', 'a']) {
    const text = part.repeat(2_000).slice(0, 2_000);
    const ms = await least(() => classify('rcpt', { code: 550, enhanced: null, text }), 10);
    t.ok(ms < 10, `${part}: ${ms} ms`);
  }
});
