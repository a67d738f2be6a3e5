import { spf } from 'mailauth/lib/spf/index.js';
import { cleanRemoteText } from '../../smtp/reply.ts';
import type { Resolve } from '../../smtp/resolver.ts';

/** What a receiver asks when this server comes to it. */
export interface SpfQuestion {
  /** The envelope's sender. */
  sender: string;
  /** Where the mail comes from. */
  ip: string;
  /** What is said with EHLO. */
  mailHostname: string;
  resolve: Resolve;
  /** For all look-ups together; beyond it the answer is `temperror`. */
  timeoutMs: number;
}

export interface SpfAnswer {
  /** One of RFC 7208 section 2.6, such as `pass`. */
  result: string;
  /** Why, in words that a name server may have written: cleaned and cut. */
  reason: string;
}

/** What SPF (RFC 7208) says to a sender. Nothing is thrown for what is published. */
export async function askSpf({ sender, ip, mailHostname, resolve, timeoutMs }: SpfQuestion): Promise<SpfAnswer> {
  const { status } = await spf({
    ...{ sender, ip, resolver: resolve, maxElapsedTime: timeoutMs },
    ...{ helo: mailHostname, mta: mailHostname },
  });
  return { result: status.result, reason: cleanRemoteText(String(status.comment ?? status.result), 200) };
}
