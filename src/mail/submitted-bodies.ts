import { withoutTags } from './loose-mime.ts';
import { longest } from './template.ts';

/** What a part of a message shows: to a reader of HTML, where there is any, and to one of text. */
export interface Bodies {
  html: string | null;
  text: string | null;
}

/** HTML that is longer gets no version in text, as others would wait for it. */
const mostInText = 1_000_000;

/**
 * What parts show that stand one after the other, as a letter and what a server on its way wrote below it. With HTML among them either
 * version has all of them; a text that would say less is none.
 */
export function inSequence(parts: Bodies[]): Bodies {
  const hasHtml = parts.some(({ html }) => html !== null);
  // Beside HTML an empty text, as some servers leave behind a file, says nothing.
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

/** What alternatives show (RFC 2046 section 5.1.4): the last that a reader can show, where to one of text that without HTML is better. */
export function amongAlternatives(parts: Bodies[]): Bodies {
  const inWords = parts.filter(({ text }) => text !== null);
  return {
    html: parts.findLast(({ html }) => html !== null)?.html ?? null,
    text: (inWords.findLast(({ html }) => html === null) ?? inWords.at(-1))?.text ?? null,
  };
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** In lines as they are, but for those that are wider than the window. Longer than any body it is refused as it is. */
function inHtml(text: string): string {
  if (text.length > longest.body) return text;
  const escaped = text.replaceAll(/[&<>]/g, (character) => entities[character] ?? character);
  // The first line end behind the tag is not shown.
  return `<pre style="font: inherit; white-space: pre-wrap">\n${escaped}</pre>`;
}
