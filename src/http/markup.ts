import { createHash } from 'node:crypto';

/** HTML that needs no more escaping. */
export interface Markup {
  readonly html: string;
}

type Part = Markup | Part[] | string | number | false | undefined;

/** A template tag that escapes what is inserted, unless it is markup. */
export function html(texts: TemplateStringsArray, ...parts: Part[]): Markup {
  return { html: texts.map((text, index) => text + render(parts[index])).join('') };
}

function render(part: Part): string {
  if (part === undefined || part === false) return '';
  if (Array.isArray(part)) return part.map(render).join('');
  return typeof part === 'object' ? part.html : escapeHtml(String(part));
}

const escapeHtml = (text: string) => text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** A description as paragraphs: backticks become code, and an empty line starts a new paragraph. */
export function prose(text: string): Markup[] {
  return text.split('\n\n').map((paragraph) => html`<p>${inline(paragraph)}</p>\n`);
}

export const inline = (text: string): Part[] =>
  text.split('`').map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));

export const json = (value: unknown) => html`<pre>${JSON.stringify(value, null, 2)}</pre>`;

/**
 * The Content-Security-Policy of a page that loads nothing and has only its inline style.
 *
 * @param forms where its forms may be sent
 */
export function pagePolicy(style: string, forms: "'none'" | "'self'" = "'none'"): string {
  const digest = createHash('sha256').update(style).digest('base64');
  return `default-src 'none'; style-src 'sha256-${digest}'; frame-ancestors 'none'; base-uri 'none'; form-action ${forms}`;
}
