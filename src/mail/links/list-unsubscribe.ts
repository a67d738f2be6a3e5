import type { Header } from '../headers/headers.ts';
import { createUnsubscribeAddress } from './token.ts';
import { type Reader, sealReader } from './unsubscribe-link.ts';

/** Where unsubscribe requests are received. */
export interface UnsubscribePlaces {
  key: Buffer;
  /** The base URL of the HTTP service, without a final slash. RFC 8058 requires https; mail programs ignore anything else. */
  baseUrl: string;
  /** The host of the return path. */
  host: string;
}

/** The page where this reader can unsubscribe, and to which a mail program posts. It works as long as the account exists. */
export function unsubscribeUrl({ key, baseUrl }: UnsubscribePlaces, reader: Reader): string {
  return `${baseUrl}/unsubscribe/${sealReader(key, reader)}`;
}

/**
 * The two fields that let a mail program unsubscribe this reader with one click (RFC 2369, RFC 8058). Unlike the link, the
 * address in them works only as long as the email is kept: a local part, with 64 octets, has no room for the whole reader.
 *
 * @param url this reader's link
 */
export function listUnsubscribe(places: UnsubscribePlaces, reader: Reader, url: string): Header[] {
  const address = createUnsubscribeAddress(places.key, reader, places.host);
  return [
    {
      name: 'List-Unsubscribe',
      value: `<${url}>, <mailto:${address}?subject=unsubscribe>`,
    },
    { name: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' },
  ];
}

/** True when the sender has set how to unsubscribe; then we add nothing. */
export function saysHowToUnsubscribe(headers: Iterable<string>): boolean {
  for (const name of headers) if (/^list-unsubscribe(?:-post)?$/i.test(name)) return true;
  return false;
}
