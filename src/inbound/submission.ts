import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import { limits } from '../core/accounts/send-limits.ts';
import { Acceptance } from '../core/emails/acceptance.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { TlsCertificate } from '../crypto/certificate.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { AccountTurns } from '../pace/account-turns.ts';
import type { TokenBuckets } from '../pace/rate-limit.ts';
import { connectionsWithin } from '../process/open-files.ts';
import { openAll } from '../process/start-error.ts';
import type { Queue } from '../queue.ts';
import { type AdmittedConnections, limitConnections } from './connection-limit.ts';
import { demandTls, keepAddressesAsWritten, keepOurCodes } from './connection-rules.ts';
import { close, hangUp, hangUpAfter, listen, sharedOptions, unknownCommands } from './listening.ts';
import { asRefusal, type Refusal, tooManyConnections } from './refusal.ts';
import type { CertificateUser } from './served-certificate.ts';
import { ContentRoom, largestSubmission } from './submission-content.ts';
import { SubmissionLogin } from './submission-login.ts';
import { SubmissionVisit } from './submission-visit.ts';

export interface SubmissionOptions {
  db: Database;
  queue: Queue;
  /** Keeps the bodies of accepted emails for the delivery that soon follows. */
  fresh: FreshBodies;
  /** Limits how much of the database one account uses at once. */
  commitTurns: AccountTurns;
  log: Logger;
  /** The address to listen on; null: all. */
  host: string | null;
  /** `submission` requires STARTTLS, `submissions` begins with TLS (RFC 8314); 0: any free port; null: off. */
  ports: { submission: number | null; submissions: number | null };
  /** The host name in the greeting. */
  name: string;
  tls: TlsCertificate;
  /** The addresses, in their canonical spelling, whose connections begin with the PROXY protocol; none: no connection does. */
  proxies?: readonly string[];
  /** Counts messages as the REST API counts requests; pass the API's own limiter to give each key one budget for both. */
  limiter: TokenBuckets;
  patience?: Patience;
  /** Connections to one port: in all, and from one network. */
  most?: { mostInAll: number; mostOfOne: number };
}

export interface SubmissionServer extends CertificateUser {
  ports: { submission: number | null; submissions: number | null };
  /** Takes no new messages, and finishes those being accepted. Takes at most `graceMs`, and until the last transaction ends. */
  close(graceMs: number): Promise<void>;
}

/** How long the server waits, in ms. */
export interface Patience {
  /** For the next bytes. */
  idleMs: number;
  /** From the greeting to a successful AUTH, and for a TLS handshake before the greeting. */
  loginMs: number;
  /** From DATA to the final dot, however slowly the bytes arrive. */
  contentMs: number;
}

const usualPatience: Patience = { idleMs: 5 * 60_000, loginMs: 60_000, contentMs: 10 * 60_000 };
const usualMost = { mostInAll: 500, mostOfOne: 50 };

/**
 * Message submission (RFC 6409): a message from a logged-in client takes the same path as an email from the REST API. The
 * reply to its final dot names the email's id, once that is committed.
 *
 * @throws StartError when a port cannot be listened on
 */
