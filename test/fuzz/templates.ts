import fc from 'fast-check';
import { compile, render } from '../../src/mail/template/template.ts';
import { TemplateError } from '../../src/mail/template/template-values.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

const value = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc
    .array(
      fc.constantFrom(
        '{{{A}}}',
        '{{B}}',
        '<',
        '>',
        '"',
        "'",
        '&',
        '&lt;',
        '<script>',
        '-->',
        '$&',
        '\\',
        'a@b',
        ',',
        '\r\n',
        '=?',
      ),
      {
        maxLength: 8,
      },
    )
    .map((parts) => parts.join('')),
);

/**
 * A page with a value in every kind of place; by construction, the text between them contains none of a value's
 * characters.
 */
const page = (a: string, b: string) => `<p title="${a}" class='${b}'>${a}</p><!-- ${b} --><a href="/?q=${b}">${a}</a>`;
const marks = (text: string) => text.replaceAll(/[^<>"']/g, '');

const decode = (html: string) =>
  html
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

const content = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };

const rendered = (template: ReturnType<typeof compile>, values: Record<string, unknown>) => {
  try {
    return render(template, values);
  } catch (error) {
    if (error instanceof TemplateError) return error.message;
    throw error;
  }
};

const noise = fc
  .array(fc.constantFrom('{{A}}', '{{{A}}}', '{{B}}', '{', '}', '{{', '}}', 'A', ' ', '<', '&', '"', '@', 'x'), {
    maxLength: 30,
  })
  .map((parts) => parts.join(''));

export const templates: Target = {
  name: 'templates',
  open: () => ({
    'no value escapes from its place in a page, and a reader sees the value itself': fc.property(
      value,
      value,
      (a, b) => {
        const { html } = render(compile({ ...content, html: page('{{A}}', '{{B}}') }), { A: a, B: b });
        equal(marks(html ?? ''), marks(page('', '')));
        // The places are found by the text around them, which no value can contain.
        const [, ...places] =
          /^<p title="([^"]*)" class='([^']*)'>([^<]*)<\/p><!-- ([^>]*) --><a href="\/\?q=([^"]*)">([^<]*)<\/a>$/.exec(
            html ?? '',
          ) ?? [];
        equal(places.map(decode), [a, b, a, b, b, a]);
        return true;
      },
    ),
    'no value adds a line, an address or a name to a header': fc.property(value, value, value, (a, b, c) => {
      const template = compile({
        ...content,
        from: '{{A}} <shop@good.test>',
        subject: 's {{A}}{{C}}',
        replyTo: ['{{B}} <r@good.test>'],
      });
      const result = rendered(template, { A: a, B: b, C: c });
      if (typeof result === 'string') {
        hold(/^(?:from|subject|reply_to|variables\.[ABC]): /.test(result), `does not name the place: ${result}`);
        return true;
      }
      equal([result.from?.address, result.replyTo.map(({ address }) => address)], ['shop@good.test', ['r@good.test']]);
      equal(result.subject, `s ${a}${c}`);
      const names = [result.from, ...result.replyTo].map((one) => one?.name ?? '');
      hold(![...names, result.subject ?? ''].some((text) => /[\r\n]/.test(text)), 'holds a line end');
      return true;
    }),
    'the same template and values give the same text, whatever was rendered in between': fc.property(
      noise,
      fc.dictionary(fc.constantFrom('A', 'B'), fc.oneof(value, fc.double(), fc.constant(null))),
      value,
      (text, values, other) => {
        const whole = { ...content, html: text, text, subject: `s${text}` };
        const template = compile(whole);
        const before = rendered(template, values);
        rendered(template, { A: other, B: other });
        equal(rendered(template, values), before);
        equal(rendered(compile(whole), { ...values }), before);
        return true;
      },
    ),
  }),
};
