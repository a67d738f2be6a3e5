/** A longer name is no spelling of one of ours, the longest of which have 64 letters. */
const longestName = 100;

/** A name in the form in which names are compared: the same for `replyTo`, `reply-to`, `Reply To` and `reply_to`. */
export const plainly = (name: string) => name.slice(0, longestName).toLowerCase().replaceAll(/[-_ ]/g, '');
