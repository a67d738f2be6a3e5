import type { RecipientResult } from '../replies/result.ts';
import { classify } from '../rules/classify.ts';
import type { TransactionEnd } from './transaction.ts';

/**
 * The recipients of a connection that the last message had no room for (RFC 5321 section 4.5.3.1.10), and what the server
 * said about each. The next message is for them.
 */
export class CrowdedOut {
  #said = new Map<string, RecipientResult>();

  /**
   * Corrects a message's results for the recipients that the previous one had no room for. The server accepted that one from
   * the same sender, so only a verdict on these recipients or on the content is about them. Any other obstacle is about
   * the connection, and they keep the result they had.
   */
  amend(end: TransactionEnd): TransactionEnd {
    const waiting = new Map(
      end.results.flatMap((result) => {
        const said = this.#said.get(result.recipient);
        const counts = end.crowdedOut.includes(result.recipient) || isAboutThem(result);
        return said === undefined || counts ? [] : [[result.recipient, said] as const];
      }),
    );
    return {
      ...end,
      results: end.results.map((result) => waiting.get(result.recipient) ?? result),
      elsewhere: end.elsewhere.filter((recipient) => !waiting.has(recipient)),
      limited: end.limited || waiting.size > 0,
    };
  }

  /** Remembers the recipients that this message had no room for, and returns them. */
  remember({ crowdedOut, results }: TransactionEnd): string[] {
    this.#said = new Map(
      results.flatMap((result) => (crowdedOut.includes(result.recipient) ? [[result.recipient, result] as const] : [])),
    );
    return crowdedOut;
  }
}

/** True if it was sent, was refused for its content or its recipient, or we decided ourselves not to send it. */
function isAboutThem({ outcome, uncertain, phase, reply }: RecipientResult): boolean {
  if (outcome === 'delivered' || uncertain || phase === 'dot' || phase === 'local') return true;
  return phase === 'rcpt' && reply !== null && reply.code !== 421 && classify(phase, reply) !== 'rate';
}
