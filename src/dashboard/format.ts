const numbers = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value: number): string => numbers.format(value);

/** For axes and tiles: 12.4K. */
export const compact = (value: number): string => (value < 10_000 ? numbers.format(value) : short.format(value));

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

export const percent = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${((100 * part) / whole).toFixed(part === whole || part === 0 ? 0 : 1)} %`;

const units: [ms: number, name: string][] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
];

/** A stretch of time in one unit: 340 ms, 2.4 s, 12 min, 3 d. */
export function duration(ms: number): string {
  const unit = units.find(([size]) => ms >= size);
  if (!unit) return `${Math.round(ms)} ms`;
  const value = ms / unit[0];
  return `${value < 10 && unit[1] === 's' ? value.toFixed(1) : Math.round(value)} ${unit[1]}`;
}

/** How long ago, or how far off. */
export function relative(at: Date, now: number): string {
  const ms = at.getTime() - now;
  if (Math.abs(ms) < 1_500) return 'now';
  const words = duration(Math.max(1_000, Math.abs(ms))).replace(/\.\d/, '');
  return ms < 0 ? `${words} ago` : `in ${words}`;
}

const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

/** In the reader's own time zone, which it names. */
export const exact = (at: Date): string => exactly.format(at);

export function bytes(size: number): string {
  if (size < 1_000) return `${size} B`;
  return size < 1_000_000 ? `${(size / 1_000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}

/** `bad_mailbox` as words. */
export const spaced = (name: string): string => name.replaceAll('_', ' ');

/** What stands for a subject where one is shown. */
export const shownSubject = (subject: string): string => subject.trim() || '(no subject)';
