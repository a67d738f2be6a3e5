import type { Resolve } from '../../smtp/dns/resolver.ts';
import { cleanRemoteText } from '../../smtp/replies/reply.ts';

/** What a receiver evaluates when this server connects to it. */
export interface SpfQuestion {
  /** The envelope sender. */
  sender: string;
  /** The address that the mail comes from. */
  ip: string;
  /** The name given with EHLO. */
  mailHostname: string;
  resolve: Resolve;
  /** For all look-ups together; after it the answer is `temperror`. */
  timeoutMs: number;
}

export interface SpfAnswer {
  /** One of the results of RFC 7208 section 2.6, such as `pass`. */
  result: string;
  /** Why. A name server may have written the words, so they are cleaned and cut. */
  reason: string;
}

/** Evaluates SPF (RFC 7208) for a sender. No published record makes it throw. */
export async function askSpf({ sender, ip, mailHostname, resolve, timeoutMs }: SpfQuestion): Promise<SpfAnswer> {
  // When it is first needed: loading it would be a fifth of each start.
  const { spf } = await import('mailauth/lib/spf/index.js');
  const { status } = await spf({
    sender,
    ip,
    helo: mailHostname,
    mta: mailHostname,
    resolver: resolve,
    maxElapsedTime: timeoutMs,
  });
  return { result: status.result, reason: cleanRemoteText(String(status.comment ?? status.result), 200) };
}
