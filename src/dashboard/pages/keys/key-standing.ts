import type { ApiKey } from '../../../client/index.ts';
import { now } from '../../words/clock.ts';

/** Whether a key can be used, or why not. */
export const standing = ({ revoked_at: revoked, expires_at: end }: ApiKey): 'active' | 'revoked' | 'expired' =>
  revoked ? 'revoked' : end && Date.parse(end) < now() ? 'expired' : 'active';

/** What to do about a key that was not saved. */
export const revokeIt = 'revoke it, and create another';
