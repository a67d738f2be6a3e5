/**
 * The values of `recipients.waiting_for`: why a recipient waits, if not because an attempt has just failed. People read them,
 * and statements select by them which recipients go on. Nodes of other releases do so too: never change the words.
 */

/** `next_attempt_at` of recipients that wait until somebody says otherwise, as while a destination is paused. */
export const pausedUntil = new Date('9999-01-01T00:00:00Z');

/** While the destination or site of this name is paused. */
export const pauseOf = (name: string) => `paused: ${name}`;

/** The name of the destination or site in such a note; null: it is another note. */
export const pausedBy = (note: string): string | null =>
  note.startsWith(pauseOf('')) ? note.slice(pauseOf('').length) : null;

/** While a pool has no room left today; this is how the stored text begins. */
export const warmUpOf = (pool: string) => `warm-up of pool ${pool}`;

/** While nodes hold as much mail for a site as it takes in a while. */
export const tooMuchFor = (site: string) => `${site} gets what it bears at a time`;

/** While its node awaits the answer to the whole message; see `unanswered.ts`. */
export const unansweredNote = 'the answer to the whole message';

/** How the notes of recipients that are held until somebody decides begin. The API promises it: the dashboard goes by it. */
export const heldPrefix = 'held: ';

/** For a recipient that may have got the message, and is held until somebody decides. */
export const heldNote = `${heldPrefix}it may have been delivered`;

/** For a recipient that may be what crashes nodes: many in a row crashed while they had it in hand. */
export const crashedNote = `${heldPrefix}processes ended while they had it`;

/** The notes of recipients that are held until somebody decides. */
export const heldNotes = [heldNote, crashedNote];

/** The same as a list in SQL. */
export const heldNotesInSql = heldNotes.map((note) => `'${note}'`).join(', ');
