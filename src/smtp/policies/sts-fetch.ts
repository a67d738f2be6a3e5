import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import {
  addressesOf,
  before,
  CallError,
  type CheckedLookUp,
  endAfter,
  exchange,
  openSocket,
  sentenceOf,
} from '../calls/checked-socket.ts';
import { cleanRemoteText } from '../replies/reply.ts';
import { readStsFile, type StsFile, StsFileError } from './mta-sts.ts';
import type { Objection } from './tls-policy.ts';

export interface StsFetchOptions extends CheckedLookUp {
  /** For everything together: look-up, connection, TLS, answer. */
  timeoutMs?: number;
  /** Trusted instead of the usual certification authorities, in PEM. */
  ca?: string;
  port?: number;
}

/** Mail waits for the fetch, and a node that is shutting down waits for the mail. */
const defaultTimeoutMs = 10_000;
const mostBytes = 64 * 1024;

/**
 * Fetches the policy file of a domain (RFC 8461 section 3.3): over HTTPS from its `mta-sts` host, whose certificate must be
 * valid, at an address that was checked. Follows no redirect and uses no proxy; a file over 64 kB is invalid.
 *
 * @param signal ends it early
 * @returns the file, or why there is none; it does not throw
 */
export async function fetchStsFile(
  options: StsFetchOptions,
  domain: string,
  signal: AbortSignal,
): Promise<StsFile | Objection> {
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const end = endAfter(timeoutMs, signal);
  try {
    const host = `mta-sts.${domain}`;
    const url = new URL(`https://${host}:${options.port ?? 443}/.well-known/mta-sts.txt`);
    const socket = await openSocket(url, await addressesOf(host, options, end.signal), end.signal, { ca: options.ca });
    try {
      return readStsFile(await get(socket, url, end.signal));
    } finally {
      socket.destroy();
    }
  } catch (error) {
    if (error instanceof StsFileError) return { failure: 'sts-policy-invalid', reason: error.message };
    const late = end.signal.aborted && !signal.aborted;
    const reason = late ? `there was no answer within ${timeoutMs / 1_000} seconds` : sentenceOf(error);
    const failure = reason.startsWith('the TLS certificate') ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
    return { failure, reason: cleanRemoteText(`could not be fetched: ${reason}`, 500) };
  } finally {
    end.clear();
  }
}

async function get(socket: Socket, url: URL, signal: AbortSignal): Promise<string> {
  const response = await exchange(socket, url, {}, signal);
  if (response.statusCode !== 200) {
    throw new CallError(`the status was ${response.statusCode}, not 200, and redirects are not followed`);
  }
  // If users can upload files to that host, only the content type tells the operator's policy from an uploaded file.
  const type = response.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'text/plain') throw new StsFileError('is not of the type text/plain');
  if ((response.headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
    throw new StsFileError('is compressed');
  return (await before(signal, readAll(response))).toString('latin1');
}

/** Reads the whole body: a truncated list of hosts would still parse as a policy. */
async function readAll(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > mostBytes) throw new StsFileError('is larger than 64 kB');
  }
  return Buffer.concat(chunks);
}
