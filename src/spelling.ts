/** A longer name is no spelling of one of ours, the longest of which have 64 letters. */
const longestName = 100;

/** A name in the form in which names are compared: the same for `replyTo`, `reply-to`, `Reply To` and `reply_to`. */
export const plainly = (name: string) => name.slice(0, longestName).toLowerCase().replaceAll(/[-_ ]/g, '');

/** In shorter names, one letter more or less makes another word. */
const shortestMistyped = 5;

/** Whether a name, in the form of `plainly`, is ours or differs from it by one missing, extra, wrong or swapped letter. */
export function isNearly(ours: string, written: string): boolean {
  if (ours.length < shortestMistyped || Math.abs(ours.length - written.length) > 1) return ours === written;
  let same = 0;
  while (same < ours.length && ours[same] === written[same]) same += 1;
  const [rest, other] = [ours.slice(same), written.slice(same)];
  const swapped = rest[0] === other[1] && rest[1] === other[0] && rest.slice(2) === other.slice(2);
  return swapped || rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1);
}
