import { z } from 'zod';
import { limits } from '../../core/accounts/send-limits.ts';
import {
  holdsTooManyPlaceholders,
  isKey,
  mostPlaceholders,
  refuseMailboxPattern,
  refusePlaceholders,
  type TemplateContent,
} from '../../mail/template/template.ts';
import { hasLostDigits, lostDigits } from '../../mail/template/template-values.ts';
import { grouped } from '../../numbers.ts';
import { templateVariables } from './template-use.ts';
import { label, line, list, oneOf, oneOrMore, text, timestamp, wordsForMember, wordsForOnly } from './validation.ts';

const mostVariables = 50;
const longestFallback = 2_000;

const holdGoodPlaceholders = (value: string, context: z.RefinementCtx) => {
  const refused = holdsTooManyPlaceholders(value)
    ? `must have at most ${grouped(mostPlaceholders)} placeholders`
    : refusePlaceholders(value);
  if (refused) context.addIssue(refused);
};

const body = text(limits.body).superRefine(holdGoodPlaceholders);

/** One address or `Name <address>`, both with placeholders. */
const mailboxPattern = patternOf(wordsForOnly);
const memberPattern = patternOf(wordsForMember);

function patternOf(wordsFor: typeof wordsForMember) {
  return line(1_000).superRefine((value, context) => {
    const badPlaceholder = refusePlaceholders(value);
    const badMailbox = badPlaceholder === null ? refuseMailboxPattern(value) : null;
    if (badPlaceholder !== null) context.addIssue(badPlaceholder);
    if (badMailbox !== null) context.addIssue(wordsFor(value, badMailbox));
  });
}

const variable = z
  .object(
    {
      key: line(64)
        .refine(isKey, 'must have only letters, digits and _, and not begin with a digit')
        .meta({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' })
        .describe('The name between the braces.'),
      type: oneOf(['string', 'number']).describe('The type of its values.'),
      fallback_value: z
        .union([text(longestFallback), z.number()], {
          // A refused string gets its own error.
          error: ({ input, errors }) =>
            (typeof input === 'string' && errors?.[0]?.[0]?.message) || 'must be a string or a number',
        })
        .nullish()
        .describe('The value to use if the email has none. Omitted: a value is required.'),
    },
    { error: 'must be an object' },
  )
  .transform(({ key, type, fallback_value: given }, context) => {
    const fallback = given ?? null;
    if (fallback !== null && typeof fallback !== type)
      context.addIssue({ code: 'custom', path: ['fallback_value'], message: `must be a ${type}` });
    if (typeof fallback === 'number' && hasLostDigits(fallback))
      context.addIssue({ code: 'custom', path: ['fallback_value'], message: lostDigits });
    return { key, type, fallback };
  });

const variables = list(variable, mostVariables).superRefine((value, context) => {
  const seen = new Set<string>();
  for (const [index, { key }] of value.entries()) {
    if (seen.has(key)) context.addIssue({ code: 'custom', path: [index, 'key'], message: 'is declared twice' });
    seen.add(key);
  }
});

const aliasPattern = /^[A-Za-z0-9._-]+$/;

const alias = line(100)
  .refine((value) => aliasPattern.test(value), 'must have only letters, digits, dots, underscores and hyphens')
  .meta({ pattern: aliasPattern.source });

const content = {
  alias: alias.nullish().describe('A name to use instead of the id when sending, unique within the account.'),
  from: mailboxPattern.nullish().describe('The default sender, for emails without one.'),
  subject: line(limits.subject)
    .superRefine(holdGoodPlaceholders)
    .nullish()
    .describe('The default subject, for emails without one.'),
  reply_to: z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z
        .array(memberPattern, { error: 'must be a string or an array of strings' })
        .max(limits.recipients, `must have at most ${limits.recipients} addresses`),
    )
    .meta(oneOrMore(limits.recipients))
    .nullish()
    .describe('The default reply address, for emails without one.'),
  html: body.nullish().describe('The body as HTML. `{{KEY}}` inserts a value escaped, `{{{KEY}}}` unescaped.'),
  text: body.nullish().describe('The body as plain text. `{{KEY}}` and `{{{KEY}}}` both insert a value unescaped.'),
  variables: variables
    .nullish()
    .describe('Types and fallback values of variables. A placeholder need not be declared.'),
};

const name = label.describe('The name of the template.');

export const newTemplate = z.object({ name, ...content });

/** Omitted fields stay; null clears a field, except the name. */
export const templateChanges = z.object({ name: name.optional(), ...content });

export const previewRequest = z.object({
  variables: templateVariables.nullish().describe('The values of its variables, by key.'),
  version: oneOf(['draft', 'published']).nullish().describe('The version to render. Defaults to `draft`.'),
});

export const publishRequest = z.object({
  updated_at: timestamp
    .nullish()
    .describe(
      'The `updated_at` that you last saw: the template is published only if nobody has changed it since. Omitted: the draft is published as it is.',
    ),
});

/** The fields of the content that were given; null becomes the value in an empty template. */
export function givenContent(input: z.output<typeof templateChanges>): Partial<TemplateContent> {
  const { from, subject, reply_to: replyTo, html, text: plain, variables: declared } = input;
  return {
    ...(from === undefined ? {} : { from }),
    ...(subject === undefined ? {} : { subject }),
    ...(replyTo === undefined ? {} : { replyTo: replyTo ?? [] }),
    ...(html === undefined ? {} : { html }),
    ...(plain === undefined ? {} : { text: plain }),
    ...(declared === undefined ? {} : { variables: declared ?? [] }),
  };
}
