import type Router from '@koa/router';
import { z } from 'zod';
import * as templates from '../../core/emails/templates.ts';
import { readJson, readOptionalJson } from '../body/body.ts';
import { demandLoginOrKey, demandWholeAccount, senderOf } from '../credentials/auth.ts';
import {
  givenContent,
  newTemplate,
  previewRequest,
  publishRequest,
  templateChanges,
} from '../input/template-fields.ts';
import { idOf, line, page, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

/** Enough for both bodies and the overhead of JSON. */
const bodyLimit = 40 * 1024 * 1024;
const publishLimit = 16 * 1024;

const empty = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };

export const templateQuery = z.object({
  ...page,
  q: line(200).optional().describe('Only templates with this text in their name or alias; case does not matter.'),
});

/** `POST`, `GET`, `GET /:id`, `PATCH`, `DELETE`, `POST /:id/publish` and `POST /:id/render` of `/templates`. */
export function templateRoutes(router: Router, services: Services): void {
  const { db } = services;
  // Emails from any domain can use a template, so a restricted key must not change one.
  const writer = [demandLoginOrKey(services, 'send'), demandWholeAccount];
  const reader = demandLoginOrKey(services, 'read');

  router.post('/templates', ...writer, async (ctx) => {
    const input = parse(newTemplate, await readJson(ctx, bodyLimit));
    const template = await templates.create(db, senderOf(ctx).accountId, {
      name: input.name,
      alias: input.alias ?? null,
      content: { ...empty, ...givenContent(input) },
    });
    ctx.status = 201;
    ctx.body = { template: present.template(template) };
  });

  router.get('/templates', reader, async (ctx) => {
    const { q, ...rest } = parse(templateQuery, ctx.query);
    const found = await templates.list(db, senderOf(ctx).accountId, { ...rest, q: q ?? null });
    ctx.body = { templates: found.templates.map(present.templateSummary), count: found.count };
  });

  router.get('/templates/:id', reader, async (ctx) => {
    ctx.body = { template: present.template(await templates.get(db, senderOf(ctx).accountId, idOf(ctx))) };
  });

  router.patch('/templates/:id', ...writer, async (ctx) => {
    const input = parse(templateChanges, await readJson(ctx, bodyLimit));
    const changes = { name: input.name, alias: input.alias, content: givenContent(input) };
    const [accountId, id] = [senderOf(ctx).accountId, idOf(ctx)];
    const template = Object.values(input).every((value) => value === undefined)
      ? await templates.get(db, accountId, id)
      : await templates.update(db, accountId, id, changes);
    ctx.body = { template: present.template(template) };
  });

  router.delete('/templates/:id', ...writer, async (ctx) => {
    await templates.remove(db, senderOf(ctx).accountId, idOf(ctx));
    ctx.body = { message: 'the template was removed' };
  });

  router.post('/templates/:id/publish', ...writer, async (ctx) => {
    const { updated_at: seen } = parse(publishRequest, await readOptionalJson(ctx, publishLimit));
    const published = await templates.publish(db, senderOf(ctx).accountId, idOf(ctx), seen ?? null);
    ctx.body = { template: present.template(published) };
  });

  router.post('/templates/:id/render', reader, async (ctx) => {
    const { variables, version } = parse(previewRequest, await readOptionalJson(ctx, bodyLimit));
    const rendered = await templates.preview(db, senderOf(ctx).accountId, idOf(ctx), {
      variables: variables ?? {},
      version: version ?? 'draft',
    });
    ctx.body = present.renderedTemplate(rendered);
  });
}
