import { type Exported, type ExportOptions, exported } from '../core/privacy/account-export.ts';
import type { Database } from '../db/client.ts';
import { databaseTime } from '../db/clocks.ts';
import type { Account } from '../generated/prisma/client.ts';
import * as present from './present.ts';

/**
 * Exports everything that an account has as lines of JSON (NDJSON), each with a `type` and none with a secret. The last line has
 * the type `end` and counts the others by type: if it is missing, the export is incomplete.
 */
export async function* accountLines(
  db: Database,
  account: Account,
  options: ExportOptions,
): AsyncGenerator<string, void> {
  const counts: Record<string, number> = {};
  const now = await databaseTime(db);
  for await (const one of exported(db, account, options)) {
    counts[one.type] = (counts[one.type] ?? 0) + 1;
    yield `${JSON.stringify({ type: one.type, ...lineOf(one, now) })}\n`;
  }
  yield `${JSON.stringify({ type: 'end', complete: true, counts })}\n`;
}

function lineOf(one: Exported, now: Date): object {
  switch (one.type) {
    case 'account':
      return present.account(one.row, now);
    case 'user':
      return present.exportedUser(one.row);
    case 'domain':
      return present.exportedDomain(one.row, one.keys);
    case 'api_key':
      return present.apiKey(one.row);
    case 'template':
      return present.exportedTemplate(one.row);
    case 'suppression':
      return present.suppression(one.row);
    case 'webhook':
      return present.webhook(one.row);
    case 'erasure':
      return present.erasure(one.row);
    case 'attachment':
      return present.exportedFile(one.row);
    case 'email':
      return present.exportedEmail(one.row, one);
    case 'attempt':
      return present.exportedAttempt(one.row);
    case 'content':
      return present.exportedContent(one.row);
    case 'webhook_delivery':
      return present.webhookDeliveryWithPayload(one.row);
  }
}
