import { type Exported, exported } from '../core/account-export.ts';
import type { Database } from '../db/client.ts';
import type { Account } from '../generated/prisma/client.ts';
import * as present from './present.ts';

/**
 * All that an account has, as lines of JSON (NDJSON) with a `type` each; no secret is in any. The last one has the type `end`,
 * and says how many there were of each: where it is missing, something else is too.
 *
 * @param options `files`: with the bytes of attachments
 */
export async function* accountLines(
  db: Database,
  account: Account,
  options: { files: boolean },
): AsyncGenerator<string, void> {
  const counts: Record<string, number> = {};
  for await (const one of exported(db, account, options)) {
    counts[one.type] = (counts[one.type] ?? 0) + 1;
    yield `${JSON.stringify({ type: one.type, ...lineOf(one) })}\n`;
  }
  yield `${JSON.stringify({ type: 'end', complete: true, counts })}\n`;
}

function lineOf(one: Exported): object {
  switch (one.type) {
    case 'account':
      return present.account(one.row);
    case 'user':
      return { id: one.row.id, email: one.row.email, role: one.row.role, created_at: one.row.createdAt };
    case 'domain':
      return {
        ...present.domain(one.row),
        dkim_public_key: one.row.dkimPublicKey,
        dkim_keys: one.keys.map((key) => present.dkimKey(key, one.row.domain)),
      };
    case 'api_key':
      return present.apiKey(one.row);
    case 'template':
      return {
        id: one.row.id,
        name: one.row.name,
        alias: one.row.alias,
        draft: one.row.draft,
        published: one.row.published,
        published_at: one.row.publishedAt,
        created_at: one.row.createdAt,
        updated_at: one.row.updatedAt,
      };
    case 'suppression':
      return present.suppression(one.row);
    case 'webhook':
      return present.webhook(one.row);
    case 'erasure':
      return present.erasure(one.row);
    case 'attachment':
      return {
        sha256: one.row.sha256,
        size: one.row.size,
        ...(one.row.content ? { content: one.row.content.toString('base64') } : {}),
      };
    case 'email': {
      const { type, ...email } = present.email(one.row);
      return {
        ...email,
        to: one.row.to,
        email_type: type,
        tls: one.row.tls,
        on_uncertain: one.row.onUncertain,
        recipients: one.recipients.map(present.recipient),
        returns: one.returns.map(present.returned),
      };
    }
    case 'attempt':
      return { email_id: one.row.emailId, ...present.attempt(one.row) };
    case 'content':
      return {
        email_id: one.row.emailId,
        html: one.row.html,
        text: one.row.text,
        headers: one.row.headers.map(([name, value]) => ({ name, value })),
        attachments: one.row.attachments.map(({ sha256, filename, contentType, contentId }) => ({
          sha256,
          filename,
          content_type: contentType,
          content_id: contentId,
        })),
      };
    case 'webhook_delivery':
      return present.webhookDeliveryWithPayload(one.row);
  }
}
