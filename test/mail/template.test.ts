import fc from 'fast-check';
import t from 'tap';
import { formatMailbox } from '../../src/mail/address/address.ts';
import {
  compile,
  mostPlaceholders,
  placeholders,
  refuseMailboxPattern,
  refusePlaceholders,
  render,
  type TemplateContent,
} from '../../src/mail/template/template.ts';
import { TemplateError } from '../../src/mail/template/template-values.ts';
import { longestBody } from '../../src/mail/text/text-limits.ts';
import { least } from '../support/linear.ts';
import { harmless, refused, show } from './payloads.ts';

const empty: TemplateContent = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };

const make = (content: Partial<TemplateContent>, variables: Record<string, unknown> = {}) =>
  render(compile({ ...empty, ...content }), variables);

const problem = (content: Partial<TemplateContent>, variables: Record<string, unknown> = {}) => {
  try {
    return make(content, variables);
  } catch (error) {
    if (error instanceof TemplateError) return error.message;
    throw error;
  }
};

t.test('what is a placeholder and what is text', async (t) => {
  const values = { A: '<a>', B: 'b', a: 'small', _1: '1', ['K'.repeat(64)]: 'long' };
  for (const [text, html, plain] of [
    ['', '', ''],
    ['no placeholder', 'no placeholder', 'no placeholder'],
    ['{{{A}}}', '<a>', '<a>'],
    ['{{A}}', '&lt;a&gt;', '<a>'],
    ['{{{A}}}{{A}}{{{B}}}', '<a>&lt;a&gt;b', '<a><a>b'],
    ['{{{ A }}}, {{ A }}, {{\n\tA\u00a0}}', '<a>, &lt;a&gt;, &lt;a&gt;', '<a>, <a>, <a>'],
    ['{{{{A}}}}', '{<a>}', '{<a>}'],
    ['{{{A}}', '{&lt;a&gt;', '{<a>'],
    ['{{A}}}', '&lt;a&gt;}', '<a>}'],
    ['{{{{{A}}}}}', '{{<a>}}', '{{<a>}}'],
    ['{A} {{}} {{{}}} {{{ }}}', '{A} {{}} {{{}}} {{{ }}}', '{A} {{}} {{{}}} {{{ }}}'],
    ['{{a}}{{_1}}', 'small1', 'small1'],
    ['{{1A}} {{A-B}} {{A.B}} {{#A}} {{/A}} {{&A}} {{>A}} {{!A}}', null, null],
    ['{{A|b}} {{ A b }} {{Ä}} {{__proto__ }x} { {A}} {{A} }', null, null],
    [`{{${'K'.repeat(64)}}}`, 'long', 'long'],
    [`{{${'K'.repeat(65)}}}`, null, null],
    [`{{${' '.repeat(9)}B${' '.repeat(9)}}}`, 'b', 'b'],
    [`{{${' '.repeat(10)}B}}`, null, null],
  ] as const) {
    t.equal(make({ html: text }, values).html, html ?? text, show(text));
    t.equal(make({ text }, values).text, plain ?? text, show(text));
  }
  t.strictSame(placeholders('{{A}}{{{B}}} {{A}}{C}'), ['A', 'B', 'A']);
});

t.test('a malformed placeholder is reported', async (t) => {
  for (const [text, found] of [
    ['{{user.name}}', '{{user.name}}'],
    ['{{A}} {{{ first name }}} {{b.c}}', '{{{ first name }}}'],
    ['{{{A}}{{A-B}}}', '{{A-B}}}'],
    ['{{{{a.b}}}}', '{{{a.b}}}'],
    ['{{\n#if A\n}}', '{{?#if A?}}'],
    ['{{größe}}', '{{größe}}'],
    ['{{Größe\u{1f600}\u202e\u00a0}}', '{{Größe\u{1f600}??}}'],
    [`{{${'K'.repeat(65)}}}`, `{{${'K'.repeat(65)}}}`],
    [`{{${' '.repeat(10)}B}}`, `{{${' '.repeat(10)}B}}`],
    [`{{${'x '.repeat(50)}}}`, `{{${'x '.repeat(50)}}}`],
    ['{A} {{}} {{{}}} {{{ }}} {{\u00a0\n}}', null],
    ['{{A}} {{{B}}} {{{{A}}}} {{{{{A}}}}} {{{A}} {{A}}}', null],
    ['{{ {a} }} {{a {{A}} b}} {{a} b}} }} {{', null],
    [`{{${'x '.repeat(51)}}}`, null],
  ] as const)
    t.match(
      refusePlaceholders(text),
      found === null ? null : `contains ${found}, which is not a placeholder`,
      show(text),
    );
});

