import { greet } from './connections/connect.ts';
import type { Connection } from './connections/connection.ts';
import type { KeptConnections } from './connections/kept-connections.ts';
import { race, unreached } from './connections/race.ts';
import type { Route } from './connections/routes.ts';
import type { DeliveryProgress } from './delivery-progress.ts';
import type { DeliveryRequest } from './delivery-request.ts';
import type { TriesLeft } from './dns/tries-left.ts';
import type { HostTls } from './policies/tls-policies.ts';
import type { RecipientResult } from './replies/result.ts';
import type { TlsPolicyName } from './replies/tls-names.ts';
import { wantsTls } from './rules/classify.ts';
import { type SeriesEnd, transactAll } from './series.ts';
import { endpointsOf, type SessionReports, type Start } from './session-reports.ts';
import type { Content } from './transaction/content.ts';
import type { Transport } from './transport.ts';

/** What to try next at a host if there was no transaction over the addresses tried so far. */
export interface Untaken {
  /** No other host may be asked: this one greeted as this server itself. */
  permanent: boolean;
  /** The route that answered, if it may still take the mail in clear because only TLS failed. */
  inClear: Route | null;
  /** The other routes. */
  left: Route[];
}

/** What the sessions of one attempt have in common. */
interface Circumstances {
  transport: Transport;
  request: DeliveryRequest;
  content: Content;
  kept: KeptConnections;
  reports: SessionReports;
  progress: DeliveryProgress;
  triesLeft: TriesLeft;
}

/** The sessions of one attempt, one at a time: each over a kept or a new connection, which is kept or left afterwards. */
export class HostSessions {
  readonly #transport: Transport;
  readonly #request: DeliveryRequest;
  readonly #content: Content;
  readonly #kept: KeptConnections;
  readonly #reports: SessionReports;
  readonly #progress: DeliveryProgress;
  readonly #triesLeft: TriesLeft;
  #connection: Connection | null = null;
  #usedUp = false;
  #givenUp = false;

  constructor({ transport, request, content, kept, reports, progress, triesLeft }: Circumstances) {
    this.#transport = transport;
    this.#request = request;
    this.#content = content;
    this.#kept = kept;
    this.#reports = reports;
    this.#progress = progress;
    this.#triesLeft = triesLeft;
  }

  /** The last connection carried as many messages as it may, and recipients are left. */
  get usedUp(): boolean {
    return this.#usedUp;
  }

  /** This server must not end the message: no other host may be asked. */
  get givenUp(): boolean {
    return this.#givenUp;
  }

  /** Ends the session under way, if there is one. */
  destroy(reason?: string): void {
    this.#connection?.destroy(reason);
  }

  /** True if an idle connection to the host answered; one that had died meanwhile leaves no trace. */
  async sendOverIdle(host: string, { policy }: HostTls): Promise<boolean> {
    this.#usedUp = false;
    const start = this.#reports.start();
    const connection = this.#kept.take(host, policy);
    if (connection === null) return false;
    start.conversation.note(
      `the connection to ${host} (${connection.remoteAddress}) is reused from an earlier message`,
    );
    connection.conversation = start.conversation;
    this.#connection = connection;
    const answered = await this.#send(start, connection, policy.name, true);
    if (answered) this.#triesLeft.countSession();
    return answered;
  }

