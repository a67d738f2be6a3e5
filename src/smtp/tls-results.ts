import { createHash } from 'node:crypto';
import { cutText } from '../mail/characters.ts';
import type { Refusal } from './connect.ts';
import type { Connection } from './connection.ts';
import type { TlsFailure } from './tls-names.ts';
import type { PublishedPolicy } from './tls-policies.ts';
import { noTls, type Objection } from './tls-policy.ts';

/** What became of TLS in some sessions that are alike (RFC 8460 section 4.4). */
export interface TlsResult {
  type: PublishedPolicy['type'];
  domain: string;
  /** The policy, line by line, and the hosts that it names. */
  lines: string[];
  mx: string[];
  result: 'success' | TlsFailure;
  host: string;
  /** Where the host was reached and from where; empty when it was not. */
  address: string;
  localAddress: string;
  /** The last failure in words; empty after a success. */
  reason: string;
  sessions: number;
  /** What tells it from others of its domain, as a SHA-256 (hex). */
  kind: string;
}

const mostKinds = 10_000;
const mostLines = 100;

/** Counts sessions in memory until somebody takes the counts. Past 10,000 kinds of them, new kinds are not counted. */
export class TlsResults {
  #counts = new Map<string, TlsResult>();

  /** What is counted, which begins anew. */
  take(): TlsResult[] {
    const taken = [...this.#counts.values()];
    this.#counts = new Map();
    return taken;
  }

  /** Gives back what could not be written down. */
  giveBack(results: TlsResult[]): void {
    for (const result of results) this.#add(result);
  }

  /** Counts the end of a greeting that tried TLS; one that ended before it came to that says nothing. */
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

// Short, as a policy can have many kilobytes, and a map has long strings of one length all in one place.
const kindOf = (told: unknown[]): string => createHash('sha256').update(JSON.stringify(told)).digest('hex');

function shortcoming({ rule }: PublishedPolicy, connection: Connection, refusal: Refusal | null): Objection | null {
  if (connection.tls !== null) {
    // One that is only watched was not kept from a host that it does not name.
    return rule?.mayUseHost(connection.target.host) ?? rule?.mayUseConnection(connection) ?? null;
  }
  if (refusal === null) return noTls;
  return refusal.objection ?? { failure: 'validation-failure', reason: refusal.reason };
}
