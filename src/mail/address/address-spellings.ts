import { domainToUnicode } from 'node:url';

/** Follows a percent sign that was percent-encoded itself, as in a link within a link. */
const nested = '(?:25){0,3}';

/** The boundaries of an address, so that it is not part of a longer one. A percent-encoded `%3C` or the like is one too. */
const before = `(?:(?<![A-Za-z0-9._+-])|(?<=%${nested}[0-9A-Fa-f][0-9A-Fa-f]))`;
const behind = '(?![A-Za-z0-9-]|\\.[A-Za-z0-9])';

const entities: Record<string, string> = { '@': '&commat;', '&': '&amp;', "'": '&apos;', '+': '&plus;', _: '&lowbar;' };

/**
 * A regular expression, for JavaScript and PostgreSQL, that finds an address in text: percent-encoded as in links and in links
 * within links, with HTML entities, and with its domain as A-labels or in Unicode. It does not match within another address.
 * Use it case-insensitively.
 *
 * @param address in its canonical form
 */
export const spellingsOf = (address: string): string => `${before}${anywhere(address)}${behind}`;

/** The same without the boundaries, for labels, where other text may adjoin the address: `welcome-ann@example.net`. */
export function anywhere(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  const domains = [...new Set([domain, domainToUnicode(domain)])].map(written);
  return `${written(address.slice(0, at + 1))}(?:${domains.join('|')})`;
}

const written = (text: string) => Array.from(text, spelled).join('');

function spelled(character: string): string {
  if (/[A-Za-z0-9]/.test(character)) return character;
  const code = character.codePointAt(0) ?? 0;
  const encoded = [...Buffer.from(character)].map((byte) => `%${nested}${byte.toString(16).padStart(2, '0')}`).join('');
  // For non-ASCII both cases are spelled out: whether PostgreSQL maps them depends on the database's locale.
  const cases = [...new Set([character, character.toLowerCase(), character.toUpperCase()])];
  const plain = code < 128 ? [`\\${character}`] : cases;
  const entity = entities[character];
  return `(?:${[...plain, encoded, `&#${code};`, `&#x${code.toString(16)};`, ...(entity ? [entity] : [])].join('|')})`;
}