  /**
   * Connects to the first of these routes that answers, greets it and sends the message.
   *
   * @param mode `clear`: without TLS, because that failed here just now
   * @returns null if there was a transaction
   */
  async connectAndSend(
    host: string,
    routes: Route[],
    { policy, published }: HostTls,
    mode: 'tls' | 'clear' = 'tls',
  ): Promise<Untaken | null> {
    const tls = mode === 'tls';
    const { ehloNameOf, ownHosts, deadlines, mxPort, connect, terms, tlsResults } = this.#transport;
    const { signal, site } = this.#request;
    this.#usedUp = false;
    const start = this.#reports.start();
    const { conversation } = start;
    conversation.note(`TLS policy: ${policy.name}${tls ? '' : ', without TLS because it failed'}`);
    const serverName = policy.serverName ?? host;
    const target = { host, port: mxPort, connect, serverName, terms, anyTls: !policy.needsTls };
    const runners = tls ? routes.slice(0, this.#triesLeft.addresses) : routes;
    const dial = () => race(runners, { target, connectMs: deadlines.connect, conversation, signal });
    const end = await (site ? this.#transport.pool.open(site, dial) : dial());
    // A route that was only slower may be dialed again, and counts then.
    if (tls) this.#triesLeft.countAddresses(end.losses.length + (end.winner === null ? 0 : 1));
    if (end.winner === null) {
      const failure = unreached(end.losses);
      if (end.losses.some(({ lost }) => lost.lost === 'timeout')) this.#transport.silentHosts.note(host);
      const [only, ...others] = end.losses;
      this.#progress.fail(start, others.length === 0 && only ? only.connection : host, failure);
      return { permanent: false, inClear: null, left: [] };
    }
    const { connection, route } = end.winner;
    this.#connection = connection;
    const ehloName = ehloNameOf(route.localAddress);
    const refusal = await greet(connection, { ehloName, ownHosts, tls, policy, deadlines });
    if (connection.lost?.lost === 'timeout') this.#transport.silentHosts.note(host);
    else this.#transport.silentHosts.answered(host);
    if (tls) tlsResults.session(published, connection, refusal);
    // A session that the policy forbids does not count: the next host may comply.
    if (tls && (refusal === null || refusal.objection === null)) this.#triesLeft.countSession();
    if (refusal === null) {
      await this.#send(start, connection, policy.name, false);
      return null;
    }
    // Do not wait for the reply to QUIT.
    this.#transport.pool.dismiss(connection);
    this.#connection = null;
    this.#progress.fail(start, connection, refusal, refusal.objection === null ? undefined : policy.name);
    return { permanent: refusal.permanent, inClear: refusal.tryClear ? route : null, left: end.left };
  }

  async #send(start: Start, connection: Connection, policyName: TlsPolicyName, reused: boolean): Promise<boolean> {
    const { envelope, site, beforeDot, afterDot = () => undefined } = this.#request;
    const { deadlines, pool } = this.#transport;
    const verification = connection.tls === null ? 'none' : policyName;
    const session = { startedAt: start.startedAt, ...endpointsOf(connection), verification, reused } as const;
    const series = await transactAll(connection, {
      envelope: { ...envelope, recipients: this.#progress.recipientsLeft },
      content: this.#content,
      beforeDot: (accepted) => beforeDot(accepted, session),
      afterDot,
      deadlines,
      alone: this.#progress.alone,
      reused,
      mayCarry: () => pool.mayCarry(connection, site),
    });
    if ('stale' in series) {
      if (series.stale === 'limited') this.#reports.remark(`the reused connection is dropped: ${series.reason}`);
      this.#leave(connection);
      return false;
    }
    const end = connection.lacksTls ? untilTlsWorks(series) : series;
    const { limited } = end;
    this.#usedUp = series.usedUp;
    this.#givenUp ||= series.givenUp;
    this.#progress.answered(start, connection, end, { reused, verification });
    if (limited) this.#leave(connection);
    this.#connection = null;
    connection.conversation = null;
    if (!limited && connection.lost === null) pool.release(connection, site);
    return true;
  }

  #leave(connection: Connection): void {
    this.#connection = null;
    connection.conversation = null;
    if (connection.lost === null) this.#transport.pool.dismiss(connection);
  }
}

/** Whom the server refuses because it takes mail over TLS alone is not refused for good, and another host may have working TLS. */
function untilTlsWorks(series: SeriesEnd): SeriesEnd {
  const isForNow = ({ outcome, phase, reply }: RecipientResult) =>
    outcome === 'bounced' && reply !== null && wantsTls(phase, reply);
  const results = series.results.map((one) => (isForNow(one) ? { ...one, outcome: 'deferred' as const } : one));
  const putOff = series.results.filter(isForNow).map(({ recipient }) => recipient);
  // Over this connection the next attempt would hear the same.
  const limited = series.limited || putOff.length > 0;
  return { ...series, results, elsewhere: [...series.elsewhere, ...putOff], limited };
}
