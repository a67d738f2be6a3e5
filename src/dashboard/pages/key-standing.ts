import type { ApiKey } from '../../client/index.ts';

/** Whether a key can be used, or why not. */
export const standing = ({ revoked_at: revoked, expires_at: end }: ApiKey): 'active' | 'revoked' | 'expired' =>
  revoked ? 'revoked' : end && new Date(end) < new Date() ? 'expired' : 'active';