t.test('html is escaped for text and quoted attributes with two braces, and not at all with three', async (t) => {
  const value = `<script>alert("x" + 'y')</script> &amp; \u2028 é`;
  const { html, text, subject } = make(
    { html: '<a title="{{V}}">{{{V}}}</a>', text: '{{V}}|{{{V}}}', subject: '{{W}}|{{{W}}}' },
    { V: value, W: `<&"'>` },
  );
  const escaped = '&lt;script&gt;alert(&quot;x&quot; + &#39;y&#39;)&lt;/script&gt; &amp;amp; \u2028 é';
  t.equal(html, `<a title="${escaped}">${value}</a>`);
  t.equal(text, `${value}|${value}`);
  t.equal(subject, `<&"'>|<&"'>`);
});

t.test('a value comes from the caller, or else from the fallback, or else it is an error', async (t) => {
  const text = '{{X}}';
  const string = { key: 'X', type: 'string', fallback: null } as const;
  const number = { key: 'X', type: 'number', fallback: null } as const;
  for (const [variables, given, result] of [
    [[], { X: 'given' }, 'given'],
    [[], { X: 4.5 }, '4.5'],
    [[], { X: '' }, ''],
    [[], { x: 'other' }, 'variables.x: is called X in the template'],
    [[], { x: null }, 'variables.X: is required'],
    [[], { [`X${'_'.repeat(90)}`]: 'other' }, 'variables.X: is required'],
    [[], { X: null }, 'variables.X: is required'],
    [[], { X: undefined }, 'variables.X: is required'],
    [[], { X: true }, 'variables.X: must be a string or a number'],
    [[], { X: {} }, 'variables.X: must be a string or a number'],
    [[], { X: Number.NaN }, 'variables.X: must be a finite number'],
    [[], { X: Number.POSITIVE_INFINITY }, 'variables.X: must be a finite number'],
    [[string], {}, 'variables.X: is required'],
    [[string], { X: 1 }, 'variables.X: must be a string'],
    [[number], { X: '1' }, 'variables.X: must be a number'],
    [[number], { X: 0 }, '0'],
    [[number], { X: -0 }, '0'],
    [[number], { X: 9_007_199_254_740_991 }, '9007199254740991'],
    [
      [number],
      { X: Number('12345678901234567890') },
      'variables.X: has too many digits for a number: send it as a string',
    ],
    [[], { X: -1e21 }, 'variables.X: has too many digits for a number: send it as a string'],
    [[{ ...string, fallback: 'there' }], {}, 'there'],
    [[{ ...string, fallback: 'there' }], { X: null }, 'there'],
    [[{ ...string, fallback: 'there' }], { x: 'given' }, 'variables.x: is called X in the template'],
    [[{ ...string, fallback: 'there' }], { '-x': 'given' }, 'variables.-x: is called X in the template'],
    [[{ ...string, fallback: 'there' }], { x: null, Y: 'given' }, 'there'],
    [[{ ...string, fallback: 'there' }], { X: 'given', x: 'other' }, 'given'],
    [
      [
        { ...string, fallback: 'there' },
        { ...string, key: 'x' },
      ],
      { x: 'other' },
      'there',
    ],
    [[{ ...string, fallback: 'there' }], { X: '' }, ''],
    [[{ ...string, fallback: '' }], {}, ''],
    [[{ ...number, fallback: 0 }], {}, '0'],
    [[{ ...number, fallback: 0 }], { X: 7 }, '7'],
    [[{ ...number, fallback: 0 }], { X: 7, Y: {}, Z: Number.NaN }, '7'],
  ] as const) {
    const rendered = problem({ text, variables: [...variables] }, given);
    t.equal(typeof rendered === 'string' ? rendered : rendered.text, result, JSON.stringify([variables, given]));
  }
  t.equal(
    make({ text: 'uses no variables', variables: [{ key: 'X', type: 'string', fallback: null }] }).text,
    'uses no variables',
  );
});

