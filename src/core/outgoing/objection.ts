import type { OutgoingEmail } from './outgoing.ts';

/** Why an accepted email must no longer be sent. Attempts are stored with these words, and advice goes by them: never change them. */
export const objections = {
  domain: 'the sender domain was removed, or is no longer verified',
  account: 'the account is suspended',
  key: 'the API key that scheduled it was revoked',
};

/** What an objection follows from. @see OutgoingEmail */
export type Standing = Pick<OutgoingEmail, 'suspended' | 'revoked'> & { signing: object | null };

/** Why an email must no longer be sent; null: it may. */
export function objectionTo(email: Standing | undefined): string | null {
  if (!email?.signing) return objections.domain;
  if (email.suspended) return objections.account;
  return email.revoked ? objections.key : null;
}
