export const feedbackIdName = 'Feedback-ID';

/** Gmail wants 5 to 15 characters that are the same in all mail of a sender. */
const sender = 'sendwright';

/**
 * The value of a Feedback-ID, which DKIM signs: Gmail's Postmaster Tools count complaints by each of its parts, here by
 * account and by type, so that whoever sends for several customers sees whose mail people complain about.
 */
export const feedbackId = (accountId: string, type: string): string => `${accountId}:${type}:${sender}`;