export async function startSubmission(options: SubmissionOptions): Promise<SubmissionServer> {
  const shared = {
    acceptance: new Acceptance(options.db, options.queue, options.commitTurns, options.fresh),
    login: new SubmissionLogin(options.db),
    room: new ContentRoom(),
    underWay: new Set<Promise<unknown>>(),
  };
  const listeners: Listener[] = [];
  const close = async (graceMs: number) => {
    await Promise.all(listeners.map((listener) => listener.close(graceMs)));
    await Promise.allSettled(shared.underWay);
  };
  const showCertificate = (tls: TlsCertificate) => {
    for (const { server } of listeners) server.updateSecureContext(tls);
  };
  const start = async (variable: string, port: number | null, secure: boolean): Promise<number | null> => {
    if (port === null) return null;
    const listener = new Listener(options, shared, secure);
    listeners.push(listener);
    return listen(listener.server, variable, options.host, port);
  };
  try {
    const [submission, submissions] = await openAll([
      () => start('SUBMISSION_PORT', options.ports.submission, false),
      () => start('SUBMISSIONS_PORT', options.ports.submissions, true),
    ]);
    return { ports: { submission, submissions }, showCertificate, close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** What the listeners of both ports have in common. */
interface Shared {
  acceptance: Acceptance;
  login: SubmissionLogin;
  room: ContentRoom;
  /** Work that must finish before the database is closed. */
  underWay: Set<Promise<unknown>>;
}

const fixedOptions: SMTPServerOptions = {
  ...sharedOptions,
  banner: 'Sendwright submission',
  size: largestSubmission,
  maxRecipients: limits.recipients,
  // A key is short: this is less than RFC 4954 allows for an AUTH line, and more than we need.
  maxCommandLength: 4_096,
  authMethods: ['PLAIN', 'LOGIN'],
  authRequiredMessage: '5.7.0 Authentication required: AUTH, with an API key as the password',
  disabledCommands: unknownCommands,
};

/** One port. */
class Listener {
  readonly server: SMTPServer;
  readonly #options: SubmissionOptions;
  readonly #shared: Shared;
  readonly #patience: Patience;
  readonly #visits = new WeakMap<SMTPServerSession, SubmissionVisit>();
  readonly #loginTimers = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  readonly #connections: AdmittedConnections;

  constructor(options: SubmissionOptions, shared: Shared, secure: boolean) {
    const { name, tls, log, proxies = [], patience = usualPatience } = options;
    const mostInAll = connectionsWithin(usualMost.mostInAll, secure ? 'submissions' : 'submission');
    this.#options = options;
    this.#shared = shared;
    this.#patience = patience;
    this.server = new SMTPServer({
      ...fixedOptions,
      ...tls,
      ...this.#handlers(),
      name,
      socketTimeout: patience.idleMs,
      secure,
    });
    this.server.on('error', (error) => log.debug({ error: error.message }, 'a submission connection failed'));
    this.#connections = limitConnections(this.server, {
      ...(options.most ?? { ...usualMost, mostInAll }),
      busy: secure ? '' : `421 ${name} 4.7.0 too many connections, try again later\r\n`,
      beginMs: patience.loginMs,
      proxies,
      log,
    });
  }

  close(graceMs: number): Promise<void> {
    return close(this.server, graceMs, (session) => this.#visits.get(session)?.busy ?? false);
  }

  #handlers(): SMTPServerOptions {
    return {
      onConnect: (session, callback) => {
        keepOurCodes(this.server, session);
        if (!this.#connections.admits(session)) return callback(tooManyConnections());
        demandTls(this.server, session);
        keepAddressesAsWritten(this.server, session);
        const timer = hangUpAfter(this.#patience.loginMs, this.server, session, '4.7.0 no login in time');
        this.#loginTimers.set(session, timer);
        callback();
      },
      onAuth: ({ password }, session, callback) => {
        const visit = this.#visitOf(session);
        this.#track(visit.logIn(password)).then(
          (user) => {
            clearTimeout(this.#loginTimers.get(session));
            callback(null, { user });
          },
          (error: unknown) => {
            callback(this.#replyFor(error));
            if (visit.isOver) hangUp(this.server, session, '4.7.0 too many failed logins');
          },
        );
      },
      onMailFrom: (sender, session, callback) => {
        const answered = this.#track(this.#visitOf(session).mailFrom(sender, session.envelope));
        this.#reply(answered, callback);
      },
      onRcptTo: (recipient, session, callback) => {
        this.#reply(this.#visitOf(session).recipient(recipient, session.envelope), callback);
      },
      onData: (stream, session, callback) => {
        const timer = hangUpAfter(this.#patience.contentMs, this.server, session, '4.4.2 the message took too long');
        stream.once('close', () => clearTimeout(timer));
        this.#track(this.#visitOf(session).accept(stream)).then(
          (reply) => callback(null, reply),
          (error: unknown) => callback(this.#replyFor(error)),
        );
      },
      onClose: (session) => clearTimeout(this.#loginTimers.get(session)),
    };
  }

  #visitOf(session: SMTPServerSession): SubmissionVisit {
    const known = this.#visits.get(session);
    if (known) return known;
    const mayStay = (accountId: string) => this.#mayStay(accountId);
    const visit = new SubmissionVisit({ ...this.#options, ...this.#shared, mayStay }, session);
    this.#visits.set(session, visit);
    return visit;
  }

  /** An account may have as many connections as are still free: some are always left, however many accounts take all they can. */
  #mayStay(accountId: string): boolean {
    const own = [...this.server.connections].filter(
      ({ session }) => this.#visits.get(session)?.accountId === accountId,
    );
    return own.length < this.#connections.free();
  }

  /** Keeps the work in `underWay` until it ends. */
  #track<T>(work: Promise<T>): Promise<T> {
    const { underWay } = this.#shared;
    underWay.add(work);
    const forget = () => underWay.delete(work);
    work.then(forget, forget);
    return work;
  }

  #reply(work: Promise<void>, callback: (error?: Error | null) => void): void {
    work.then(
      () => callback(),
      (error: unknown) => callback(this.#replyFor(error)),
    );
  }

  #replyFor(error: unknown): Refusal {
    return asRefusal(error, this.#options.log, 'a submission failed');
  }
}
