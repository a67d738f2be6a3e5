import { domainToUnicode } from 'node:url';

/** What a percent sign is followed by where it was encoded itself: in a link in a link. */
const nested = '(?:25){0,3}';

/** What may stand in front of an address, or behind it, without being a part of another one. `%3C` and its like are signs too. */
const before = `(?:(?<![A-Za-z0-9._+-])|(?<=%${nested}[0-9A-Fa-f][0-9A-Fa-f]))`;
const behind = '(?![A-Za-z0-9-]|\\.[A-Za-z0-9])';

const entities: Record<string, string> = { '@': '&commat;', '&': '&amp;', "'": '&apos;', '+': '&plus;', _: '&lowbar;' };

/**
 * A regular expression, for JavaScript and for PostgreSQL, that finds an address in text: in any case, percent-encoded as in
 * links, and in links in links, with HTML's entities, with its domain as A-labels or in Unicode. It does not find it within another address. To be
 * used without regard to case.
 *
 * @param address in its canonical form
 */
export const spellingsOf = (address: string): string => `${before}${anywhere(address)}${behind}`;

/** The same for labels, where anything may be written together with it: `welcome-ann@example.net`. */
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
  // What is not ASCII has its cases spelled out: whether PostgreSQL knows them depends on the database's locale.
  const cases = [...new Set([character, character.toLowerCase(), character.toUpperCase()])];
  const plain = code < 128 ? [`\\${character}`] : cases;
  const entity = entities[character];
  return `(?:${[...plain, encoded, `&#${code};`, `&#x${code.toString(16)};`, ...(entity ? [entity] : [])].join('|')})`;
}
