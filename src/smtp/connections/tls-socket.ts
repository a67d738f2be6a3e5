import { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  createSecureContext,
  type DetailedPeerCertificate,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import { cleanRemoteText } from '../replies/reply.ts';
import type { TlsInfo } from '../replies/result.ts';

const maxCertificates = 10;

let usualTrust: SecureContext | null = null;

/**
 * Starts TLS over an open connection. The certificate is judged (`tlsInfoOf`) but not required.
 *
 * @param serverName the name to ask the certificate for
 * @param trust whom to trust; undefined: the system's authorities
 */
export function startTls(socket: Socket, serverName: string, trust: SecureContext | undefined): TLSSocket {
  // Created once: creating a context reads all root certificates.
  if (trust === undefined) usualTrust ??= createSecureContext();
  return tlsConnect({
    socket,
    secureContext: trust ?? usualTrust ?? undefined,
    rejectUnauthorized: false,
    ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
  });
}

/** What a finished handshake came to. */
export function tlsInfoOf(socket: TLSSocket): TlsInfo {
  const { authorized, authorizationError } = socket;
  return {
    version: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().standardName,
    authorized,
    problem: authorized ? null : cleanRemoteText(String(authorizationError ?? 'unknown'), 100),
  };
}

/** The certificates that the server showed: its own first, then its issuers. */
export function certificatesOf(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  // Not getPeerX509Certificate: it takes the certificates away from OpenSSL, so it works only once.
  let next: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  while (next?.raw !== undefined && chain.length < maxCertificates) {
    chain.push(new X509Certificate(next.raw));
    // A self-signed certificate is its own issuer.
    next = next.issuerCertificate === next ? undefined : next.issuerCertificate;
  }
  return chain;
}
