import type { Reply } from '../replies/reply.ts';
import { comparableText } from './classify.ts';

const shortestMs = 60_000;
const longestMs = 3_600_000;

const amounts =
  /(?<![\d.:/-])(?:(?<clock>\d{1,2}:\d\d:\d\d)(?![\d:])|(?<amount>\d{1,6}) ?(?<unit>s(?:ec|econds?|ekunden?|econdes?|egundos?|econdi|eg)?|сек[а-я]{0,6}|m(?:in|ins|inutes?|inuten?|inutos?|inuti)?|мин[а-я]{0,6}|h(?:ours?|eures?|oras?)?|stunden?|ore|час[а-я]{0,2})(?!\p{L}))/gu;
const waiting =
  /(?:try|retry|again|back|return|resend|wait|waiting|later|delayed|deferred|gr[ea]ylist(?:ed|ing)?|reessayer|reessayez|erneut|wieder|warten|versuchen sie es|intentelo|reintente|tente|novamente|riprova|riprovare|позже|повторите|попробуйте|снова)(?:[ :;,.=(-]{1,3}(?:please|in|for|after|at least|about|another|again|later|it|de nuevo|dans|nach|fur|через|en|em|tra|fra|noch|your message)){0,4}[ :=(-]{0,3}$/;
const again = /^[ ,.]{0,2}(?:again|erneut|wieder|noch ?mal|noch einmal|before (?:you )?(?:try|retry)|и повтор)/;

const unitMs: Record<string, number> = { s: 1_000, с: 1_000, m: 60_000, м: 60_000 };
const hourMs = 3_600_000;

/**
 * How long a server that says "not now" asks us to wait, in ms, clamped to one minute through one hour; null if it names no
 * time. Only a hint: text from outside may move the next attempt, but never decides whether there is one.
 */
export function retryHintMs({ code, text }: Reply): number | null {
  if (code < 400 || code > 499) return null;
  const said = comparableText(text);
  for (const match of said.matchAll(amounts)) {
    const end = match.index + match[0].length;
    const before = said.slice(Math.max(0, match.index - 80), match.index);
    if (!waiting.test(before) && !again.test(said.slice(end, end + 30))) continue;
    const ms = msOf(match.groups ?? {});
    if (ms > 0) return Math.min(Math.max(ms, shortestMs), longestMs);
  }
  return null;
}

function msOf({ clock, amount, unit }: Record<string, string | undefined>): number {
  if (clock !== undefined) {
    const [hours = 0, minutes = 0, seconds = 0] = clock.split(':').map(Number);
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000;
  }
  const known = unit?.startsWith('stunde') ? hourMs : unitMs[unit?.[0] ?? ''];
  return Number(amount) * (known ?? hourMs);
}
