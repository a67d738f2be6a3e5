const entities: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ' };

/** The words of HTML, in lines as far as it is clear where they begin. */
export function withoutTags(html: string): string {
  return withoutHidden(html)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/<\/?(?:br|p|div|tr|td|th|table|li|ul|ol|h[1-6]|hr|pre|blockquote)\b[^<>]{0,2000}>/gi, '\n')
    .replaceAll(/<[!/a-z][^<>]{0,2000}>/gi, '')
    .replaceAll(
      /&(?:(lt|gt|amp|quot|apos|nbsp)|#(\d{1,7}|[Xx][0-9A-Fa-f]{1,6}));/g,
      (_, name: string | undefined, code = '') =>
        name === undefined ? character(Number(code.replace(/^x/i, '0x'))) : (entities[name] ?? ' '),
    )
    .replaceAll(/ +/g, ' ')
    .replaceAll(/ ?\n ?/g, '\n');
}

/** A space stands for control characters, and for what is no character. */
const character = (code: number) =>
  code > 31 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : ' ';

/** What a reader does not see: how it begins, and what the `>` at its end comes after. */
const hidden = [
  ['<style', '</style'],
  ['<script', '</script'],
  ['<title', '</title'],
  ['<!--', '-->'],
] as const;

/** By hand: given very many opening tags, a regular expression would search for the end of each. */
function withoutHidden(html: string): string {
  let text = html;
  for (const [opening, closing] of hidden) {
    // The only letter that is longer in lower case.
    const lower = text.replaceAll('İ', 'i').toLowerCase();
    let kept = '';
    let at = 0;
    for (;;) {
      const open = lower.indexOf(opening, at);
      // The two dashes of `<!-->` are those of its end too.
      const close = open === -1 ? -1 : lower.indexOf(closing, open + 2);
      const end = close === -1 ? -1 : lower.indexOf('>', close);
      if (end === -1) break;
      kept += text.slice(at, open);
      at = end + 1;
    }
    text = kept + text.slice(at);
  }
  return text;
}
