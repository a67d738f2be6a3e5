/**
 * A number for people, with its thousands grouped: 5,242,880. By hand, as the first `toLocaleString` of a process loads what ICU
 * knows of languages, which is a hundredth of the processor time of a start.
 *
 * @param value a whole number that is safe
 */
export function grouped(value: number): string {
  const digits = String(Math.abs(value));
  const first = digits.length % 3;
  const groups = first > 0 ? [digits.slice(0, first)] : [];
  for (let at = first; at < digits.length; at += 3) groups.push(digits.slice(at, at + 3));
  return `${value < 0 ? '-' : ''}${groups.join(',')}`;
}

/** A length of time for people: 90 seconds, 90 minutes, 72 hours. */
export function timeInWords(ms: number): string {
  const [amount, unit]: [number, string] =
    ms < 120_000 ? [ms / 1_000, 'seconds'] : ms < 2 * 3_600_000 ? [ms / 60_000, 'minutes'] : [ms / 3_600_000, 'hours'];
  return `${grouped(Math.round(amount))} ${unit}`;
}
