import type { Claim } from '../../src/core/recipients/recipients.ts';
import { newId } from '../../src/ids.ts';

/** A claim for these addresses of one domain, as a node has one in hand; what is not given is new, and in no database. */
export const buildClaim = ({
  to = [],
  attempts = 0,
  ...fields
}: Partial<Claim> & { to?: string[]; attempts?: number } = {}): Claim => ({
  nodeId: newId(),
  jobId: newId(),
  emailId: newId(),
  destination: to[0]?.split('@')[1] ?? 'a.test',
  priority: 0,
  recipients: to.map((address, position) => ({ position, address, attempts })),
  ...fields,
});
