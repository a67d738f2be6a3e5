import type Router from '@koa/router';
import { z } from 'zod';
import * as templates from '../../core/templates.ts';
import { invalidRequest } from '../../errors.ts';
import { demandLoginOrKey, senderOf } from '../auth.ts';
import { readJson, readOptionalJson } from '../body.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { givenContent, newTemplate, previewRequest, publishRequest, templateChanges } from '../template-fields.ts';
import { page, parse } from '../validation.ts';

/** Both bodies, and what JSON adds to them. */
const bodyLimit = 40 * 1024 * 1024;
const publishLimit = 16 * 1024;

const empty = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };

/** `POST`, `GET`, `GET /:id`, `PATCH`, `DELETE`, `POST /:id/publish` and `POST /:id/render` of `/templates`. */
export function templateRoutes(router: Router, services: Services): void {
  const { db } = services;
  const writer = demandLoginOrKey(services, 'send');
  const reader = demandLoginOrKey(services, 'read');

  router.post('/templates', writer, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const input = parse(newTemplate, body);
    refusePublishing(body, (status) => status === 'draft' || isRecord(body));
    const template = await templates.create(db, senderOf(ctx).accountId, {
      name: input.name,
      alias: input.alias ?? null,
      content: { ...empty, ...givenContent(input) },
    });
    ctx.status = 201;
    ctx.body = { template: present.template(template) };
  });

  router.get('/templates', reader, async (ctx) => {
    const found = await templates.list(db, senderOf(ctx).accountId, parse(z.object(page), ctx.query));
    ctx.body = { templates: found.templates.map(present.templateSummary), count: found.count };
  });

  router.get('/templates/:id', reader, async (ctx) => {
    ctx.body = { template: present.template(await templates.get(db, senderOf(ctx).accountId, ctx.params.id ?? '')) };
  });

  router.patch('/templates/:id', writer, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const input = parse(templateChanges, body);
    const changes = { name: input.name, alias: input.alias, content: givenContent(input) };
    const [accountId, id] = [senderOf(ctx).accountId, ctx.params.id ?? ''];
    if (asksForStatus(body)) {
      const { publishedAt, changed } = await templates.get(db, accountId, id);
      const isPublished = publishedAt !== null;
      const isWhatIsSent = isRecord(body) || (!changed && Object.keys(changes.content).length === 0);
      refusePublishing(body, (status) =>
        status === 'draft' ? !isPublished || isRecord(body) : status === 'published' && isPublished && isWhatIsSent,
      );
    }
    const template = Object.values(input).every((value) => value === undefined)
      ? await templates.get(db, accountId, id)
      : await templates.update(db, accountId, id, changes);
    ctx.body = { template: present.template(template) };
  });

  router.delete('/templates/:id', writer, async (ctx) => {
    await templates.remove(db, senderOf(ctx).accountId, ctx.params.id ?? '');
    ctx.body = { message: 'the template was removed' };
  });

  router.post('/templates/:id/publish', writer, async (ctx) => {
    const { updated_at: seen } = parse(publishRequest, await readOptionalJson(ctx, publishLimit));
    const published = await templates.publish(db, senderOf(ctx).accountId, ctx.params.id ?? '', seen ?? null);
    ctx.body = { template: present.template(published) };
  });

  router.post('/templates/:id/render', reader, async (ctx) => {
    const { variables, version } = parse(previewRequest, await readOptionalJson(ctx, bodyLimit));
    const rendered = await templates.preview(db, senderOf(ctx).accountId, ctx.params.id ?? '', {
      variables: variables ?? {},
      version: version ?? 'draft',
    });
    ctx.body = present.renderedTemplate(rendered);
  });
}

/** What was answered with may be sent back, also when something was published meanwhile. */
const isRecord = (body: Record<string, unknown>) => 'published_at' in body;

const asksForStatus = ({ status, published, publish }: Record<string, unknown>) =>
  typeof status === 'string' || published === true || publish === true;

/**
 * A status is not written, but comes of publishing.
 *
 * @param isSo whether a template with such a status is what comes of the call anyway
 */
function refusePublishing(body: Record<string, unknown>, isSo: (status: string) => boolean): void {
  const refuse = (name: string) =>
    invalidRequest(
      `${name}: is not changed here: POST /api/v1/templates/:id/publish publishes what the template says, and nothing takes that back`,
    );
  if (typeof body.status === 'string' && !isSo(body.status)) throw refuse('status');
  for (const name of ['published', 'publish']) if (body[name] === true) throw refuse(name);
}
