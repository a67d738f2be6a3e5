/** How HTML begins; browsers look for the declaration in the first 1,024 octets, but some editors write more in front of it. */
const beginning = 4 * 1024;

const declaration = /(<meta\s[^<>]{0,300}?\bcharset\s{0,9}=\s{0,9}["']?)([\w.:+-]{1,40})/i;

/** The charset that HTML says it is in, null if it says nothing that can be true: what is readable as ASCII is not UTF-16. */
export function declaredCharset(html: Buffer): string | null {
  const charset = declaration.exec(html.toString('latin1', 0, beginning))?.[2] ?? null;
  return charset === null || /^utf-?16/i.test(charset) ? null : charset;
}

/**
 * HTML that was in another charset and goes out as UTF-8 must say so, because some programs trust the HTML more than the header:
 * the text browsers that mutt shows HTML with, and every browser that opens a saved one. ASCII is left as it is.
 */
export function withUtf8Declared(html: string): string {
  if (!/[^\0-\x7f]/.test(html)) return html;
  return html.slice(0, beginning).replace(declaration, '$1utf-8') + html.slice(beginning);
}
