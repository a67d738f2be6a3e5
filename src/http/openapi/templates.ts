import { z } from 'zod';
import { newTemplate, previewRequest, publishRequest, templateChanges } from '../input/template-fields.ts';
import { templateQuery } from '../routes/templates.ts';
import { type Group, message } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, list, oneOf, time, total, words } from './schema.ts';

const summaryFields = {
  id: id('Its id.'),
  name: words('Its name.'),
  alias: words('A name to use in place of the id.').nullable(),
  status: oneOf(['draft', 'published'], 'You can send with a `published` template.'),
  published_at: time('When it was last published; null if it never was.').nullable(),
  created_at: time('When it was created.'),
  updated_at: time('When it was last changed.'),
};

const summary = z.object(summaryFields).meta({ id: 'TemplateSummary', description: 'A template in a list.' });

const template = z
  .object({
    ...summaryFields,
    has_unpublished_changes: flag('The draft differs from the published version.'),
    from: words('The sender, unless the email has one.').nullable(),
    subject: words('The subject, unless the email has one.').nullable(),
    reply_to: list(z.string(), 'Where replies go.'),
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
    variables: list(
      z.object({
        key: words('The name between the braces.'),
        type: oneOf(['string', 'number'], 'The type of its values.'),
        fallback_value: z
          .union([z.string(), z.number(), z.null()])
          .describe('The value to use if the email has none; null: a value is required.'),
      }),
      'The declared variables.',
    ),
  })
  .meta({ id: 'Template', description: "A template with its draft's content." });

const rendered = z
  .object({
    subject: words('The subject.').nullable(),
    from: words('The sender.').nullable(),
    reply_to: list(z.string(), 'Where replies go.'),
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
  })
  .meta({ id: 'RenderedTemplate', description: 'The email that a template would produce.' });

const content = {
  alias: 'shipped',
  from: samples.from,
  subject: 'Order {{{ORDER}}} is on its way',
  html: '<p>Dear {{NAME}}, order {{ORDER}} is on its way.</p>',
  variables: [
    { key: 'NAME', type: 'string', fallback_value: 'customer' },
    { key: 'ORDER', type: 'number', fallback_value: null },
  ],
};

const summaryExample = {
  id: samples.template,
  name: 'Shipped',
  alias: 'shipped',
  status: 'draft',
  published_at: null,
  created_at: samples.createdAt,
  updated_at: samples.createdAt,
};

const example = { ...summaryExample, has_unpublished_changes: true, reply_to: [], text: null, ...content };

const published = { status: 'published', published_at: '2026-11-21T09:10:00.000Z' };

const aliasTaken = {
  status: 400,
  error: 'invalid request',
  when: 'Another template of the account already has the alias.',
  detail: 'alias: is used by another template',
};

const params = { id: "The template's id." };

export const templateGroup: Group = {
  name: 'Templates',
  description:
    'Emails with placeholders for values. Edits change the draft; emails are sent with the version that was published last. If a request has both credentials, the key is used.',
  operations: [
    {
      id: 'createTemplate',
      method: 'post',
      path: '/api/v1/templates',
      summary: 'Create a template',
      description:
        'Creates a draft; publish it to send with it. Anything in two or three braces that is not a key, such as `{{user.name}}`, is refused, because it would be sent literally. Empty, single and unclosed braces are text, and so are braces around more than 100 characters and the first brace of `{{{KEY}}`. An API key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      body: { schema: newTemplate, example: { name: 'Shipped', ...content } },
      answer: {
        status: 201,
        description: 'The new draft.',
        schema: z.object({ template }),
        example: { template: example },
      },
      refusals: [aliasTaken],
    },
    {
      id: 'listTemplates',
      method: 'get',
      path: '/api/v1/templates',
      summary: 'List templates',
      description: "The account's templates, newest first, without their content.",
      access: { key: 'read', orLogin: true },
      query: templateQuery,
      answer: {
        description: 'One page.',
        schema: z.object({ templates: list(summary, 'The page.'), count: total }),
        example: { templates: [summaryExample], count: 1 },
      },
    },
    {
      id: 'getTemplate',
      method: 'get',
      path: '/api/v1/templates/:id',
      summary: 'Get a template',
      description: "One template with its draft's content.",
      access: { key: 'read', orLogin: true },
      params,
      answer: { description: 'The template.', schema: z.object({ template }), example: { template: example } },
    },
    {
      id: 'changeTemplate',
      method: 'patch',
      path: '/api/v1/templates/:id',
      summary: 'Change a template',
      description:
        'Changes the draft; name and alias change at once. Fields that you omit do not change, and `null` clears a field. Emails are still sent with the published version. An API key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: templateChanges, example: { subject: 'Order {{{ORDER}}} was sent' } },
      answer: {
        description: 'The changed template.',
        schema: z.object({ template }),
        example: { template: { ...example, subject: 'Order {{{ORDER}}} was sent' } },
      },
      refusals: [aliasTaken],
    },
    {
      id: 'removeTemplate',
      method: 'delete',
      path: '/api/v1/templates/:id',
      summary: 'Remove a template',
      description:
        'Emails that were accepted with it are still sent. An API key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      params,
      answer: {
        description: 'The template is removed.',
        schema: message,
        example: { message: 'the template was removed' },
      },
    },
    {
      id: 'publishTemplate',
      method: 'post',
      path: '/api/v1/templates/:id/publish',
      summary: 'Publish a template',
      description:
        'Emails are sent with the current draft from now on. An API key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: publishRequest, example: { updated_at: summaryExample.updated_at }, optional: true },
      answer: {
        description: 'The published template.',
        schema: z.object({ template }),
        example: { template: { ...example, ...published, has_unpublished_changes: false } },
      },
      refusals: [
        {
          status: 400,
          error: 'invalid request',
          when: 'The draft has neither html nor text, or an older version of the server stored it and it has braces that are not a placeholder.',
          detail: 'html: html or text is required before a template is published',
        },
        {
          status: 409,
          error: 'conflict',
          when: 'The template has changed since `updated_at`.',
          detail: 'the template has changed since then: read it again before you publish it',
        },
      ],
    },
    {
      id: 'renderTemplate',
      method: 'post',
      path: '/api/v1/templates/:id/render',
      summary: 'Render a template',
      description: 'Shows the email that these values would produce. Nothing is sent.',
      access: { key: 'read', orLogin: true },
      params,
      body: {
        schema: previewRequest,
        example: { variables: { NAME: 'Ann', ORDER: 7 }, version: 'draft' },
        optional: true,
      },
      answer: {
        description: 'The rendered template.',
        schema: rendered,
        example: {
          subject: 'Order 7 is on its way',
          from: samples.from,
          reply_to: [],
          html: '<p>Dear Ann, order 7 is on its way.</p>',
          text: null,
        },
      },
    },
  ],
};
