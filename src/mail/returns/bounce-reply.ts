/** In a transcript, the remote server's own lines are preferred to the comments on them. */
const transcript = /^<<<[ \t]*([45]\d\d[ -].{0,1000}(?:\n<<<[ \t]*[45]\d\d[ -].{0,1000}){0,20})/m;

const codeAndWords =
  /(?:^|[\s:'"“(<[=;,])#?([45]\d\d(?:[ -]{1,3}#?[245]\.\d{1,3}\.\d{1,3})?[ -:]{1,3}(?=[\p{L}#<"'([*]).{0,1500})/u;

/** A code and an enhanced code, and nothing more. */
const bareCodes = /(?:^|[\s:'"(<[])([45]\d\d[ -]#?[245]\.\d{1,3}\.\d{1,3})(?!\d)/;

/** Marked by a word or a sign before it, or by its place at the beginning of a line. */
const status =
  /(?:#|\bstatus(?: code)?\W{1,4}|\berror(?: code)?\W{1,4}|\bcode\W{1,4}|\bdsn\W{1,3}|[<(])([245]\.\d{1,3}\.\d{1,3})(?!\d|\.\d)|^[ \t]{0,40}([245]\.\d{1,3}\.\d{1,3})\s/im;

/** The first reply of a server: a code and the words after it, which distinguish it from any other number. */
export function replyIn(text: string): string | null {
  const joined = joinLines(transcript.exec(text)?.[1] ?? text);
  const reply = codeAndWords.exec(joined)?.[1] ?? bareCodes.exec(joined)?.[1];
  return reply === undefined ? null : reply.replaceAll(/\s+/g, ' ').trim();
}

/** An enhanced code that is marked as one: version numbers of programs look the same. */
export function markedStatus(text: string): string | null {
  const [, marked, atStart] = status.exec(text) ?? [];
  return marked ?? atStart ?? null;
}

/** Joins the lines of each paragraph, without the quote marks at their beginning. */
function joinLines(text: string): string {
  const [first = '', ...others] = text.split('\n');
  const joined = others.map((line) => {
    const words = line.replace(/^[ \t>]*(?:<<<)?[ \t]*/, '');
    return words === '' ? `\n${line}` : ` ${words}`;
  });
  return first + joined.join('');
}
