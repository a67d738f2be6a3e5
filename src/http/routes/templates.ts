import type Router from '@koa/router';
import { z } from 'zod';
import * as templates from '../../core/templates.ts';
import { plainly } from '../../spelling.ts';
import { demandLoginOrKey, demandWholeAccount, senderOf } from '../auth.ts';
import { readJson, readOptionalJson } from '../body.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';
import { givenContent, newTemplate, previewRequest, publishRequest, templateChanges } from '../template-fields.ts';
import { page, parse, refusedField } from '../validation.ts';

/** Both bodies, and what JSON adds to them. */
const bodyLimit = 40 * 1024 * 1024;
const publishLimit = 16 * 1024;

const empty = { from: null, subject: null, replyTo: [], html: null, text: null, variables: [] };

/** `POST`, `GET`, `GET /:id`, `PATCH`, `DELETE`, `POST /:id/publish` and `POST /:id/render` of `/templates`. */
export function templateRoutes(router: Router, services: Services): void {
  const { db } = services;
  // Whatever domain an email is from, it may be made of any of them.
  const writer = [demandLoginOrKey(services, 'send'), demandWholeAccount];
  const reader = demandLoginOrKey(services, 'read');

  router.post('/templates', ...writer, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const input = parse(newTemplate, body);
    const asked = statusAsked(body);
    if (asked?.published && !asked.isAnswer) throw notChanged(asked.name);
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

  router.patch('/templates/:id', ...writer, async (ctx) => {
    const body = await readJson(ctx, bodyLimit);
    const input = parse(templateChanges, body);
    const changes = { name: input.name, alias: input.alias, content: givenContent(input) };
    const [accountId, id] = [senderOf(ctx).accountId, ctx.params.id ?? ''];
    const asked = statusAsked(body);
    if (asked) {
      const { publishedAt, changed } = await templates.get(db, accountId, id);
      const isSent =
        publishedAt !== null && (asked.isAnswer || (!changed && Object.keys(changes.content).length === 0));
      const isDraft = publishedAt === null || asked.isAnswer;
      if (asked.published ? !isSent : !isDraft) throw notChanged(asked.name);
    }
    const template = Object.values(input).every((value) => value === undefined)
      ? await templates.get(db, accountId, id)
      : await templates.update(db, accountId, id, changes);
    ctx.body = { template: present.template(template) };
  });

  router.delete('/templates/:id', ...writer, async (ctx) => {
    await templates.remove(db, senderOf(ctx).accountId, ctx.params.id ?? '');
    ctx.body = { message: 'the template was removed' };
  });

  router.post('/templates/:id/publish', ...writer, async (ctx) => {
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

const wordsForPublished = new Set(['published', 'active', 'live']);
const wordsForDraft = new Set(['draft', 'unpublished', 'inactive', 'archived']);

/** A status is not written, but comes of publishing: whether a template is to be published, or to be none that is. */
interface StatusAsked {
  /** The member that says so. */
  name: string;
  published: boolean;
  /** It is one of ours that is sent back, from before or after something was published. */
  isAnswer: boolean;
}

/** Null where the body says nothing of it. */
function statusAsked(body: Record<string, unknown>): StatusAsked | null {
  const status = typeof body.status === 'string' ? body.status.toLowerCase() : '';
  if (wordsForPublished.has(status) || wordsForDraft.has(status))
    return { name: 'status', published: wordsForPublished.has(status), isAnswer: 'published_at' in body };
  const name = Object.keys(body).find((one) => body[one] === true && /^(is)?publish(ed)?$/.test(plainly(one)));
  return name === undefined ? null : { name, published: true, isAnswer: false };
}

const notChanged = (name: string) =>
  refusedField(
    name,
    'is not changed here: POST /api/v1/templates/:id/publish publishes what the template says, and nothing takes that back',
  );
