import type { Conversation } from '../replies/conversation.ts';
import type { Failure } from '../replies/result.ts';
import { lostAt } from './connect.ts';
import { attemptEnded, Connection, type Lost, type Target } from './connection.ts';
import type { Route } from './routes.ts';

/** RFC 8305 section 5: the recommended time between two connection attempts, in milliseconds. */
const attemptDelayMs = 250;

export interface RaceOptions {
  /** What all connections have in common. */
  target: Omit<Target, 'address' | 'localAddress'>;
  /** How long each may take, in milliseconds. */
  connectMs: number;
  /** Records which addresses answered, which did not, and after how long. */
  conversation: Conversation;
  signal?: AbortSignal | undefined;
}

interface Winner {
  /** Open; nothing has been said on it yet. */
  connection: Connection;
  route: Route;
}

export interface RaceEnd {
  /** Null if no address answered. */
  winner: Winner | null;
  /** The connections that failed. */
  losses: { connection: Connection; lost: Lost }[];
  /** Routes still worth trying: those not dialed first, then those that were merely slower. */
  left: Route[];
}

/**
 * Connects to a host by the first of several routes that answers (Happy Eyeballs, RFC 8305 section 5). Dials them in
 * order, each 250 ms after the previous one, or at once when one fails. The first connection that is accepted wins; the
 * others are closed silently.
 */
export function race(routes: Route[], options: RaceOptions): Promise<RaceEnd> {
  return new Race(routes, options).run();
}

class Race {
  readonly #options: RaceOptions;
  readonly #running = new Map<Connection, Route>();
  readonly #losses: RaceEnd['losses'] = [];
  readonly #end = Promise.withResolvers<RaceEnd>();
  #waiting: Route[];
  #timer: NodeJS.Timeout | undefined;

  constructor(routes: Route[], options: RaceOptions) {
    this.#waiting = routes;
    this.#options = options;
  }

  async run(): Promise<RaceEnd> {
    const { signal } = this.#options;
    const onAbort = () => {
      this.#waiting = [];
      for (const connection of this.#running.keys()) connection.destroy(attemptEnded);
    };
    signal?.addEventListener('abort', onAbort);
    try {
      this.#dialNext();
      return await this.#end.promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#closeRest();
    }
  }

  #dialNext(): void {
    clearTimeout(this.#timer);
    const [route, ...rest] = this.#waiting;
    if (route === undefined) return;
    this.#waiting = rest;
    this.#dial(route).catch(this.#end.reject);
    if (rest.length > 0) this.#timer = setTimeout(() => this.#dialNext(), attemptDelayMs);
  }

  async #dial(route: Route): Promise<void> {
    const { target, connectMs, conversation } = this.#options;
    const connection = new Connection({ ...target, ...route });
    this.#running.set(connection, route);
    const lost = await connection.open(connectMs);
    // Another connection has won.
    if (!this.#running.delete(connection)) return;
    if (lost === null) return this.#win({ connection, route });
    this.#losses.push({ connection, lost });
    if (lost.lost !== 'aborted') conversation.note(`${route.address} ${lost.reason} ${after(connection)}`);
    if (this.#running.size > 0 || this.#waiting.length > 0) this.#dialNext();
    else this.#finish(null);
  }

  #win(winner: Winner): void {
    const { conversation, target } = this.#options;
    const { remoteAddress, localAddress } = winner.connection;
    winner.connection.conversation = conversation;
    conversation.note(`connected to ${remoteAddress} port ${target.port} from ${localAddress}`);
    for (const [slower, { address }] of this.#running) {
      conversation.note(`${address} had not answered ${after(slower)} and was dropped`);
    }
    this.#finish(winner);
  }

  #finish(winner: Winner | null): void {
    const left = [...this.#waiting, ...this.#running.values()];
    this.#end.resolve({ winner, losses: this.#losses, left });
    this.#closeRest();
  }

  #closeRest(): void {
    clearTimeout(this.#timer);
    for (const connection of this.#running.keys()) connection.destroy();
    this.#running.clear();
  }
}

const after = ({ openedAt }: Connection) => `after ${Math.round(performance.now() - openedAt)} ms`;

/** Why no address of a host answered. */
export function unreached(losses: RaceEnd['losses']): Failure {
  const [first] = losses;
  if (first === undefined) throw new Error('a race without anybody in it');
  const theirs = losses.find(({ lost }) => lost.lost !== 'ours');
  const decisive = losses.find(({ lost }) => lost.lost === 'aborted') ?? theirs ?? first;
  const failure = lostAt(decisive.connection, 'connect', decisive.lost);
  if (losses.length === 1 || decisive.lost.lost === 'aborted' || !theirs) return failure;
  const each = losses.map(({ connection, lost }) => `${connection.target.address} ${lost.reason}`);
  return { ...failure, reason: `No address of ${first.connection.target.host} answers: ${each.join(', ')}.` };
}
