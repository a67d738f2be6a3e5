import type { Header } from './headers.ts';
import { createUnsubscribeAddress } from './token.ts';
import { type Reader, sealReader } from './unsubscribe-link.ts';

/** Where those who unsubscribe are heard. */
export interface UnsubscribePlaces {
  key: Buffer;
  /** Where the HTTP service is reached, without a final slash. RFC 8058 asks for https; readers ignore anything else. */
  baseUrl: string;
  /** The host of the return path. */
  host: string;
}

/** The page at which this reader can unsubscribe, and to which a mail program posts, for as long as the account is there. */
export function unsubscribeUrl({ key, baseUrl }: UnsubscribePlaces, reader: Reader): string {
  return `${baseUrl}/unsubscribe/${sealReader(key, reader)}`;
}

/**
 * The two fields that let a mail program unsubscribe this reader with one click (RFC 2369, RFC 8058). The address in them
 * is good for as long as the email is kept: a local part has 64 octets.
 *
 * @param url this reader's
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

/** True when the sender has said how to unsubscribe: then nothing is added. */
export function saysHowToUnsubscribe(headers: Iterable<string>): boolean {
  for (const name of headers) if (/^list-unsubscribe(?:-post)?$/i.test(name)) return true;
  return false;
}