t.test('a value that the template uses is not taken for a misspelled one', async (t) => {
  const content = {
    subject: '{{name}}',
    text: '{{NAME}}',
    variables: [{ key: 'NAME', type: 'string', fallback: 'there' } as const],
  };
  t.match(problem(content, { name: 'Ann' }), { subject: 'Ann', text: 'there' });
  t.equal(problem(content, { Name: 'Ann' }), 'variables.Name: is called name in the template');
  t.equal(problem({ text: '{{A}} {{a}}' }, { a: 'x' }), 'variables.A: is required');
});

t.test('only given values count: DOS-05', async (t) => {
  for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__']) {
    t.equal(problem({ html: `{{${key}}}` }), `variables.${key}: is required`);
    const given = JSON.parse(`{${JSON.stringify(key)}: "<mine>"}`);
    t.equal(make({ html: `{{${key}}}{{{${key}}}}` }, given).html, '&lt;mine&gt;<mine>');
    const declared = { key, type: 'string', fallback: 'mine' } as const;
    t.equal(make({ html: `{{${key}}}`, variables: [declared] }).html, 'mine');
  }
  t.equal(problem({ text: '{{X}}' }, Object.create({ X: 'inherited' })), 'variables.X: is required');
  t.equal(problem({ text: '{{X}}' }, JSON.parse('{"__proto__": {"X": "inherited"}}')), 'variables.X: is required');
  t.equal(({} as { X?: string }).X, undefined);
});

t.test('sender and reply addresses', async (t) => {
  for (const [pattern, values, result] of [
    ['a@b.test', {}, 'a@b.test'],
    ['Shop <a@b.test>', {}, 'Shop <a@b.test>'],
    [' {{N}} <a@b.test> ', { N: 'Ann' }, 'Ann <a@b.test>'],
    ['{{N}} at Shop <a@b.test>', { N: 'Ann' }, 'Ann at Shop <a@b.test>'],
    ['{{N}} <a@b.test>', { N: 'Lee, "Ann" \\ <ann@c.test>' }, '"Lee, \\"Ann\\" \\\\ <ann@c.test>" <a@b.test>'],
    ['"{{N}}, Shop" <a@b.test>', { N: 'Ann "A"' }, '"Ann \\"A\\", Shop" <a@b.test>'],
    ['"The \\"{{N}}\\"" <a@b.test>', { N: 'Shop' }, '"The \\"Shop\\"" <a@b.test>'],
    ['{{{N}}}<a@b.test>', { N: '' }, 'a@b.test'],
    ['{{USER}}@b.test', { USER: 'ann' }, 'ann@b.test'],
    ['Ann <{{USER}}@{{HOST}}>', { USER: 'ann', HOST: 'B.test' }, 'Ann <ann@b.test>'],
    ['{{{ALL}}}', { ALL: '"Lee, Ann" <a@b.test>' }, '"Lee, Ann" <a@b.test>'],
    ['Ann <{{{ALL}}}>', { ALL: 'a@b.test> <c@d.test' }, /^from: /],
    ['{{N}} <{{{A}}}>', { N: '', A: 'Evil <a@b.test>' }, /^from: /],
    ['{{A}} <{{A}}>', { A: 'a@b.test' }, '"a@b.test" <a@b.test>'],
    ['{{A}}@b.test', { A: 'x@evil.test,y' }, /^from: contains more than one @/],
    ['{{A}}@b.test', { A: '' }, 'from: the part before the @ is missing'],
    ['{{A}}', { A: '' }, 'from: not an email address'],
    ['{{A}} <a@b.test>', { A: '\u202eevil' }, /^from: the name contains characters that reverse/],
    ['{{A}} <a@b.test>', { A: 'x'.repeat(1_000) }, /^from: has more than 998 characters/],
  ] as const) {
    t.equal(refuseMailboxPattern(pattern), null, pattern);
    const rendered = problem({ from: pattern, replyTo: ['r@s.test', pattern] }, values);
    const shown = typeof rendered === 'string' ? rendered : rendered.from && formatMailbox(rendered.from);
    if (typeof result === 'string') t.equal(shown, result, pattern);
    else t.match(shown, result, pattern);
    if (typeof rendered !== 'string') t.strictSame(rendered.replyTo[1], rendered.from);
  }
  t.match(problem({ replyTo: ['a@b.test', '{{A}}'] }, { A: 'none' }), /^reply_to: not an email address/);
});

