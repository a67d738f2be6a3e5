import { z } from 'zod';
import {
  isKey,
  longest,
  mostPlaceholders,
  placeholders,
  refuseMailboxPattern,
  type TemplateContent,
} from '../mail/template.ts';
import { limits } from './send-request.ts';
import { templateVariables } from './template-use.ts';
import { line, list, oneOf, text } from './validation.ts';

const mostVariables = 50;
const longestFallback = 2_000;

const fewPlaceholders = [
  (value: string) => placeholders(value).length <= mostPlaceholders,
  `may hold ${mostPlaceholders} placeholders at the most`,
] as const;

const body = text(longest.body).refine(...fewPlaceholders);

/** One address or `Name <address>`, either of them with placeholders. */
const mailboxPattern = line(1_000).superRefine((value, context) => {
  const refused = refuseMailboxPattern(value);
  if (refused) context.addIssue(refused);
});

const variable = z
  .object(
    {
      key: line(64).refine(isKey, 'must be letters, digits and _ and not begin with a digit'),
      type: oneOf(['string', 'number']),
      fallback_value: z.union([text(longestFallback), z.number()], { error: 'must be a string or a number' }).nullish(),
    },
    { error: 'must be an object' },
  )
  .transform(({ key, type, fallback_value: given }, context) => {
    const fallback = given ?? null;
    if (fallback !== null && typeof fallback !== type)
      context.addIssue({ code: 'custom', path: ['fallback_value'], message: `must be a ${type}` });
    return { key, type, fallback };
  });

const variables = list(variable, mostVariables).superRefine((value, context) => {
  const seen = new Set<string>();
  for (const [index, { key }] of value.entries()) {
    if (seen.has(key)) context.addIssue({ code: 'custom', path: [index, 'key'], message: 'is declared twice' });
    seen.add(key);
  }
});

const alias = line(100).refine(
  (value) => /^[A-Za-z0-9._-]+$/.test(value),
  'must be letters, digits, dots, underscores and hyphens',
);

const content = {
  alias: alias.nullish(),
  from: mailboxPattern.nullish(),
  subject: line(longest.subject)
    .refine(...fewPlaceholders)
    .nullish(),
  reply_to: z
    .preprocess(
      (value) => (typeof value === 'string' ? [value] : value),
      z
        .array(mailboxPattern, { error: 'must be a string or an array of strings' })
        .max(limits.recipients, `may have ${limits.recipients} addresses at the most`),
    )
    .nullish(),
  html: body.nullish(),
  text: body.nullish(),
  variables: variables.nullish(),
};

export const newTemplate = z.object({ name: line(200), ...content });

/** What is not given stays; null clears, except the name. */
export const templateChanges = z.object({ name: line(200).optional(), ...content });

export const previewRequest = z.object({
  variables: templateVariables.nullish(),
  version: oneOf(['draft', 'published']).nullish(),
});

/** The members of the content that were given; null as what an empty template has. */
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
