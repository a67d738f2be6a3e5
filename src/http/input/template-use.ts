import { z } from 'zod';
import type { TemplateUse } from '../../core/emails/template-sending.ts';
import { grouped } from '../../numbers.ts';
import { line, namedValues } from './validation.ts';

const mostVariables = 100;
const longestValue = 100 * 1024;

const shownAs = {
  type: 'object',
  maxProperties: mostVariables,
  additionalProperties: { type: ['string', 'number', 'null'], maxLength: longestValue },
};

/** The values of a template's variables, by key: strings and numbers. Unknown keys are ignored, unless they differ from a known one only in case, `_` or `-`. */
export const templateVariables = namedValues('{"NAME": "Ann"}')
  .superRefine((value, context) => {
    const entries = Object.entries(value);
    if (entries.length > mostVariables) {
      context.addIssue(`must have at most ${mostVariables} entries`);
      return;
    }
    for (const [key, each] of entries) {
      const refused = refuseValue(each);
      if (refused) context.addIssue({ code: 'custom', path: [key], message: refused });
    }
  })
  .meta({ shownAs });

/** The `template` of a send request. */
export const templateUse = z
  .object(
    {
      id: line(100).nullish().describe("The template's id. Required when `alias` is omitted."),
      alias: line(100).nullish().describe("The template's alias. Required when `id` is omitted."),
      variables: templateVariables.nullish().describe('The values of its variables, by key.'),
    },
    { error: 'must be an object, such as {"alias": "welcome"}' },
  )
  .transform(({ id, alias, variables }, context): TemplateUse => {
    if (id && alias) context.addIssue({ code: 'custom', path: ['alias'], message: 'must be omitted when id is given' });
    const ref = id ? { id: id.toLowerCase() } : alias ? { alias } : null;
    if (ref) return { ref, variables: variables ?? {} };
    context.addIssue({ code: 'custom', path: ['id'], message: 'is required when alias is omitted' });
    return z.NEVER;
  });

/** Null counts as absent. */
function refuseValue(value: unknown): string | null {
  if (value === null) return null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'must be a finite number';
  if (typeof value !== 'string') return 'must be a string or a number';
  if (value.length > longestValue) return `must have at most ${grouped(longestValue)} characters`;
  if (value.includes('\0')) return 'contains a NUL character';
  return value.isWellFormed() ? null : 'contains half of a surrogate pair';
}
