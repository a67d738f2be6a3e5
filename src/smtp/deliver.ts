import { greet, type Refusal, refusedBy } from './connect.ts';
import { Connection } from './connection.ts';
import { type Content, prepareContent } from './content.ts';
import { Conversation, type SpokenLine } from './conversation.ts';
import { resolveDestination, resolveHost, type Unreachable } from './mx.ts';
import { type Delivery, type Failure, failed, type RecipientResult, type Session } from './result.ts';
import { type Route, routesTo } from './routes.ts';
import type { TlsPolicyName } from './tls-names.ts';
import type { DestinationTls, HostTls } from './tls-policies.ts';
import { opportunistic, type TlsDemand } from './tls-policy.ts';
import { assertEnvelope, type Envelope, transact } from './transaction.ts';
import type { Transport } from './transport.ts';

export type { Reply } from './reply.ts';
export {
  type Classification,
  type Delivery,
  type Phase,
  type RecipientResult,
  type Session,
  saysNobodyThere,
  type TlsInfo,
} from './result.ts';
export { createTransport, type Transport, type TransportOptions } from './transport.ts';

/** One message for the recipients of one destination. */
export interface DeliveryRequest {
  /** The recipients' domain, in its ASCII form. */
  destination: string;
  envelope: Envelope;
  /** The complete message with CRLF line ends. */
  message: Buffer;
  /** What is to be said first in the conversation's record: why now, and by which limits. */
  remarks?: string[];
  /** Messages that a connection carries before it is closed, where that is not as with all. */
  perConnection?: number | undefined;
  /** What the sender asks for; TLS where it is offered unless given. */
  tls?: TlsDemand;
  /** Asked in each transaction just before the end of the message is written for these recipients; false gives it up. */
  beforeDot: (recipients: string[], session: OpenSession) => boolean;
  /** Told what became of those recipients as soon as that is known, before the attempt is over. */
  afterDot?: (results: RecipientResult[]) => void;
  /** Ends the attempt: what is undecided is deferred, and uncertain if the final dot was written. */
  signal?: AbortSignal;
}

/** A session of which the end is not known yet. */
export type OpenSession = Omit<Session, 'durationMs' | 'results' | 'conversation'>;

const maxAddresses = 5;
const maxSessions = 2;
// RFC 5321 section 4.5.3.1.8: every server takes this many.
const maxRecipients = 100;

/**
 * Tries once to deliver a message: the destination's MX hosts in order, at most five addresses and two sessions. Every
 * recipient has exactly one final outcome afterwards. A recipient that a server has decided about, or may have taken
 * the message for, is not tried again; one whose turn was cut short is tried at the next host.
 *
 * Throws only for our own defects, such as a message with a bare LF or an address that no command can hold.
 */
export async function deliver(transport: Transport, request: DeliveryRequest): Promise<Delivery> {
  const envelope = { ...request.envelope, recipients: [...new Set(request.envelope.recipients)] };
  assertEnvelope(envelope);
  return new Attempt(transport, { ...request, envelope }, prepareContent(request.message)).run();
}

/** When a session began, for its report. */
interface Start {
  startedAt: Date;
  tick: number;
  conversation: Conversation;
}

class Attempt {
  readonly #transport: Transport;
  readonly #request: DeliveryRequest;
  readonly #content: Content;
  readonly #sessions: Session[] = [];
  /** What the next session's record begins with. */
  #remarks: string[];
  /** The recipients to try at the next host. */
  #open: string[];
  #addressesLeft = maxAddresses;
  #sessionsLeft = maxSessions;
  #stopped = false;
  /** The last host that is out of the question, and whether another one may take the mail later. */
  #dead: Failure | null = null;
  #hope = false;
  #connection: Connection | null = null;

  constructor(transport: Transport, request: DeliveryRequest, content: Content) {
    this.#transport = transport;
    this.#request = request;
    this.#content = content;
    this.#open = request.envelope.recipients;
    this.#remarks = [...(request.remarks ?? [])];
  }

  async run(): Promise<Delivery> {
    const { signal } = this.#request;
    const onAbort = () => this.#connection?.destroy('was left because this server ended the attempt');
    signal?.addEventListener('abort', onAbort);
    try {
      await this.#tryHosts();
      this.#conclude();
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#connection?.destroy();
    }
    return { sessions: this.#sessions };
  }

  get #goesOn(): boolean {
    const within = this.#addressesLeft > 0 && this.#sessionsLeft > 0;
    return within && this.#open.length > 0 && !this.#stopped && !this.#request.signal?.aborted;
  }

