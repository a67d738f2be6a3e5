/**
 * What `recipients.waiting_for` says: why a recipient waits, where that is not because an attempt has just failed. People read it,
 * and statements find by it what is to go on; nodes of the releases before and after do so too, so words stay as they are.
 */

/** Until when waits what waits until somebody says otherwise, as while a destination is paused. */
export const pausedUntil = new Date('9999-01-01T00:00:00Z');

/** While this name is paused. */
export const pauseOf = (name: string) => `paused: ${name}`;

/** While a pool has no room today; more follows behind it. */
export const warmUpOf = (pool: string) => `warm-up of pool ${pool}`;

/** While a site has more in hand than it takes in a time. */
export const tooMuchFor = (site: string) => `${site} gets what it bears at a time`;

/** While a node is sending it, and may have sent it; see `unanswered.ts`. */
export const unansweredNote = 'the answer to the whole message';

/** Of one that may have got the message, and is held until somebody decides. */
export const heldNote = 'held: it may have been delivered';

/** Of one that so many processes in a row ended with that it may be what ends them. */
export const crashedNote = 'held: processes ended while they had it';

/** What is held until somebody decides. */
export const heldNotes = [heldNote, crashedNote];
