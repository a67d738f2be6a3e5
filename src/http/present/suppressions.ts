import { countsOf } from '../../core/privacy/erasures.ts';
import type { Erasure, Suppression } from '../../generated/prisma/client.ts';
import { iso } from './times.ts';

export function suppression(row: Suppression) {
  return { address: row.address, reason: row.reason, email_id: row.emailId, created_at: iso(row.createdAt) };
}

/** A line of CSV (RFC 4180), with quotes around the only field that may need them. */
export function suppressionLine(row: Suppression): string {
  const { address, reason, email_id: emailId, created_at: createdAt } = suppression(row);
  return `"${address.replaceAll('"', '""')}",${reason},${emailId ?? ''},${createdAt}\r\n`;
}

export function erasure(row: Erasure) {
  return {
    id: row.id,
    status: row.doneAt === null ? 'pending' : 'done',
    address_hash: row.addressHash,
    suppression: row.keepsSuppression ? 'keep' : 'remove',
    counts: countsOf(row),
    asked_at: iso(row.askedAt),
    done_at: iso(row.doneAt),
  };
}