  async #tryHosts(): Promise<void> {
    const start = this.#start();
    const destination = await resolveDestination(this.#request.destination, this.#transport);
    if (destination.kind === 'hosts') {
      const { destination: domain, tls = opportunistic } = this.#request;
      const hosts = destination.hosts.map(({ preference, name }) => `${preference} ${name}`);
      this.#remarks.push(`mail exchangers of ${domain}: ${hosts.join(', ')}`);
      const policies = await this.#transport.tlsPolicies.forDestination(domain, tls);
      for (const host of destination.hosts) {
        if (this.#goesOn) await this.#tryAllowed(host.name, policies);
      }
    } else {
      this.#fail(start, null, unresolved(destination));
    }
  }

  /** Tries a host unless a policy forbids it, or the attempt was ended meanwhile. */
  async #tryAllowed(host: string, policies: DestinationTls): Promise<void> {
    const start = this.#start();
    const tls = await policies.forHost(host);
    if (!this.#goesOn) return;
    const objection = tls.policy.mayUseHost(host);
    if (objection === null) return this.#tryHost(host, tls);
    this.#transport.tlsResults.host(tls.published, host, objection);
    this.#fail(start, host, refusedBy(tls.policy, host, 'dns', objection), tls.policy.name);
  }

  async #tryHost(host: string, tls: HostTls): Promise<void> {
    const { sendingIps, random } = this.#transport;
    if (await this.#tryIdle(host, tls)) return;
    const start = this.#start();
    const found = await resolveHost(host, this.#transport);
    if (found.kind !== 'addresses') return this.#fail(start, host, unresolved(found));
    this.#remarks.push(`addresses of ${host}: ${found.addresses.join(', ')}`);
    const routes = routesTo(found.addresses, sendingIps, random);
    if (routes.length === 0) return this.#fail(start, host, noSendingIp(host));
    for (const route of routes) {
      if (!this.#goesOn) return;
      this.#addressesLeft -= 1;
      let refusal = await this.#tryRoute(host, route, tls);
      if (refusal?.tryClear && this.#goesOn) refusal = await this.#tryRoute(host, route, tls, false);
      if (refusal === null) return;
      // Hosts of equal or worse preference would only bring the mail back to us.
      if (refusal.permanent) this.#stopped = true;
    }
  }

  /** True when an idle connection to the host answered; one that had died meanwhile leaves no trace. */
  async #tryIdle(host: string, { policy }: HostTls): Promise<boolean> {
    const start = this.#start();
    const connection = this.#transport.pool.take(host, (kept) => policy.mayUseConnection(kept) === null);
    if (connection === null) return false;
    start.conversation.note(`a connection to ${host} (${connection.remoteAddress}) was open from an earlier message`);
    connection.conversation = start.conversation;
    this.#connection = connection;
    return this.#transactions(start, connection, policy.name, true);
  }

  /** Null when there was a transaction. */
  async #tryRoute(
    host: string,
    { address, localAddress }: Route,
    { policy, published }: HostTls,
    tls = true,
  ): Promise<Refusal | null> {
    const { ehloName, ownHosts, deadlines, mxPort, connect, trust, tlsResults } = this.#transport;
    const start = this.#start();
    const serverName = policy.serverName ?? host;
    const connection = new Connection({ host, address, port: mxPort, localAddress, connect, serverName, trust });
    connection.conversation = start.conversation;
    start.conversation.note(`TLS policy: ${policy.name}${tls ? '' : ', in clear as TLS failed'}`);
    this.#connection = connection;
    const refusal = await greet(connection, { ehloName, ownHosts, tls, policy, deadlines });
    if (tls) tlsResults.session(published, connection, refusal);
    // One that a policy forbids is no session: the next host may be as it should be.
    if (refusal === null || (refusal.accepted && refusal.objection === null)) this.#sessionsLeft -= 1;
    if (refusal === null) await this.#transactions(start, connection, policy.name, false);
    else this.#fail(start, connection, refusal, refusal.objection === null ? undefined : policy.name);
    return refusal;
  }

  async #transactions(start: Start, connection: Connection, held: TlsPolicyName, reused: boolean): Promise<boolean> {
    const { envelope, beforeDot, afterDot = () => undefined } = this.#request;
    const { deadlines, pool } = this.#transport;
    const verification = connection.tls === null ? 'none' : held;
    const session = { startedAt: start.startedAt, ...endpointsOf(connection), verification, reused } as const;
    const results: RecipientResult[] = [];
    const elsewhere: string[] = [];
    let waiting = this.#open;
    while (waiting.length > 0 && connection.lost === null && !this.#stopped) {
      const recipients = waiting.slice(0, maxRecipients);
      const end = await transact(connection, {
        envelope: { ...envelope, recipients },
        content: this.#content,
        beforeDot: (accepted) => beforeDot(accepted, session),
        afterDot,
        deadlines,
      });
      if (reused && results.length === 0 && !end.alive) return false;
      waiting = waiting.slice(maxRecipients);
      results.push(...end.results);
      elsewhere.push(...end.elsewhere);
      this.#stopped ||= end.givenUp;
    }
    this.#record(start, connection, results, { reused, verification });
    this.#open = [...elsewhere, ...waiting];
    this.#hope = true;
    this.#connection = null;
    connection.conversation = null;
    if (connection.lost === null) pool.release(connection.target.host, connection, this.#request.perConnection);
    return true;
  }

  /** Notes that a host, or the whole destination, took nothing. Only when all of them never will is that permanent. */
  #fail(start: Start, at: Connection | string | null, failure: Failure, forbiddenBy?: TlsPolicyName): void {
    if (failure.permanent) this.#dead = failure;
    else this.#hope = true;
    const results = this.#open.map((recipient) => failed(recipient, { ...failure, permanent: false }));
    this.#record(start, at, results, { reused: false, verification: forbiddenBy ?? 'none' });
  }

  #conclude(): void {
    const last = this.#sessions.at(-1);
    if (this.#dead !== null && !this.#hope && last !== undefined) {
      const failure = this.#dead;
      last.results = this.#open.map((recipient) => failed(recipient, failure));
    }
    const named = new Set(this.#sessions.flatMap((session) => session.results.map((result) => result.recipient)));
    const unnamed = this.#request.envelope.recipients.filter((recipient) => !named.has(recipient));
    if (unnamed.length === 0) return;
    const reason = 'The attempt ended before it was the turn of this recipient.';
    const failure: Failure = { phase: 'local', reply: null, reason, enhanced: null, class: 'other', permanent: false };
    const results = unnamed.map((recipient) => failed(recipient, failure));
    this.#record(this.#start(), null, results, { reused: false, verification: 'none' });
  }

  #start(): Start {
    return { startedAt: this.#transport.clock.now(), tick: performance.now(), conversation: new Conversation() };
  }

  #record(
    start: Start,
    at: Connection | string | null,
    results: RecipientResult[],
    how: Pick<Session, 'reused' | 'verification'>,
  ): void {
    const nowhere = { remoteAddress: null, localAddress: null, tls: null };
    const session: Session = {
      startedAt: start.startedAt,
      durationMs: Math.round(performance.now() - start.tick),
      ...(at instanceof Connection ? endpointsOf(at) : { host: at, ...nowhere }),
      ...how,
      conversation: [
        ...this.#remarks.splice(0).map((text): SpokenLine => ({ ms: 0, by: 'note', text })),
        ...start.conversation.lines,
      ],
      results,
    };
    this.#sessions.push(session);
    const { host, remoteAddress, durationMs, reused } = session;
    const { phase, reason } = results[0] ?? {};
    this.#transport.log.debug({ host, remoteAddress, durationMs, reused, phase, reason }, 'an SMTP session ended');
  }
}

function endpointsOf({ target, localAddress, tls }: Connection) {
  return { host: target.host, remoteAddress: target.address, localAddress, tls };
}

function unresolved({ kind, ...found }: Unreachable): Failure {
  return { ...found, phase: 'dns', reply: null, permanent: kind === 'permanent' };
}

function noSendingIp(host: string): Failure {
  const reason = `No sending address of this server is of an address family that ${host} has.`;
  return { phase: 'local', reply: null, reason, enhanced: null, class: 'network', permanent: false };
}
