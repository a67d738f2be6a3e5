// Date reads 24:00:00 as the beginning of the next day, which RFC 3339 does not allow.
const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt ](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/**
 * An RFC 3339 timestamp of a day that exists; null for anything else. A leap second is refused: it cannot be told from
 * its neighbor.
 */
export function parseTimestamp(text: string): Date | null {
  const match = rfc3339.exec(text);
  if (!match) return null;
  const at = new Date(text.toUpperCase().replace(' ', 'T'));
  // Date moves the 30th of February to March instead of refusing it.
  const days = new Date(Date.UTC(Number(match[1]), Number(match[2]), 0)).getUTCDate();
  return Number.isNaN(at.getTime()) || Number(match[3]) > days ? null : at;
}
