import { countsOf } from '../../core/privacy/erasures.ts';
import type { Erasure, Suppression } from '../../generated/prisma/client.ts';
import { iso } from './times.ts';

export function suppression(row: Suppression) {
  return {
    address: row.address,
    reason: row.reason,
    unsubscribed: row.unsubscribed || row.reason === 'unsubscribe',
    email_id: row.emailId,
    created_at: iso(row.createdAt),
  };
}

/** Strangers choose addresses, and a spreadsheet would take these for formulas, which can start programs. */
const formula = /^'*[=+\-@]/;

/**
 * A line of CSV (RFC 4180), with quotes around the only field that may need them. An address that begins as a formula does has
 * an apostrophe before it, which `readSuppressionsCsv` takes off again.
 */
export function suppressionLine(row: Suppression): string {
  const { address, reason, email_id: emailId, created_at: createdAt } = suppression(row);
  const field = formula.test(address) ? `'${address}` : address;
  return `"${field.replaceAll('"', '""')}",${reason},${emailId ?? ''},${createdAt}\r\n`;
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
