import type { Database, Sql } from '../../db/client.ts';
import { databaseCodeOf } from '../../db/errors.ts';
import { literal } from '../../db/pattern.ts';
import { conflict, invalidRequest, notFound } from '../../errors.ts';
import { isId, newId } from '../../ids.ts';
import { unsubscribeKeys } from '../../mail/links/unsubscribe-place.ts';
import { compile, refusePlaceholders, render, type TemplateContent } from '../../mail/template/template.ts';
import { TemplateError } from '../../mail/template/template-values.ts';

/** What lists show of a template. */
export interface TemplateSummary {
  id: string;
  name: string;
  alias: string | null;
  /** Null: it was never published, and nothing can be sent with it. */
  publishedAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** A template as its authors work on it. */
export interface Template extends TemplateSummary {
  draft: TemplateContent;
  /** Whether publishing now would change what is sent. */
  changed: boolean;
}

/** How a send request names a template: by one of the two. */
export type TemplateRef = { id: string } | { alias: string };

/** @throws ApiError 400 when another template of the account has the alias */
export async function create(
  db: Database,
  accountId: string,
  input: { name: string; alias: string | null; content: TemplateContent },
): Promise<Template> {
  const id = newId();
  const created = await db.query({
    text: `INSERT INTO templates (id, account_id, name, alias, draft) VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (account_id, alias) DO NOTHING RETURNING id`,
    values: [id, accountId, input.name, input.alias, JSON.stringify(input.content)],
  });
  if (created.length === 0) throw aliasTaken();
  return get(db, accountId, id);
}

/**
 * One page of the account's templates, newest first, and how many there are.
 *
 * @param page `q`: only templates with this text in their name or alias, in any case; null: all
 */
export async function list(
  db: Database,
  accountId: string,
  page: { limit: number; offset: number; q: string | null },
): Promise<{ templates: TemplateSummary[]; count: number }> {
  const named = page.q === null ? null : { contains: literal(page.q), mode: 'insensitive' as const };
  const where = { accountId, ...(named ? { OR: [{ name: named }, { alias: named }] } : {}) };
  const templates = await db.prisma.template.findMany({
    where,
    orderBy: { id: 'desc' },
    take: page.limit,
    skip: page.offset,
    // Not the contents: a page of them could have gigabytes.
    select: { id: true, name: true, alias: true, publishedAt: true, createdAt: true, updatedAt: true },
  });
  const count = await db.prisma.template.count({ where });
  return { templates, count };
}

/** @throws ApiError 404 */
export async function get(db: Database, accountId: string, id: string): Promise<Template> {
  if (!isId(id)) throw notFound();
  const [template] = await db.query<Template>({
    text: `SELECT id, name, alias, draft, published IS NULL OR draft <> published AS changed,
                  published_at AS "publishedAt", created_at AS "createdAt", updated_at AS "updatedAt"
             FROM templates WHERE account_id = $1 AND id = $2`,
    values: [accountId, id],
  });
  if (!template) throw notFound();
  return template;
}

/**
 * Changes the fields that are given: the name and the alias at once, the content in the draft.
 *
 * @throws ApiError 404, or 400 when another template of the account has the alias
 */
export async function update(
  db: Database,
  accountId: string,
  id: string,
  changes: { name?: string | undefined; alias?: string | null | undefined; content: Partial<TemplateContent> },
): Promise<Template> {
  if (!isId(id)) throw notFound();
  try {
    await db.query({
      text: `UPDATE templates SET name = coalesce($3, name), alias = CASE WHEN $4 THEN $5 ELSE alias END,
                    draft = draft || $6::jsonb, updated_at = now()
              WHERE account_id = $1 AND id = $2`,
      values: [
        accountId,
        id,
        changes.name,
        changes.alias !== undefined,
        changes.alias,
        JSON.stringify(changes.content),
      ],
    });
  } catch (error) {
    if (databaseCodeOf(error) === '23505') throw aliasTaken();
    throw error;
  }
  return get(db, accountId, id);
}

/**
 * Removes a template. Emails that were accepted with it are not affected.
 *
 * @throws ApiError 404
 */
export async function remove(db: Database, accountId: string, id: string): Promise<void> {
  if (!isId(id)) throw notFound();
  const { count } = await db.prisma.template.deleteMany({ where: { id, accountId } });
  if (count === 0) throw notFound();
}

/**
 * Makes the draft the version that emails are sent with.
 *
 * @param seen `updatedAt` of the template as the publisher saw it; null: publishes the draft as it is now
 * @throws ApiError 404; 409 if it has changed since then; 400 if the draft has neither html nor text, or has something that
 *   only looks like a placeholder
 */
export async function publish(
  db: Database,
  accountId: string,
  id: string,
  seen: Date | null = null,
): Promise<Template> {
  if (!isId(id)) throw notFound();
  const { draft } = await get(db, accountId, id);
  // Drafts are checked when they are written, but an earlier release did not do that.
  const refused = refuseContent(draft);
  if (refused) throw invalidRequest(refused);
  const published = await db.query({
    text: `UPDATE templates SET published = draft, published_at = now()
            WHERE account_id = $1 AND id = $2 AND coalesce(draft->>'html', '') || coalesce(draft->>'text', '') <> ''
              AND ($3::timestamptz IS NULL OR updated_at = $3)
            RETURNING id`,
    values: [accountId, id, seen],
  });
  const template = await get(db, accountId, id);
  if (published.length === 0 && seen && template.updatedAt.getTime() !== seen.getTime())
    throw conflict('the template has changed since then: read it again before you publish it');
  if (published.length === 0) throw invalidRequest('html: html or text is required before a template is published');
  return template;
}

/** The first objection of `refusePlaceholders` to one of the texts, with the name of its field; null: there is none. */
function refuseContent({ from, subject, replyTo, html, text }: TemplateContent): string | null {
  const addresses = replyTo.map((one, index): [string, string] => [`reply_to[${index}]`, one]);
  const texts: [string, string | null][] = [
    ['from', from],
    ['subject', subject],
    ...addresses,
    ['html', html],
    ['text', text],
  ];
  for (const [field, written] of texts) {
    const refused = written === null ? null : refusePlaceholders(written);
    if (refused) return `${field}: ${refused}`;
  }
  return null;
}

/**
 * Renders the template as it would be for an email.
 *
 * @throws ApiError 404, or 400 if this version is missing or cannot be rendered with these variables
 */
export async function preview(
  db: Database,
  accountId: string,
  id: string,
  input: { version: 'draft' | 'published'; variables: Record<string, unknown> },
): Promise<ReturnType<typeof render>> {
  if (!isId(id)) throw notFound();
  const [row] = await db.query<{ content: TemplateContent | null }>({
    text: `SELECT CASE WHEN $3 THEN published ELSE draft END AS content FROM templates WHERE account_id = $1 AND id = $2`,
    values: [accountId, id, input.version === 'published'],
  });
  if (!row) throw notFound();
  if (!row.content) throw invalidRequest('version: the template was never published');
  try {
    return render(compile(row.content), input.variables, unsubscribeKeys);
  } catch (error) {
    if (error instanceof TemplateError) throw invalidRequest(error.message);
    throw error;
  }
}

/**
 * Finds the published versions of these templates, with one statement, in order; a template that is named twice is the same
 * object.
 *
 * @returns for each: null if the account has no such template, `draft` if it was never published, `too large` if it and those
 *   before it have more than `mostCharacters`
 */
export async function findPublished(
  db: Sql,
  accountId: string,
  refs: TemplateRef[],
  mostCharacters: number,
): Promise<(TemplateContent | 'too large' | 'draft' | null)[]> {
  const rows = await db.query<{
    id: string;
    alias: string | null;
    content: TemplateContent | null;
    isDraft: boolean;
  }>({
    name: 'templates-published',
    text: `SELECT id, alias, CASE WHEN total <= $4 THEN published END AS content, published IS NULL AS "isDraft"
             FROM (SELECT id, alias, published, sum(published_characters) OVER (ORDER BY id) AS total
                     FROM templates WHERE account_id = $1 AND (id = ANY($2) OR alias = ANY($3))) named`,
    values: [
      accountId,
      [...new Set(refs.flatMap((ref) => ('id' in ref && isId(ref.id) ? [ref.id] : [])))],
      [...new Set(refs.flatMap((ref) => ('alias' in ref ? [ref.alias] : [])))],
      mostCharacters,
    ],
  });
  const found = rows.map(({ id, alias, content, isDraft }) => {
    const template = content ?? (isDraft ? ('draft' as const) : ('too large' as const));
    return { id, alias, template };
  });
  const byId = new Map(found.map(({ id, template }) => [id, template]));
  const byAlias = new Map(found.map(({ alias, template }) => [alias, template]));
  return refs.map((ref) => ('id' in ref ? byId.get(ref.id) : byAlias.get(ref.alias)) ?? null);
}

const aliasTaken = () => invalidRequest('alias: is used by another template');
