import { createHash } from 'node:crypto';
import { cutText } from '../../mail/text/characters.ts';
import type { Refusal } from '../connections/connect.ts';
import type { Connection } from '../connections/connection.ts';
import type { PublishedPolicy } from '../policies/tls-policies.ts';
import { noTls, type Objection } from '../policies/tls-policy.ts';
import type { TlsInfo } from '../replies/result.ts';
import type { TlsFailure } from '../replies/tls-names.ts';

/** The TLS outcome of a group of sessions that are alike (RFC 8460 section 4.4). */
export interface TlsResult {
  type: PublishedPolicy['type'];
  domain: string;
  /** The policy line by line, and the hosts that it names. */
  lines: string[];
  mx: string[];
  result: 'success' | TlsFailure;
  host: string;
  /** The remote and the local address; empty if the host was not reached. */
  address: string;
  localAddress: string;
  /** The last failure in words; empty after a success. */
  reason: string;
  sessions: number;
  /** Identifies the group among its domain's, as a SHA-256 (hex). */
  kind: string;
}

const mostKinds = 10_000;
const mostLines = 100;

/** Counts sessions in memory until somebody takes the counts. Beyond 10,000 groups, new groups are not counted. */
export class TlsResults {
  #counts = new Map<string, TlsResult>();

  /** Returns the counts and starts anew. */
  take(): TlsResult[] {
    const taken = [...this.#counts.values()];
    this.#counts = new Map();
    return taken;
  }

  /** Adds back counts that could not be stored. */
  giveBack(results: TlsResult[]): void {
    for (const result of results) this.#add(result);
  }

  /** Counts a session that tried TLS, when its greeting is over; one that ended before TLS says nothing. */
  session(published: PublishedPolicy, connection: Connection, refusal: Refusal | null): void {
    const { target, localAddress, tls } = connection;
    const triedTls = tls !== null || refusal === null || refusal.phase === 'starttls';
    if (!triedTls) return;
    const where = { host: target.host, address: target.address, localAddress: localAddress ?? '' };
    this.#note(published, where, published.problem ?? shortcoming(published, connection, refusal));
  }

  /** Counts a host that its domain's policy does not name. */
  host(published: PublishedPolicy, host: string, objection: Objection): void {
    this.#note(published, { host, address: '', localAddress: '' }, published.problem ?? objection);
  }

  #note(
    { type, domain, lines, mx }: PublishedPolicy,
    where: Pick<TlsResult, 'host' | 'address' | 'localAddress'>,
    objection: Objection | null,
  ): void {
    const result = objection?.failure ?? 'success';
    const reason = objection?.reason ?? '';
    const policy = { lines: lines.slice(0, mostLines), mx: mx.slice(0, mostLines) };
    const kind = kindOf([type, policy.lines, policy.mx, result, where.host, where.address, where.localAddress]);
    this.#add({ type, domain, ...policy, result, ...where, reason: cutText(reason, 500), sessions: 1, kind });
  }

  #add(result: TlsResult): void {
    const key = `${result.domain} ${result.kind}`;
    const known = this.#counts.get(key);
    if (known !== undefined) {
      known.sessions += result.sessions;
      known.reason = result.reason;
    } else if (this.#counts.size < mostKinds) this.#counts.set(key, { ...result });
  }
}

// Hashed: a policy can have many kilobytes, and long keys of equal length collide in a Map.
const kindOf = (told: unknown[]): string => createHash('sha256').update(JSON.stringify(told)).digest('hex');

/** TLS that opportunistic mail still takes, and that mail under a policy refuses; null: it is new enough. */
const tooOld = ({ version }: TlsInfo): Objection | null =>
  ['TLSv1', 'TLSv1.1'].includes(version)
    ? { failure: 'validation-failure', reason: `speaks no newer version of TLS than ${version}` }
    : null;

function shortcoming({ rule }: PublishedPolicy, connection: Connection, refusal: Refusal | null): Objection | null {
  // Whatever ended it before the server said anything inside TLS is held to be the end of the handshake.
  const isBroken = refusal?.phase === 'ehlo' && refusal.reply === null;
  if (connection.tls !== null && !isBroken) {
    // A policy that is not enforced did not keep the session from a host that it does not name, nor from old TLS.
    return (
      rule?.mayUseHost(connection.target.host) ?? rule?.mayUseConnection(connection) ?? (rule && tooOld(connection.tls))
    );
  }
  if (refusal === null) return noTls;
  return refusal.objection ?? { failure: 'validation-failure', reason: refusal.reason };
}