t.test('a pattern that no value could turn into an address is refused when the template is saved', async (t) => {
  for (const [pattern, reason] of [
    ['nonsense', 'not an email address'],
    ['{{N}} <nonsense>', 'not an email address'],
    ['{{N}}, Shop <a@b.test>', /quotes/],
    ['{{N}}, Shop <{{A}}>', /quotes/],
    ['"{{N}} <{{A}}>', 'not an email address'],
    ['{{N}}\r\nBcc: x@y.test <a@b.test>', 'contains control characters'],
    ['<{{A}}@b.test> x', null],
  ] as const) {
    const found = refuseMailboxPattern(pattern);
    if (typeof reason === 'string' || reason === null) t.equal(found, reason, show(pattern));
    else t.match(found, reason, show(pattern));
  }
});

t.test('no value can add a header line: INJ-06', async (t) => {
  for (const value of refused) {
    for (const [field, content] of [
      ['subject', { subject: 'Hello {{V}}' }],
      ['from', { from: '{{V}} <a@b.test>' }],
      ['from', { from: '{{V}}@b.test' }],
      ['reply_to', { replyTo: ['{{{V}}} <a@b.test>'] }],
    ] as const) {
      const rendered = problem(content as Partial<TemplateContent>, { V: value });
      t.match(rendered, /^variables\.V: (contains control characters|is not well-formed Unicode), and is used in /);
      t.ok(String(rendered).endsWith(field), show(value));
      const fallback = { key: 'V', type: 'string', fallback: value } as const;
      t.match(problem({ ...content, variables: [fallback] } as Partial<TemplateContent>), /^variables\.V: /);
    }
  }
  for (const value of harmless) t.equal(make({ subject: '{{{V}}}' }, { V: value }).subject, value, show(value));
  t.equal(problem({ subject: '{{A}}{{B}}' }, { A: '', B: '' }), 'subject: is empty when rendered');
});

t.test('the result is bounded before it is put together', async (t) => {
  const subject = '{{A}}'.repeat(2);
  t.equal(make({ subject }, { A: 'x'.repeat(499) }).subject?.length, 998);
  t.equal(problem({ subject }, { A: 'x'.repeat(500) }), 'subject: has more than 998 characters when rendered');
  const value = 'x'.repeat(100 * 1024);
  const before = process.cpuUsage();
  for (const field of ['html', 'text']) {
    const content = { [field]: '{{A}}'.repeat(mostPlaceholders) };
    t.equal(
      problem(content, { A: value }),
      `${field}: has more than ${longestBody.toLocaleString('en-US')} characters when rendered`,
    );
  }
  t.equal(make({ html: '{{A}}'.repeat(51) }, { A: value }).html?.length, 51 * value.length);
  t.match(problem({ html: '{{A}}'.repeat(52) }, { A: value }), /more than/);
  t.match(
    problem({ html: '{{A}}'.repeat(20) }, { A: '"'.repeat(100 * 1024) }),
    /more than/,
    'it is longer when escaped',
  );
  t.ok(process.cpuUsage(before).user < 4_000_000, 'a text that is too long is not built');
});

