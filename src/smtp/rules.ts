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
 * What servers say, in the order in which it is looked for. Whatever speaks of us (who we are, how much we send, our name)
 * stands before whatever speaks of the recipient: a block in the words of "no such user" must not suppress anybody.
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
