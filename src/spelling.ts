/** A longer name is nobody's way of writing one of ours, of which the longest have 64 letters. */
const longestName = 100;

/** A name as it is compared with another one: the same for `replyTo`, `reply-to`, `Reply To` and `reply_to`. */
export const plainly = (name: string) => name.slice(0, longestName).toLowerCase().replaceAll(/[-_ ]/g, '');
