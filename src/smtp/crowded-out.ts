import { classify } from './classify.ts';
import type { RecipientResult } from './result.ts';
import type { TransactionEnd } from './transaction.ts';

/**
 * Those of a connection's recipients whom a message had no room for (RFC 5321 section 4.5.3.1.10), and what was said of each
 * then: the next message is for them.
 */
export class CrowdedOut {
  #said = new Map<string, RecipientResult>();

  /**
   * The end of a message as it counts for those whom the one before had no room for. That one was accepted, from the same
   * sender, so only a verdict on them or on the content is about them; whatever else keeps the next one from being sent is
   * about the connection, and they wait by what was said at first.
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

  /** Remembers whom this message had no room for, and says who that is. */
  remember({ crowdedOut, results }: TransactionEnd): string[] {
    this.#said = new Map(
      results.flatMap((result) => (crowdedOut.includes(result.recipient) ? [[result.recipient, result] as const] : [])),
    );
    return crowdedOut;
  }
}

/** True where it was sent, or refused for what it holds or for the recipient's sake, or is not to be sent by us any more. */
function isAboutThem({ outcome, uncertain, phase, reply }: RecipientResult): boolean {
  if (outcome === 'delivered' || uncertain || phase === 'dot' || phase === 'local') return true;
  return phase === 'rcpt' && reply !== null && reply.code !== 421 && classify(phase, reply) !== 'rate';
}
