import {
  addressesOf,
  CallError,
  type CheckedLookUp,
  endAfter,
  exchange,
  openSocket,
  sentenceOf,
} from '../calls/checked-socket.ts';
import { hostOf, refuseUrl } from '../calls/endpoint.ts';
import { cleanRemoteText } from '../replies/reply.ts';

export interface ReportPostOptions extends CheckedLookUp {
  /** For everything together: look-up, connection, TLS, answer. */
  timeoutMs?: number;
}

const defaultTimeoutMs = 30_000;

/**
 * Posts a gzipped TLS report (RFC 8460 section 5.4) to an address that was checked. Any certificate is accepted (section
 * 3): the fault to be reported may affect the endpoint too. Follows no redirect, uses no proxy, and reads only the status
 * line of the answer.
 *
 * @param signal ends it early
 * @returns why the report was not taken, or null if it was; it does not throw
 */
export async function postReport(
  options: ReportPostOptions,
  url: URL,
  packed: Buffer,
  signal: AbortSignal,
): Promise<string | null> {
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const end = endAfter(timeoutMs, signal);
  try {
    const refused = refuseUrl(url, options.allowPrivate);
    if (refused) throw new CallError(`the URL ${refused}`);
    const addresses = await addressesOf(hostOf(url), options, end.signal);
    const socket = await openSocket(url, addresses, end.signal, { anyCertificate: true });
    try {
      const call = { headers: { 'Content-Type': 'application/tlsrpt+gzip' }, body: packed };
      const { statusCode = 0 } = await exchange(socket, url, call, end.signal);
      return statusCode >= 200 && statusCode < 300 ? null : `the status was ${statusCode}, not 2xx`;
    } finally {
      socket.destroy();
    }
  } catch (error) {
    if (signal.aborted) return 'this server ended the call';
    const late = `there was no answer within ${timeoutMs / 1_000} seconds`;
    return cleanRemoteText(end.signal.aborted ? late : sentenceOf(error), 500);
  } finally {
    end.clear();
  }
}
