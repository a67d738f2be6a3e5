import { Connection } from './connections/connection.ts';
import { Conversation, type SpokenLine } from './replies/conversation.ts';
import type { RecipientResult, Session } from './replies/result.ts';
import type { Transport } from './transport.ts';

/** When a session began, and what has been said in it. */
export interface Start {
  startedAt: Date;
  /** The same moment in ms, on a clock that does not jump. */
  tick: number;
  conversation: Conversation;
}

/** Collects the sessions of one attempt, in the order that they ended. */
export class SessionReports {
  readonly all: Session[] = [];
  readonly #transport: Pick<Transport, 'clock' | 'log'>;
  #remarks: string[];

  /** @param remarks notes that the first report begins with */
  constructor(transport: Pick<Transport, 'clock' | 'log'>, remarks: string[]) {
    this.#transport = transport;
    this.#remarks = [...remarks];
  }

  /** Adds a note to the beginning of the next report. */
  remark(text: string): void {
    this.#remarks.push(text);
  }

  start(): Start {
    return { startedAt: this.#transport.clock.now(), tick: performance.now(), conversation: new Conversation() };
  }

  /** @param at the connection, or the host if there was no connection or more than one; null if there was no host */
  end(
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
    this.all.push(session);
    const { host, remoteAddress, durationMs, reused } = session;
    const { phase, reason } = results[0] ?? {};
    this.#transport.log.debug({ host, remoteAddress, durationMs, reused, phase, reason }, 'an SMTP session ended');
  }
}

/** Between which hosts a session took place, and how it was encrypted. */
export function endpointsOf({ target, localAddress, tls }: Connection) {
  return { host: target.host, remoteAddress: target.address, localAddress, tls };
}
