import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import type { AccountTurns } from '../account-turns.ts';
import { limits } from '../core/accounts/send-limits.ts';
import { Acceptance } from '../core/emails/acceptance.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { Database } from '../db/client.ts';
import type { Logger } from '../log.ts';
import type { Queue } from '../queue.ts';
import type { TokenBuckets } from '../rate-limit.ts';
import type { TlsCertificate } from './certificate.ts';
import { limitConnections } from './connection-limit.ts';
import { close, common, demandTls, hangUp, keepAddressesAsWritten, listen, unknownCommands } from './listening.ts';
import { notNow, Refusal } from './refusal.ts';
import { ContentRoom, largestMessage } from './submission-content.ts';
import { SubmissionLogin } from './submission-login.ts';
import { SubmissionVisit } from './submission-visit.ts';

export interface SubmissionOptions {
  db: Database;
  queue: Queue;
  /** Keeps the bodies of accepted emails for the delivery that soon follows. */
  fresh?: FreshBodies;
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
  /** Counts messages as the REST API counts requests; pass the API's own limiter to give each key one budget for both. */
  limiter: TokenBuckets;
  patience?: Patience;
  /** Connections to one port: in all, and from one network. */
  most?: { mostInAll: number; mostOfOne: number };
}

export interface SubmissionServer {
  ports: { submission: number | null; submissions: number | null };
  /** Takes no new messages, and finishes those being accepted. Takes at most `graceMs`, and until the last transaction ends. */
  close(graceMs: number): Promise<void>;
}

/** How long the server waits, in ms. */
export interface Patience {
  /** For the next bytes. */
  idleMs: number;
  /** From the greeting to a successful AUTH. */
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
  const start = async (variable: string, port: number | null, secure: boolean): Promise<number | null> => {
    if (port === null) return null;
    const listener = createListener(options, shared, secure);
    listeners.push(listener);
    return listen(listener.server, variable, options.host, port);
  };
  try {
    const ports = {
      submission: await start('SUBMISSION_PORT', options.ports.submission, false),
      submissions: await start('SUBMISSIONS_PORT', options.ports.submissions, true),
    };
    return { ports, close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

interface Shared {
  acceptance: Acceptance;
  login: SubmissionLogin;
  room: ContentRoom;
  /** Work that must finish before the database is closed. */
  underWay: Set<Promise<unknown>>;
}

interface Listener {
  server: SMTPServer;
  close(graceMs: number): Promise<void>;
}

function createListener(options: SubmissionOptions, shared: Shared, secure: boolean): Listener {
  const { patience = usualPatience, most = usualMost } = options;
  const visits = new WeakMap<SMTPServerSession, SubmissionVisit>();
  // An account may have as many connections as are still free: some are always left, however many accounts take all they can.
  const mayStay = (accountId: string) => {
    const own = [...server.connections].filter(({ session }) => visits.get(session)?.accountId === accountId);
    return own.length < left();
  };
  const visitOf = (session: SMTPServerSession): SubmissionVisit => {
    const visit = visits.get(session) ?? new SubmissionVisit({ ...options, ...shared, mayStay }, session);
    visits.set(session, visit);
    return visit;
  };
  const deadline = (session: SMTPServerSession, ms: number, sentence: string) =>
    setTimeout(() => hangUp(server, session, sentence), ms).unref();
  const logins = new WeakMap<SMTPServerSession, NodeJS.Timeout>();

  const handlers: SMTPServerOptions = {
    onConnect(session, callback) {
      demandTls(server, session);
      keepAddressesAsWritten(server, session);
      logins.set(session, deadline(session, patience.loginMs, '4.7.0 no login in time'));
      callback();
    },
    onAuth({ password }, session, callback) {
      const visit = visitOf(session);
      track(shared, visit.logIn(password)).then(
        (user) => {
          clearTimeout(logins.get(session));
          callback(null, { user });
        },
        (error: unknown) => {
          callback(replyFor(error, options.log));
          if (visit.isOver) hangUp(server, session);
        },
      );
    },
    onMailFrom: (address, session, callback) =>
      answer(track(shared, visitOf(session).mailFrom(address.address, session.envelope)), callback, options.log),
    onRcptTo: (address, session, callback) =>
      answer(visitOf(session).recipient(address.address, session.envelope), callback, options.log),
    onData(stream, session, callback) {
      const timer = deadline(session, patience.contentMs, '4.4.2 the message took too long');
      stream.once('close', () => clearTimeout(timer));
      track(shared, visitOf(session).accept(stream)).then(
        (reply) => callback(null, reply),
        (error: unknown) => callback(replyFor(error, options.log)),
      );
    },
    onClose: (session) => clearTimeout(logins.get(session)),
  };
  const server = new SMTPServer({
    ...fixed,
    ...options.tls,
    ...handlers,
    name: options.name,
    socketTimeout: patience.idleMs,
    secure,
  });
  server.on('error', (error) => options.log.debug({ error: error.message }, 'a submission connection failed'));
  const left = limitConnections(server.server, {
    ...most,
    busy: secure ? '' : `421 ${options.name} 4.7.0 too many connections, try again later\r\n`,
  });
  const isBusy = (session: SMTPServerSession) => visits.get(session)?.busy ?? false;
  return { server, close: (graceMs) => close(server, graceMs, isBusy) };
}

const fixed: SMTPServerOptions = {
  ...common,
  banner: 'Sendwright submission',
  size: largestMessage,
  maxRecipients: limits.recipients,
  // A key is short: this is less than RFC 4954 allows for an AUTH line, and more than we need.
  maxCommandLength: 4_096,
  authMethods: ['PLAIN', 'LOGIN'],
  authRequiredMessage: '5.7.0 Authentication required: AUTH, with an API key as the password',
  disabledCommands: unknownCommands,
};

/** Keeps the work in `underWay` until it ends. */
function track<T>({ underWay }: Shared, work: Promise<T>): Promise<T> {
  underWay.add(work);
  const forget = () => underWay.delete(work);
  work.then(forget, forget);
  return work;
}

function answer(work: Promise<void>, callback: (error?: Error | null) => void, log: Logger): void {
  work.then(
    () => callback(),
    (error: unknown) => callback(replyFor(error, log)),
  );
}

/** Any error other than a Refusal is a defect of ours, so the client may try again: its message may be fine. */
function replyFor(error: unknown, log: Logger): Refusal {
  if (error instanceof Refusal) return error;
  log.error({ error: (error as Error).stack }, 'a submission failed');
  return notNow('internal error, try again');
}
