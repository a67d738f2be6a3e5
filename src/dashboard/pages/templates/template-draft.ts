import type { ChangeTemplateBody, Template } from '../../../client/index.ts';

/** The fields being edited: emails use none of this until it is published. */
export interface Draft {
  name: string;
  alias: string;
  from: string;
  /** Not among the fields; kept for the names in braces. */
  reply_to: string[];
  subject: string;
  html: string;
  text: string;
  variables: Template['variables'];
}

export const draftOf = ({ name, alias, from, reply_to, subject, html, text, variables }: Template): Draft => ({
  name,
  alias: alias ?? '',
  from: from ?? '',
  reply_to,
  subject: subject ?? '',
  html: html ?? '',
  text: text ?? '',
  variables,
});

/** The names in braces, in order of appearance. */
export const placeholders = ({ subject, html, text, from, reply_to }: Draft): string[] => [
  ...new Set(
    [
      ...`${subject} ${from} ${html} ${text} ${reply_to.join(' ')}`.matchAll(
        /\{\{\{?\s{0,9}([A-Za-z_]\w{0,63})\s{0,9}\}\}/g,
      ),
    ].map(([, key = '']) => key),
  ),
];

/** A number instead of text if the variable is a number. */
export const asTyped = (value: string, { type }: Pick<Draft['variables'][number], 'type'>): string | number | null =>
  value === '' ? null : type === 'number' && Number.isFinite(Number(value)) ? Number(value) : value;

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** The changes that differ from the other's fields. */
export const without = (changes: Partial<Draft>, other: Partial<Draft>): Partial<Draft> =>
  Object.fromEntries(
    Object.entries(changes).filter(([name, value]) => !isSame(value, other[name as keyof Draft])),
  ) as Partial<Draft>;

/** In the API's form: empty fields become null. */
export const bodyOf = (changes: Partial<Draft>): ChangeTemplateBody =>
  Object.fromEntries(
    Object.entries(changes).map(([name, value]) => [name, value === '' && name !== 'name' ? null : value]),
  ) as ChangeTemplateBody;
