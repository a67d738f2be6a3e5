import type { Email } from '../../client/index.ts';
import { now } from './clock.ts';
import { inOwnLetters } from './own-letters.ts';

const numbers = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value: number): string => numbers.format(value);

/** For axes and tiles: 12.4K. */
export const compact = (value: number): string => (value < 10_000 ? numbers.format(value) : short.format(value));

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

/** A few of very many are not shown as none, nor all but a few as all. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return '–';
  if (part === whole || part === 0) return part === 0 ? '0 %' : '100 %';
  const share = (100 * part) / whole;
  if (share < 0.1) return '< 0.1 %';
  return share > 99.9 && part < whole ? '> 99.9 %' : `${share.toFixed(1)} %`;
}

const units: [ms: number, name: string][] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
];

/** A duration in one unit: 340 ms, 2.4 s, 12 min, 3 d. What would be rounded up to 60 s, or to 24 h, is one of the next unit. */
export function duration(ms: number): string {
  const unit = units.find(([size], index) => ms >= size - (units[index + 1]?.[0] ?? 1) / 2);
  if (!unit) return `${Math.round(ms)} ms`;
  const value = ms / unit[0];
  return `${value < 9.95 && unit[1] === 's' ? value.toFixed(1) : Math.round(value)} ${unit[1]}`;
}

/** How far apart the labels of an axis of durations may be, in ms: round numbers of each unit, so that none is rounded. */
export const durationSteps = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1_000, 60_000].flatMap((unit) => [1, 2, 5, 10, 20, 30].map((step) => step * unit)),
  ...[1, 2, 3, 6, 12, 24, 48, 120, 240].map((hours) => hours * 3_600_000),
];

/** A label of such an axis, in the unit of its steps: 90 s between 60 s and 120 s. */
export function durationOnAxis(ms: number, step: number): string {
  const [size, name] = units.find(([size]) => step % size === 0) ?? [1, 'ms'];
  return `${count(ms / size)} ${name}`;
}

/**
 * How long ago, or how far ahead.
 *
 * @param isOver it has already happened, even if the clock of this machine says otherwise
 */
export function relative(at: Date, now: number, isOver = false): string {
  const ms = Math.min(at.getTime() - now, isOver ? 0 : Number.POSITIVE_INFINITY);
  if (Math.abs(ms) < 1_500) return 'now';
  const words = duration(Math.max(1_000, Math.abs(ms))).replace(/\.\d/, '');
  return ms < 0 ? `${words} ago` : `in ${words}`;
}

/** How long something has gone on, by the same steps. */
export const lastingSince = (at: Date, now: number): string =>
  `for ${duration(Math.max(1_000, now - at.getTime())).replace(/\.\d/, '')}`;

const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

/** In the reader's own time zone, which it names. */
export const exact = (at: Date): string => exactly.format(at);

/** For a field of the type `datetime-local`: in the reader's own time zone, to the minute. */
export const forField = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

const decision = 'choose “Send again”, “It arrived” or “It did not” above';

/** Rewrites the API's texts, which are for programs too, for people who have the buttons before them. */
export const forPeople = (text: string): string =>
  inOwnLetters(text)
    .replaceAll(/`([\w ]{1,40})`/g, '$1')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z/g, (time) => exact(new Date(time)))
    .replace('choose retry, delivered or failed with POST /api/v1/emails/:id/release', decision)
    .replace(
      'choose retry with POST /api/v1/emails/:id/release, or failed',
      'choose “Send again” above, or “It did not”',
    )
    .replace('with POST /api/v1/emails/:id/release', 'with the buttons above')
    .replace('at /api/v1/admin/destinations', 'under Destinations');

export function bytes(size: number): string {
  if (size < 1_000) return `${size} B`;
  return size < 999_950 ? `${(size / 1_000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}

/** Whether it only waits for its scheduled time. */
export const isForLater = ({ status, scheduled_at: later }: Pick<Email, 'status' | 'scheduled_at'>): boolean =>
  status === 'queued' && Boolean(later) && Date.parse(later ?? '') > now();

/**
 * What became of an email as soon as it was sent.
 *
 * @param onHold the service accepts mail but sends none
 */
export function whatBecame({ status, scheduled_at: later, error }: Email, onHold: boolean): string {
  if (status === 'suppressed') return 'Not sent: the recipient is on the suppression list.';
  if (status === 'failed') return `Not sent: ${error ?? 'it failed'}.`.replace(/\.\.$/, '.');
  if (later && Date.parse(later) > now()) return `Accepted. It will be sent ${exact(new Date(later))}.`;
  return onHold ? 'Accepted. It waits because the service is on hold.' : 'Accepted. It is being delivered.';
}

/** `bad_mailbox` as words. */
export const spaced = (name: string): string => name.replaceAll('_', ' ');

/** The subject, or a stand-in for an empty one. */
export const shownSubject = (subject: string): string => subject.trim() || '(no subject)';

/** The address in what was pasted, such as `Ann <a@b.test>` or a link; without one, the text itself. */
export function addressIn(text: string): string {
  const part = text.split(/[\s<>"(),;]/).find((one) => one.includes('@'));
  return part?.replace(/^mailto:/i, '').replace(/\.$/, '') ?? text;
}

/** A host, or a part of one, as it is listed: its own letters are encoded there. */
export function hostIn(text: string): string {
  const isEncoded = !/\P{ASCII}/u.test(text) || !URL.canParse(`http://${text}`);
  return isEncoded ? text.toLowerCase() : new URL(`http://${text}`).hostname;
}

/** An address as it is stored: in lower case, and the letters of its domain encoded. */
export function storedAs(address: string): string {
  const domainAt = address.lastIndexOf('@') + 1;
  return address.slice(0, domainAt).trimStart().toLowerCase() + hostIn(address.slice(domainAt).trimEnd());
}

/** As the email's header has it; the server makes it of the id and the sender's domain. */
export const messageIdOf = ({ id, from }: Pick<Email, 'id' | 'from'>): string =>
  `<${id}@${from.slice(from.lastIndexOf('@') + 1).replace('>', '')}>`;

const idOrMessageId = /^<?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:@[^<>]+>)?$/i;

/** The email's id if this is one, or a Message-ID in its brackets; else null. */
export const emailIdIn = (text: string): string | null => idOrMessageId.exec(text.trim())?.[1]?.toLowerCase() ?? null;
