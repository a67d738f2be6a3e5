import type { Header } from './headers.ts';

/** Gmail wants 5 to 15 characters that are the same in all mail of a sender. */
const sender = 'sendwright';

/**
 * A Feedback-ID, which DKIM signs: Gmail's Postmaster Tools count complaints by each of its parts, here by account and by
 * type, so that whoever sends for several customers sees whose mail people complain about.
 */
export const feedbackId = (accountId: string, type: string): Header => ({
  name: 'Feedback-ID',
  value: `${accountId}:${type}:${sender}`,
});

/** True for the field of a sender who counts complaints by parts of their own; then we add none. */
export const isFeedbackId = (name: string): boolean => /^feedback-id$/i.test(name);
