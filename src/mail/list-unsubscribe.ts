import type { Header } from './headers.ts';
import { createUnsubscribeAddress, createUnsubscribeToken, type NamedRecipient } from './token.ts';

/** Where those who unsubscribe are heard. */
export interface UnsubscribePlaces {
  key: Buffer;
  /** Where the HTTP service is reached, without a final slash. RFC 8058 asks for https; readers ignore anything else. */
  baseUrl: string;
  /** The host of the return path. */
  host: string;
}

/** The page at which this recipient can unsubscribe, and to which a mail program posts. */
export function unsubscribeUrl({ key, baseUrl }: UnsubscribePlaces, named: NamedRecipient): string {
  return `${baseUrl}/unsubscribe/${createUnsubscribeToken(key, named)}`;
}

/** The two fields that let a mail program unsubscribe this recipient with one click (RFC 2369, RFC 8058). */
export function listUnsubscribe(places: UnsubscribePlaces, named: NamedRecipient): Header[] {
  const address = createUnsubscribeAddress(places.key, named, places.host);
  return [
    {
      name: 'List-Unsubscribe',
      value: `<${unsubscribeUrl(places, named)}>, <mailto:${address}?subject=unsubscribe>`,
    },
    { name: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' },
  ];
}

/** True when the sender has said how to unsubscribe: then nothing is added. */
export function saysHowToUnsubscribe(headers: Iterable<string>): boolean {
  for (const name of headers) if (/^list-unsubscribe(?:-post)?$/i.test(name)) return true;
  return false;
}
