import type { ChangeTemplateBody, Template } from '../../client/index.ts';

/** What is edited: nothing of it is sent before it is published. */
export interface Draft {
  name: string;
  alias: string;
  from: string;
  subject: string;
  html: string;
  text: string;
  variables: Template['variables'];
}

export const draftOf = ({ name, alias, from, subject, html, text, variables }: Template): Draft => ({
  name,
  alias: alias ?? '',
  from: from ?? '',
  subject: subject ?? '',
  html: html ?? '',
  text: text ?? '',
  variables,
});

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** What of the changes is not in the other already. */
export const without = (changes: Partial<Draft>, other: Partial<Draft>): Partial<Draft> =>
  Object.fromEntries(
    Object.entries(changes).filter(([name, value]) => !isSame(value, other[name as keyof Draft])),
  ) as Partial<Draft>;

/** As the API takes it: what is empty is none. */
export const bodyOf = (changes: Partial<Draft>): ChangeTemplateBody =>
  Object.fromEntries(
    Object.entries(changes).map(([name, value]) => [name, value === '' && name !== 'name' ? null : value]),
  ) as ChangeTemplateBody;
