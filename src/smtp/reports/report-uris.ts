import { AddressError, isAscii, type Mailbox, parseMailbox } from '../../mail/address/address.ts';
import { ask, type Resolver } from '../dns/resolver.ts';

/** Where a domain wants its TLS reports. */
export type ReportPlace = { by: 'https'; url: URL } | { by: 'mail'; to: Mailbox };

/** The result of a look-up: URIs in canonical form, empty if the domain wants no reports; or why it is not known now. */
export type ReportUris = { uris: string[] } | { failure: string };

const longestRecord = 4_096;
const longestUri = 1_000;
const mostUris = 4;

/** Looks up where a domain wants its TLS reports (RFC 8460 section 3). DNS errors are returned, not thrown. */
export async function findReportUris(resolver: Pick<Resolver, 'resolveTxt'>, domain: string): Promise<ReportUris> {
  const answer = await ask(() => resolver.resolveTxt(`_smtp._tls.${domain}`));
  if (answer.kind === 'temporary') return { failure: answer.reason };
  const records = answer.kind === 'records' ? answer.records : [];
  return { uris: readReportUris(records.map((strings) => strings.join(''))) };
}

/**
 * The places in the TXT records at `_smtp._tls`, in canonical form and without duplicates; none if there are two records or
 * a malformed one. Skips places that cannot be reported to, and all after the first four.
 */
export function readReportUris(records: string[]): string[] {
  const [record, ...more] = records.filter((text) => /^v=TLSRPTv1[ \t]*;/.test(text));
  if (record === undefined || more.length > 0 || record.length > longestRecord) return [];
  const fields = record.split(';').slice(1);
  if (fields.at(-1)?.trim() === '') fields.pop();
  // Fields of later versions are allowed.
  const parsed = fields.map((field) => /^[ \t]*([A-Za-z0-9][\w.-]{0,31})=([!-~ \t]+)$/.exec(field));
  if (parsed.length === 0 || parsed.includes(null)) return [];
  const uris = parsed.flatMap((field) => (field?.[1] === 'rua' ? (field[2] ?? '').split(',') : []));
  const places = uris.map((uri) => parseReportUri(uri.trim())).filter((place) => place !== null);
  const written = places.map(writeUri).filter((uri) => uri.length <= longestUri);
  return [...new Set(written)].slice(0, mostUris);
}

/** Null unless it is an https address or exactly one mailbox. */
export function parseReportUri(uri: string): ReportPlace | null {
  // RFC 8460 section 3: an exclamation mark must be percent-encoded.
  if (uri.length > longestUri || /[^"-~]/.test(uri)) return null;
  const mail = /^mailto:([^?#]+)/i.exec(uri)?.[1];
  if (mail !== undefined) {
    const to = readMailbox(mail);
    return to && { by: 'mail', to };
  }
  const url = /^https:\/\//i.test(uri) && URL.canParse(uri) ? new URL(uri) : null;
  if (url === null) return null;
  url.hash = '';
  return { by: 'https', url };
}

function readMailbox(encoded: string): Mailbox | null {
  try {
    const mailbox = parseMailbox(decodeURIComponent(encoded));
    return mailbox.name === null && isAscii(mailbox.address) ? mailbox : null;
  } catch (error) {
    if (error instanceof AddressError || error instanceof URIError) return null;
    throw error;
  }
}

function writeUri(place: ReportPlace): string {
  if (place.by === 'https') return place.url.href;
  return `mailto:${encodeURIComponent(place.to.local).replaceAll('!', '%21')}@${place.to.domain}`;
}
