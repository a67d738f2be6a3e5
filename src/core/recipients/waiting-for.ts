/**
 * The values of `recipients.waiting_for`: why a recipient waits, if not because an attempt has just failed. People read them,
 * and statements find by them what is to go on. Nodes of the previous and the next release do so too: never change the words.
 */

/** `next_attempt_at` of recipients that wait until somebody says otherwise, as while a destination is paused. */
export const pausedUntil = new Date('9999-01-01T00:00:00Z');

/** While this name is paused. */
export const pauseOf = (name: string) => `paused: ${name}`;

/** While a pool has no room left today; the stored text goes on after this. */
export const warmUpOf = (pool: string) => `warm-up of pool ${pool}`;

/** While nodes hold as much mail for a site as it takes in a while. */
export const tooMuchFor = (site: string) => `${site} gets what it bears at a time`;

/** While its node awaits the answer to the whole message; see `unanswered.ts`. */
export const unansweredNote = 'the answer to the whole message';

/** For a recipient that may have got the message, and is held until somebody decides. */
export const heldNote = 'held: it may have been delivered';

/** For a recipient that may be what ends processes: so many in a row ended while they had it. */
export const crashedNote = 'held: processes ended while they had it';

/** The notes of recipients that are held until somebody decides. */
export const heldNotes = [heldNote, crashedNote];
