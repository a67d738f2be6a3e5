import type { Template } from '../../client/index.ts';

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
