const mostRecipients = 100;
const longestWords = 2_000;

/** An address at the beginning of a line, after whatever introduces it. */
const addressAtStart =
  /^[\s>*•·\-|]{0,20}(?:(?:[\p{L}][\p{L}\p{M} ()'./-]{0,60})[:：=]\s{0,8}|failed to deliver to\s)?[\s<'"“„«‘([{]{0,6}(?:smtp[:;]|rfc822;|mailto:)?\s{0,2}([^\s<>()[\]:;,"'“”„«»‘’{}（）。，：；、「」【】《》]{1,64}@[^\s<>()[\]:;,"'“”„«»‘’{}@（）。，：；、「」【】《》]{1,253})/iu;
const addressAnywhere =
  /[^\s<>()[\]:;,"'“”„«»‘’{}（）。，：；、「」【】《》]{1,64}@[^\s<>()[\]:;,"'“”„«»‘’{}@（）。，：；、「」【】《》]{1,253}\.[a-z0-9-]{2,63}/gi;

/** Addresses of the reporter or the sender, not of a failed recipient. */
const otherAddresses = /^(?:mailer-daemon|postmaster|abuse|bounces?\+|hostmaster)/i;
const otherIntroductions =
  /^\W{0,20}(?:from|von|de|da|reply-to|sender|message-id|reporting-mta|subject|betreff|cc)\s?[:：]|\bmail[ -]from\s?[:：]/i;

/** The copied To field of the message: some of its addresses may have got it. */
export const copiedTo = /^\W{0,20}(?:to|an|para|宛先)\s?[:：]/i;
const copiedCc = /^\W{0,20}cc\s?[:：].*@/i;
const quotedSender = /\bmail[ -]from\s?[:：]\s{0,8}\S{1,400}/gi;

/** A recipient, and the words about it: those from the line that begins with the address to the next such line. */
export interface Section {
  address: string;
  words: string;
}

/** Those of a copied To count only if there are no others. */
export function sectionsOf(lines: string[]): Section[] {
  const sections = new Map<string, Section>();
  const outsideTo = new Set<string>();
  let current: Section | undefined;
  for (const line of lines) {
    const address = recipientAtStart(line);
    if (address !== null) {
      const key = address.toLowerCase();
      if (!copiedTo.test(line)) outsideTo.add(key);
      current = sections.get(key) ?? { address, words: '' };
      if (!sections.has(key) && sections.size < mostRecipients) sections.set(key, current);
    }
    if (current && current.words.length < longestWords) current.words += `${line}\n`;
  }
  return [...sections].flatMap(([key, section]) => (outsideTo.size === 0 || outsideTo.has(key) ? section : []));
}

function recipientAtStart(line: string): string | null {
  const [matched = '', written = ''] = addressAtStart.exec(line) ?? [];
  if (otherIntroductions.test(matched.slice(0, matched.length - written.length))) return null;
  const address = written.replace(/[.…]{1,9}$/, '');
  return address.includes('.', address.indexOf('@')) && !otherAddresses.test(address) ? address : null;
}

/** Drops a copied To that names several, or one if there is a Cc too: it does not say which of them the bounce is about. */
export function withoutUnclearTo(lines: string[]): string[] {
  const hasCc = lines.some((line) => copiedCc.test(line));
  return toFieldsApart(lines).flatMap((field) => {
    const named = copiedTo.test(field[0] ?? '') ? (field.join(' ').match(addressAnywhere)?.length ?? 0) : 0;
    return named === 0 || (named === 1 && !hasCc) ? field : [];
  });
}

/** Each copied To with the lines that it goes on in, and each other line by itself. */
function toFieldsApart(lines: string[]): string[][] {
  const fields: string[][] = [];
  let goesOn = false;
  for (const line of lines) {
    if (goesOn) fields.at(-1)?.push(line);
    else fields.push([line]);
    goesOn = (goesOn || copiedTo.test(line)) && /[,;]\s?$/.test(line);
  }
  return fields;
}

/** All addresses that may be recipients, wherever they are in a line. */
export function addressesIn(lines: string[]): string[] {
  const text = lines
    .map((line) => line.replaceAll(quotedSender, ' '))
    .filter((line) => !otherIntroductions.test(line))
    .join('\n');
  const addresses = new Set(text.match(addressAnywhere));
  return [...addresses].filter((address) => !otherAddresses.test(address));
}