t.test('one pass: whatever a value contains, it is inserted as it is', async (t) => {
  const keys = ['A', 'B', 'LONGER_KEY', '__proto__', 'constructor'];
  const value = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('{{{A}}}', '{{B}}', '{', '{{', '}}}', 'A}}', '{{{', '<b>&lt;"\'', '$&', "$'", '$1', '\\'),
  );
  const literal = fc.oneof(
    fc.string().map((text) => text.replaceAll(/[{}]/g, '')),
    fc.constantFrom(' {} ', ' { A } ', ' {{}} ', ' {{{}}} ', ' {{A} ', ' {{ A B }} '),
  );
  const piece = fc.oneof(literal, fc.record({ key: fc.constantFrom(...keys), raw: fc.boolean() }));
  const entities = new Map([
    ['&', '&amp;'],
    ['<', '&lt;'],
    ['>', '&gt;'],
    ['"', '&quot;'],
    ["'", '&#39;'],
  ]);
  const inEntities = (text: string) => [...text].map((unit) => entities.get(unit) ?? unit).join('');
  fc.assert(
    fc.property(fc.array(piece), fc.array(value, { minLength: 5, maxLength: 5 }), (pieces, values) => {
      const byKey = new Map(keys.map((key, index) => [key, values[index] ?? '']));
      const json = [...byKey].map(([key, each]) => `${JSON.stringify(key)}:${JSON.stringify(each)}`);
      const write = (place: (key: string, raw: boolean) => string) =>
        pieces.map((each) => (typeof each === 'string' ? each : place(each.key, each.raw))).join('');
      const source = write((key, raw) => (raw ? `{{{${key}}}}` : `{{${key}}}`));
      const rendered = make({ html: source, text: source }, JSON.parse(`{${json}}`));
      const plain = write((key) => byKey.get(key) ?? '');
      const html = write((key, raw) => (raw ? (byKey.get(key) ?? '') : inEntities(byKey.get(key) ?? '')));
      return rendered.text === plain && rendered.html === html;
    }),
    { numRuns: 2_000 },
  );
  t.pass();
});

t.test(
  'any template and any values: rendered or refused with the place, and no line is added to the header',
  async (t) => {
    const noise = fc
      .array(fc.constantFrom('{', '}', '{{', '}}', '{{{', '}}}', 'A', ' ', '\n', '<', '"', '@', ','))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(noise, noise, (text, value) => {
        const rendered = problem({ html: text, text, subject: `s${text}` }, { A: value });
        if (typeof rendered === 'string') return /^(subject|variables\.[A-Z]+): /.test(rendered);
        return !/[\r\n]/.test(rendered.subject ?? '');
      }),
      { numRuns: 2_000 },
    );
    t.pass();
  },
);

t.test('time grows no faster than the text: DOS-06', async (t) => {
  const families: Record<string, (length: number) => string> = {
    'open braces': (length) => '{'.repeat(length),
    'two open braces and a key': (length) => '{{A'.repeat(length / 3),
    'spaces after braces': (length) => `{{{${' '.repeat(length)}`,
    'braces and spaces': (length) => '{{{ '.repeat(length / 4),
    'spaces after a key': (length) => `{{{A${' '.repeat(length)}`,
    'a long key': (length) => `{{{${'A'.repeat(length)}`,
    'long keys': (length) => `{{{${'A'.repeat(60)}`.repeat(length / 63),
    'nearly closed': (length) => '{{{A}}'.repeat(length / 6),
    'all placeholders': (length) => '{{A}}'.repeat(length / 5),
    'angle brackets': (length) => '<'.repeat(length),
  };
  // Anything quadratic would take minutes for this much text.
  for (const [name, build] of Object.entries(families)) {
    const text = build(800_000);
    const took = await least(() => problem({ html: text, from: text }, { A: 'a' }), 500, 6);
    t.ok(took < 500, `${name}: ${took} ms`);
  }
});
