const entities: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ', '#39': "'" };

/** The words of HTML, in lines as far as it is clear where they begin. */
export function withoutTags(html: string): string {
  return withoutHidden(html)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/<\/?(?:br|p|div|tr|td|th|table|li|ul|ol|h[1-6]|hr|pre|blockquote)\b[^<>]{0,2000}>/gi, '\n')
    .replaceAll(/<[!/a-z][^<>]{0,2000}>/gi, '')
    .replaceAll(/&(lt|gt|amp|quot|apos|nbsp|#39);/g, (_, name: string) => entities[name] ?? ' ')
    .replaceAll(/&#(\d{2,6});/g, (_, code: string) => character(Number(code)))
    .replaceAll(/ +/g, ' ')
    .replaceAll(/ ?\n ?/g, '\n');
}

const character = (code: number) => (code > 31 && code < 0xd800 ? String.fromCharCode(code) : ' ');

/** By hand: given very many opening tags, a regular expression would search for the end of each. */
function withoutHidden(html: string): string {
  let text = html;
  for (const name of ['style', 'script', 'title']) {
    // The only letter that is longer in lower case.
    const lower = text.replaceAll('İ', 'i').toLowerCase();
    let kept = '';
    let at = 0;
    for (;;) {
      const open = lower.indexOf(`<${name}`, at);
      const close = open === -1 ? -1 : lower.indexOf(`</${name}`, open);
      const end = close === -1 ? -1 : lower.indexOf('>', close);
      if (end === -1) break;
      kept += text.slice(at, open);
      at = end + 1;
    }
    text = kept + text.slice(at);
  }
  return text;
}
