import { codes } from './codes.ts';
import { identity } from './identity.ts';
import { known } from './known.ts';
import { message } from './message.ts';
import { policy } from './policy.ts';
import { recipient } from './recipient.ts';
import type { Rule } from './rule.ts';
import { sender, senderCodes, verification } from './sender.ts';
import { server } from './server.ts';
import { standing } from './standing.ts';
import { volume } from './volume.ts';

/**
 * What servers say, in order of precedence. Rules about us (our identity, volume, reputation) come before rules about the
 * recipient: a block phrased as "no such user" must not suppress anybody.
 */
export const rules: readonly Rule[] = [
  ...verification,
  ...known,
  ...identity,
  ...senderCodes,
  ...volume,
  ...message,
  ...standing,
  ...policy,
  ...sender,
  ...recipient,
  ...server,
  ...codes,
];
