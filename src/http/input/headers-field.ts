import { z } from 'zod';
import { limits } from '../../core/accounts/send-limits.ts';
import { longestValue, refuseHeader } from '../../mail/headers/headers.ts';
import { namedValues } from './validation.ts';

/**
 * The maximum length of `References`, enough for about a hundred ids: it grows with each reply in a thread (RFC 5322 section
 * 3.6.4), and clients that reply should not have to cut it.
 */
const longestReferences = 10_000;

const longestValueOf = (name: string) => (name.toLowerCase() === 'references' ? longestReferences : longestValue);

/** The fields of a request that become headers, by the header's name in lower case. */
const fieldOf = new Map([
  ...['from', 'to', 'cc', 'bcc', 'subject'].map((name) => [name, name] as const),
  ['reply-to', 'reply_to'],
]);

function refuseOwnHeader(name: string, value: string): string | null {
  const field = fieldOf.get(name.toLowerCase());
  return field === undefined ? refuseHeader(name, value, longestValueOf(name)) : `use the field ${field} instead`;
}

/** The `headers` of a send request. */
export const headers = namedValues('{"X-Order": "501"}')
  .transform((value, context) => {
    if (Object.keys(value).length > limits.headers) {
      context.addIssue(`must have at most ${limits.headers} entries`);
      return z.NEVER;
    }
    return Object.entries(value).flatMap(([name, content]) => {
      const refused = typeof content === 'string' ? refuseOwnHeader(name, content) : 'must be a string';
      if (refused) context.addIssue({ code: 'custom', path: [name], message: refused });
      return typeof content === 'string' ? [{ name, value: content }] : [];
    });
  })
  .meta({
    shownAs: {
      type: 'object',
      maxProperties: limits.headers,
      properties: {
        References: {
          type: 'string',
          minLength: 1,
          maxLength: longestReferences,
          description: 'The Message-IDs of the thread.',
        },
      },
      additionalProperties: { type: 'string', minLength: 1, maxLength: longestValue },
    },
  });
