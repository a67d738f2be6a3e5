import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { type Recipe, subjectOf } from './recipe.ts';
import type { Collected } from './sink.ts';

/**
 * Verifies the signatures of some messages as a receiver does.
 *
 * ¶ @param resolveTxt the DNS records, null if there are none @throws Error if one is not signed by the sender's
 * domain, or is not the message that its recipient was to get
 */
export async function verifySignatures(
  recipe: Recipe,
  kept: Collected['kept'],
  resolveTxt: (name: string) => string | null,
): Promise<void> {
  if (kept.length === 0) throw new Error('no message was kept to verify its signature');
  for (const { index, raw } of kept) {
    const message = Buffer.from(Buffer.from(raw).toString('latin1').replace(/^\.\./gm, '.'), 'latin1');
    if (!message.includes(`\r\nSubject: ${subjectOf(recipe, index)}\r\n`)) {
      throw new Error(`message ${index} is not the one that was sent`);
    }
    const { results } = await dkimVerify(message, {
      resolver: async (name: string) => {
        const value = resolveTxt(name);
        if (value !== null) return [[value]];
        throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' });
      },
    });
    const [domain] = recipe.from.split('@').slice(-1);
    if (results.some((each) => each.signingDomain === domain && each.status.result === 'pass')) continue;
    const verdicts = results.map(({ status }) => `${status.result} ${status.comment ?? ''}`).join(', ');
    throw new Error(`message ${index} has no valid signature: ${verdicts || 'none'}`);
  }
}
