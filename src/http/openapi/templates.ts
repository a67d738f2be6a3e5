import { z } from 'zod';
import { newTemplate, previewRequest, publishRequest, templateChanges } from '../template-fields.ts';
import { page } from '../validation.ts';
import { type Group, message } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, list, oneOf, time, total, words } from './schema.ts';

const summaryFields = {
  id: id('Its id.'),
  name: words('What people call it.'),
  alias: words('The name to send with instead of the id.').nullable(),
  status: oneOf(['draft', 'published'], 'Emails can be made from a `published` one.'),
  published_at: time('When it was last published; null before the first time.').nullable(),
  created_at: time('When it was created.'),
  updated_at: time('When it was last changed.'),
};

const summary = z.object(summaryFields).meta({ id: 'TemplateSummary', description: 'A template in a list.' });

const template = z
  .object({
    ...summaryFields,
    has_unpublished_changes: flag('The draft says something else than what is published.'),
    from: words('The sender of emails that name none.').nullable(),
    subject: words('The subject of emails that have none.').nullable(),
    reply_to: list(z.string(), 'Where answers go.'),
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
    variables: list(
      z.object({
        key: words('What stands between the braces.'),
        type: oneOf(['string', 'number'], 'What its values must be.'),
        fallback_value: z
          .union([z.string(), z.number(), z.null()])
          .describe('What stands in where no value is given; null: one must be given.'),
      }),
      'What is declared.',
    ),
  })
  .meta({ id: 'Template', description: "A template with its draft's content." });

const rendered = z
  .object({
    subject: words('The subject.').nullable(),
    from: words('The sender.').nullable(),
    reply_to: list(z.string(), 'Where answers go.'),
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
  })
  .meta({ id: 'RenderedTemplate', description: 'What an email would say.' });

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
  when: 'Another template of the account has the alias.',
  detail: 'alias: is used by another template',
};

const params = { id: "The template's id." };

export const templateGroup: Group = {
  name: 'Templates',
  description:
    'Emails with places for values. Edits change the draft; emails are made from what was published last. With both credentials in a request the key counts.',
  operations: [
    {
      id: 'createTemplate',
      method: 'post',
      path: '/api/v1/templates',
      summary: 'Create a template',
      description:
        'It is a draft until it is published. What stands in two or three braces and is no key, such as `{{user.name}}`, is refused, as it would go out as it is; braces around nothing, single ones and those that do not close are text, and of `{{{KEY}}` the first one is. A key that is restricted to domains may not.',
      access: { key: 'send', orLogin: true },
      body: { schema: newTemplate, example: { name: 'Shipped', ...content } },
      answer: {
        status: 201,
        description: 'It is created.',
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
      query: z.object(page),
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
        'What is not given stays, and `null` clears. Changes the draft; name and alias change at once. Emails are made from what is published, as before. A key that is restricted to domains may not.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: templateChanges, example: { subject: 'Order {{{ORDER}}} was sent' } },
      answer: {
        description: 'It is changed.',
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
        'Emails that were accepted with it are sent all the same. A key that is restricted to domains may not.',
      access: { key: 'send', orLogin: true },
      params,
      answer: { description: 'It is removed.', schema: message, example: { message: 'the template was removed' } },
    },
    {
      id: 'publishTemplate',
      method: 'post',
      path: '/api/v1/templates/:id/publish',
      summary: 'Publish a template',
      description: 'Emails are made from the draft as it is now. A key that is restricted to domains may not.',
      access: { key: 'send', orLogin: true },
      params,
      body: { schema: publishRequest, example: { updated_at: summaryExample.updated_at }, optional: true },
      answer: {
        description: 'It is published.',
        schema: z.object({ template }),
        example: { template: { ...example, ...published, has_unpublished_changes: false } },
      },
      refusals: [
        {
          status: 400,
          error: 'invalid request',
          when: 'The draft has neither html nor text, or it is from a time when anything was taken for text, and holds what is no placeholder.',
          detail: 'html: html or text is required before a template is published',
        },
        {
          status: 409,
          error: 'conflict',
          when: 'The template has changed since `updated_at`.',
          detail: 'the template has changed since then: look at what it says now before it is published',
        },
      ],
    },
    {
      id: 'renderTemplate',
      method: 'post',
      path: '/api/v1/templates/:id/render',
      summary: 'Render a template',
      description: 'What an email would say with these values. Nothing is sent.',
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
