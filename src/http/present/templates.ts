import type { Template, TemplateSummary } from '../../core/emails/templates.ts';
import type { Template as TemplateRow } from '../../generated/prisma/client.ts';
import { formatMailbox } from '../../mail/address/address.ts';
import type { render } from '../../mail/template/template.ts';
import { iso } from './times.ts';

export function templateSummary(template: TemplateSummary) {
  return {
    id: template.id,
    name: template.name,
    alias: template.alias,
    status: template.publishedAt ? 'published' : 'draft',
    published_at: iso(template.publishedAt),
    created_at: iso(template.createdAt),
    updated_at: iso(template.updatedAt),
  };
}

/** With the content of the draft. The published content can be rendered, but not read back. */
export function template(template: Template) {
  const { from, subject, replyTo, html, text, variables } = template.draft;
  return {
    ...templateSummary(template),
    has_unpublished_changes: template.changed,
    from,
    subject,
    reply_to: replyTo,
    html,
    text,
    variables: variables.map(({ key, type, fallback }) => ({ key, type, fallback_value: fallback })),
  };
}

/** With both the draft and the published content. */
export function exportedTemplate(row: TemplateRow) {
  return {
    id: row.id,
    name: row.name,
    alias: row.alias,
    draft: row.draft,
    published: row.published,
    published_at: iso(row.publishedAt),
    created_at: iso(row.createdAt),
    updated_at: iso(row.updatedAt),
  };
}

export function renderedTemplate({ subject, from, replyTo, html, text }: ReturnType<typeof render>) {
  return { subject, from: from && formatMailbox(from), reply_to: replyTo.map(formatMailbox), html, text };
}
