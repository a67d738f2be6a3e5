import { isIPv6 } from 'node:net';
import { refusedBy } from './connections/connect.ts';
import { attemptEnded } from './connections/connection.ts';
import { KeptConnections } from './connections/kept-connections.ts';
import { routesTo, steadySources } from './connections/routes.ts';
import { DeliveryProgress } from './delivery-progress.ts';
import type { DeliveryRequest } from './delivery-request.ts';
import { HostLookUps } from './dns/host-look-ups.ts';
import {
  afresh,
  type Destination,
  type HostAddresses,
  type MxHost,
  resolveDestination,
  resolveHost,
  type Unreachable,
} from './dns/mx.ts';
import { TriesLeft } from './dns/tries-left.ts';
import { HostSessions } from './host-sessions.ts';
import type { DestinationTls, HostTls } from './policies/tls-policies.ts';
import { opportunistic } from './policies/tls-policy.ts';
import { type Delivery, type Failure, localFailure } from './replies/result.ts';
import { SessionReports, type Start } from './session-reports.ts';
import { type Content, prepareContent } from './transaction/content.ts';
import { assertEnvelope } from './transaction/envelope.ts';
import type { Transport } from './transport.ts';

export type { DeliveryRequest, OpenSession } from './delivery-request.ts';
export {
  type Classification,
  type Delivery,
  type Phase,
  type RecipientResult,
  type Session,
  saysNobodyThere,
} from './replies/result.ts';
export { createTransport, type Transport } from './transport.ts';

/**
 * Tries once to deliver a message: the destination's MX hosts in order, at most five addresses and two sessions. Every
 * recipient has exactly one final outcome afterwards. A recipient that a server has decided about, or may have accepted
 * the message for, is not tried again. A recipient whose turn was cut short, or about whom nothing was said when MAIL or
 * DATA was deferred, is tried at the next host; if the server hung up because of another recipient, at the same one, too.
 *
 * @throws only for our own defects, such as a message with a bare LF or an address that no command can hold
 */
export async function deliver(transport: Transport, request: DeliveryRequest): Promise<Delivery> {
  const envelope = { ...request.envelope, recipients: [...new Set(request.envelope.recipients)] };
  assertEnvelope(envelope);
  return new Attempt(transport, { ...request, envelope }, prepareContent(request.message)).run();
}

/** A look-up that failed after less than this, in milliseconds, holds up no mail. */
const slowLookUpMs = 500;

/** Ends the wait for a look-up when the attempt is ended. */
const ended = new Error('the attempt was ended');

class Attempt {
  readonly #transport: Transport;
  readonly #request: DeliveryRequest;
  readonly #reports: SessionReports;
  /** At most one per family; empty: whatever the system chooses. */
  readonly #sendingIps: readonly string[];
  readonly #kept: KeptConnections;
  readonly #addresses: HostLookUps<HostAddresses>;
  readonly #progress: DeliveryProgress;
  readonly #triesLeft = new TriesLeft();
  /** No other host may be asked. */
  #stopped = false;
  readonly #sessions: HostSessions;
  /** Rejects when the attempt is ended from outside. */
  readonly #ended = Promise.withResolvers<never>();

