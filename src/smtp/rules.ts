import { codes } from './rules/codes.ts';
import { identity } from './rules/identity.ts';
import { known } from './rules/known.ts';
import { message } from './rules/message.ts';
import { policy } from './rules/policy.ts';
import { recipient } from './rules/recipient.ts';
import type { Rule } from './rules/rule.ts';
import { sender, senderCodes, verification } from './rules/sender.ts';
import { server } from './rules/server.ts';
import { standing } from './rules/standing.ts';
import { volume } from './rules/volume.ts';

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
