import { withoutTags } from '../text/html-text.ts';
import { longestBody } from '../text/text-limits.ts';

/** What a part of a message shows in HTML, if there is any, and in plain text. */
export interface Bodies {
  html: string | null;
  text: string | null;
}

/** Longer HTML is not converted to text, because that would block everything else. */
const mostInText = 1_000_000;

/**
 * The bodies of parts that are shown one after the other, such as a letter and a footer added by a server. If any of them is
 * HTML, each version contains all parts. If a text version would contain less, there is none.
 */
export function inSequence(parts: Bodies[]): Bodies {
  const hasHtml = parts.some(({ html }) => html !== null);
  // Beside HTML an empty text says nothing; some servers leave one after a file.
  const shown = parts.filter(({ html, text }) => html !== null || (text !== null && !(hasHtml && text.trim() === '')));
  const hasText = shown.some(({ text }) => text !== null);
  const alone = shown.filter(({ text }) => text === null).reduce((sum, { html }) => sum + (html?.length ?? 0), 0);
  return {
    html: hasHtml ? shown.map(({ html, text }) => html ?? inHtml(text ?? '')).join('\n') : null,
    text:
      hasText && alone <= mostInText
        ? shown.map(({ html, text }) => text ?? withoutTags(html ?? '').trim()).join('\n')
        : null,
  };
}

/** The bodies of alternatives (RFC 2046 section 5.1.4): the last of each kind, for text preferably one that has no HTML. */
export function amongAlternatives(parts: Bodies[]): Bodies {
  const inWords = parts.filter(({ text }) => text !== null);
  return {
    html: parts.findLast(({ html }) => html !== null)?.html ?? null,
    text: (inWords.findLast(({ html }) => html === null) ?? inWords.at(-1))?.text ?? null,
  };
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** Keeps the lines, and lets those wider than the window wrap. Text longer than any body is left alone: it will be refused. */
function inHtml(text: string): string {
  if (text.length > longestBody) return text;
  const escaped = text.replaceAll(/[&<>]/g, (character) => entities[character] ?? character);
  // The first line end after the tag is not shown.
  return `<pre style="font: inherit; white-space: pre-wrap">\n${escaped}</pre>`;
}