  constructor(transport: Transport, request: DeliveryRequest, content: Content) {
    this.#transport = transport;
    this.#request = request;
    this.#sendingIps = steadySources(request.sendingIps ?? transport.sendingIps, request.envelope.from);
    this.#kept = new KeptConnections(transport.pool, this.#sendingIps, request.site);
    this.#addresses = new HostLookUps(
      (host) => this.#resolve(host),
      ({ kind }) => kind === 'temporary',
    );
    this.#reports = new SessionReports(transport, request.remarks ?? []);
    this.#progress = new DeliveryProgress(request.envelope.recipients, this.#reports);
    this.#sessions = new HostSessions({
      transport,
      request,
      content,
      kept: this.#kept,
      reports: this.#reports,
      progress: this.#progress,
      triesLeft: this.#triesLeft,
    });
    // Nobody may be waiting for a look-up when it is rejected.
    this.#ended.promise.catch(() => undefined);
  }

  async run(): Promise<Delivery> {
    const { signal } = this.#request;
    const onAbort = () => {
      this.#sessions.destroy(attemptEnded);
      this.#ended.reject(ended);
    };
    signal?.addEventListener('abort', onAbort);
    // It may have been aborted while the email was loaded.
    if (signal?.aborted) onAbort();
    try {
      await this.#tryAll().catch((error: unknown) => {
        if (error !== ended) throw error;
      });
      this.#progress.conclude({ aborted: signal?.aborted ?? false, stopped: this.#isStopped });
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#sessions.destroy();
    }
    return { sessions: this.#reports.all };
  }

  /**
   * The result of a look-up. Not for what is known: each further step between the choice of a host and its idle connection lets
   * other attempts take that connection, and a tenth fewer emails a second were delivered.
   *
   * @throws `ended` as soon as the attempt is ended: DNS may take longer than a shutdown
   */
  #lookedUp<T>(lookUp: Promise<T>): Promise<T> {
    return Promise.race([lookUp, this.#ended.promise]);
  }

  #resolve(host: string): Promise<HostAddresses> {
    const ips = this.#sendingIps;
    return resolveHost(host, { ...this.#transport, onlyIpv6: ips.length > 0 && ips.every((ip) => isIPv6(ip)) });
  }

  get #isStopped(): boolean {
    return this.#stopped || this.#sessions.givenUp;
  }

  /** True while another address may be tried, at a host whose turn it is. */
  get #mayTryMore(): boolean {
    return this.#triesLeft.any && this.#isWanted;
  }

  /** True while recipients are left to try and the attempt has not been ended. */
  get #isWanted(): boolean {
    return this.#progress.recipientsLeft.length > 0 && !this.#isStopped && !this.#request.signal?.aborted;
  }

  async #tryAll(): Promise<void> {
    const { destination } = this.#request;
    const start = this.#reports.start();
    const found = await this.#lookedUp(resolveDestination(destination, this.#transport));
    await this.#tryHosts(start, found);
    if (found.kind !== 'hosts' || !this.#progress.isRuledOut) return;
    // All hosts are ruled out, but the records that named them may have been corrected since they were kept.
    const again = this.#reports.start();
    const now = await this.#lookedUp(resolveDestination(destination, afresh(this.#transport)));
    if (now.kind === 'hosts' && namesOf(now.hosts) === namesOf(found.hosts)) return;
    this.#stopped = false;
    this.#progress.startOver();
    await this.#tryHosts(again, now);
  }

  async #tryHosts(start: Start, found: Destination): Promise<void> {
    if (found.kind !== 'hosts') return this.#progress.fail(start, null, unresolved(found));
    const { destination, tls = opportunistic } = this.#request;
    const names = found.hosts.map(({ preference, name }) => `${preference} ${name}`);
    this.#reports.remark(`MX hosts of ${destination}: ${names.join(', ')}`);
    const { forHost, lookAhead } = await this.#lookedUp(this.#transport.tlsPolicies.forDestination(destination, tls));
    const policies: DestinationTls = {
      forHost: (host) => {
        const rules = forHost(host);
        return rules instanceof Promise ? this.#lookedUp(rules) : rules;
      },
      lookAhead,
    };
    let left = this.#inOrder(found.hosts);
    let preference: number | null = null;
    while (this.#isWanted) {
      const host = await this.#kept.next(left, policies);
      if (host === undefined) break;
      left = left.filter((other) => other !== host);
      if (host.preference !== preference) {
        preference = host.preference;
        this.#triesLeft.reserveFor(left.filter((other) => other.preference > host.preference));
      }
      if (!this.#mayTryMore) continue;
      policies.lookAhead(left);
      this.#addresses.lookAhead(left);
      await this.#tryIfAllowed(host.name, policies);
    }
    const { again } = this.#progress;
    if (again !== null && this.#mayTryMore) await this.#tryIfAllowed(again, policies);
  }

  /** The hosts in the order to try them: those that lately said nothing come last. */
  #inOrder(hosts: MxHost[]): MxHost[] {
    const { first, last } = this.#transport.silentHosts.split(hosts);
    if (first.length === 0 || last.length === 0) return hosts;
    this.#reports.remark(`tried last, because it did not answer lately: ${last.map(({ name }) => name).join(', ')}`);
    // It may take the mail later, even if it does not get its turn now.
    this.#progress.laterMayHelp = true;
    return [...first, ...last];
  }

  /** Tries a host unless a policy forbids it or the attempt was ended meanwhile. */
  async #tryIfAllowed(host: string, policies: DestinationTls): Promise<void> {
    const start = this.#reports.start();
    const tls = await policies.forHost(host);
    if (!this.#mayTryMore) return;
    const objection = tls.policy.mayUseHost(host);
    if (objection === null) return this.#tryHost(host, tls);
    this.#transport.tlsResults.host(tls.published, host, objection);
    this.#progress.fail(start, host, refusedBy(tls.policy, host, 'dns', objection), tls.policy.name);
  }

  /** Tries a host, and again over a fresh connection whenever one is used up. A used-up one counts against no limit. */
  async #tryHost(host: string, tls: HostTls): Promise<void> {
    const begunAt = performance.now();
    const takeBackTries = this.#triesLeft.mark();
    const { laterMayHelp } = this.#progress;
    do {
      await this.#tryHostOnce(host, tls);
      // Each round has decided about somebody, so there are no more rounds than recipients.
      if (!this.#sessions.usedUp) return;
      takeBackTries();
      // What this host is unable to take, it will not take over the next connection either.
      this.#progress.laterMayHelp = laterMayHelp;
    } while (this.#isWanted && performance.now() - begunAt < this.#transport.deadlines.transaction);
    this.#progress.laterMayHelp = true;
  }

  async #tryHostOnce(host: string, tls: HostTls): Promise<void> {
    if (await this.#sessions.sendOverIdle(host, tls)) return;
    const start = this.#reports.start();
    const { ours, ...found } = await this.#lookedUp(this.#addresses.of(host));
    if (found.kind === 'addresses') await this.#tryAddresses(start, host, found.addresses, tls);
    else this.#progress.fail(start, host, unresolved(found));
    const isSlow = performance.now() - start.tick >= slowLookUpMs;
    if (found.kind === 'temporary' && isSlow) this.#transport.silentHosts.note(host);
    // Hosts of equal or worse preference would only bring the mail back to us.
    if (ours) this.#stopped = true;
  }

  async #tryAddresses(start: Start, host: string, addresses: string[], tls: HostTls): Promise<void> {
    this.#reports.remark(`addresses of ${host}: ${addresses.join(', ')}`);
    let routes = routesTo(addresses, this.#sendingIps);
    if (routes.length === 0) return this.#progress.fail(start, host, noSendingIp(host));
    while (routes.length > 0 && this.#mayTryMore) {
      let untaken = await this.#sessions.connectAndSend(host, routes, tls);
      if (untaken === null) return;
      const { inClear, left } = untaken;
      // With and without TLS count as one session, so that the last session of an attempt can also fall back to clear.
      if (inClear && this.#isWanted) untaken = await this.#sessions.connectAndSend(host, [inClear], tls, 'clear');
      if (untaken === null) return;
      if (untaken.permanent) this.#stopped = true;
      routes = left;
    }
  }
}

const namesOf = (hosts: MxHost[]) =>
  hosts
    .map(({ name }) => name)
    .sort()
    .join();

function unresolved({ kind, ...found }: Unreachable): Failure {
  return { ...found, phase: 'dns', reply: null, permanent: kind === 'permanent' };
}

function noSendingIp(host: string): Failure {
  return localFailure(`No sending address of this server has the same address family as ${host}.`, 'network');
}
