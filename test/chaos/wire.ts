import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import { throughProxy } from '../support/gate.ts';
import { Frames, type Statement, Statements } from './frames.ts';

/** A statement with the earlier ones of its transaction. */
export interface Seen extends Statement {
  before: Statement[];
}

export type Matches = (statement: Seen) => boolean;

/**
 * What happens to a statement: `before`: it does not reach the database; `after`: it does, but its answer is held back;
 * `cut`: it does, but the connection breaks when its answer arrives.
 */
export type Where = 'before' | 'after' | 'cut';

export interface Trap {
  /** Resolves when the first statement is caught: for `after` and `cut`, when the database has answered. */
  hit: Promise<void>;
  /** Releases what it holds, and holds no more. */
  lift(): void;
}

interface Rule extends Trap {
  matches: Matches;
  where: Where;
  caught(): void;
  lifted: Promise<void>;
}

/** `mute` accepts everything and passes nothing on, like a network that has gone away. */
type State = 'open' | 'shut' | 'mute';

/**
 * A proxy between one node and its database that reads along, and holds exactly the given statement: so a process is at
 * a known place when it is killed, without any test code in it.
 */
export class Wire {
  readonly #target: URL;
  readonly #server: net.Server;
  readonly #links = new Set<Link>();
  readonly #rules = new Set<Rule>();
  #state: State = 'open';

  private constructor(target: URL) {
    this.#target = target;
    this.#server = net.createServer((client) => this.#link(client));
  }

  static async open(databaseUrl: string): Promise<Wire> {
    const wire = new Wire(new URL(databaseUrl));
    wire.#server.listen(0, '127.0.0.1');
    await once(wire.#server, 'listening');
    return wire;
  }

  /** The database through this wire. */
  get url(): string {
    return throughProxy(this.#target, this.#server.address() as AddressInfo);
  }

  hold(matches: Matches, where: Where): Trap {
    const hit = Promise.withResolvers<void>();
    const lifted = Promise.withResolvers<void>();
    const rule: Rule = {
      matches,
      where,
      hit: hit.promise,
      caught: hit.resolve,
      lifted: lifted.promise,
      lift: () => {
        this.#rules.delete(rule);
        lifted.resolve();
      },
    };
    this.#rules.add(rule);
    return rule;
  }

  /** Breaks every connection; new ones are handled according to the state. */
  cut(): void {
    for (const link of this.#links) link.destroy();
  }

  set(state: State): void {
    // Half a conversation must not continue after a silence.
    if (state === 'shut' || this.#state === 'mute') this.cut();
    this.#state = state;
  }

  async close(): Promise<void> {
    for (const rule of this.#rules) rule.lift();
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #link(client: Socket): void {
    client.on('error', () => undefined);
    if (this.#state === 'shut') {
      client.resetAndDestroy();
      return;
    }
    const upstream = net.connect(Number(this.#target.port), this.#target.hostname);
    const link = new Link(client, upstream, {
      ruleFor: (statement) => [...this.#rules].find((rule) => rule.matches(statement)),
      isMute: () => this.#state === 'mute',
    });
    this.#links.add(link);
    client.once('close', () => this.#links.delete(link));
  }
}

interface Surroundings {
  ruleFor(statement: Seen): Rule | undefined;
  isMute(): boolean;
}

/** One connection from a node to the database. */
class Link {
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #around: Surroundings;
  readonly #frames = new Frames();
  readonly #statements = new Statements();
  #transaction: Statement[] = [];
  #waiting: Buffer[] = [];
  #forwarding = false;
  /** This one's answers are held back. */
  #keeping: Rule | null = null;
  #kept: Buffer[] = [];

  constructor(client: Socket, upstream: Socket, around: Surroundings) {
    this.#client = client;
    this.#upstream = upstream;
    this.#around = around;
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    upstream.on('error', () => client.destroy());
    upstream.on('close', () => client.destroy());
    client.on('close', () => upstream.destroy());
    client.on('data', (chunk) => {
      this.#waiting.push(chunk);
      if (!this.#forwarding) void this.#forwardAll();
    });
    upstream.on('data', (chunk) => this.#answer(chunk));
  }

  /** Held messages are no longer sent: their sender is gone. */
  destroy(): void {
    this.#upstream.destroy();
    this.#client.resetAndDestroy();
  }

  async #forwardAll(): Promise<void> {
    this.#forwarding = true;
    for (let chunk = this.#waiting.shift(); chunk; chunk = this.#waiting.shift()) {
      for (const frame of this.#frames.read(chunk)) {
        const statement = this.#statements.of(frame);
        if (statement) await this.#admit(statement);
        if (!this.#around.isMute() && !this.#upstream.destroyed) this.#upstream.write(frame.bytes);
      }
    }
    this.#forwarding = false;
  }

  async #admit(statement: Statement): Promise<void> {
    if (/^BEGIN\b/i.test(statement.text)) this.#transaction = [];
    const rule = this.#around.ruleFor({ ...statement, before: this.#transaction });
    this.#transaction.push(statement);
    if (!rule) return;
    if (rule.where === 'before') {
      rule.caught();
      await rule.lifted;
      return;
    }
    this.#keeping = rule;
    void rule.lifted.then(() => this.#letGo(rule));
  }

  #answer(chunk: Buffer): void {
    if (this.#around.isMute()) return;
    const rule = this.#keeping;
    if (!rule) {
      this.#client.write(chunk);
      return;
    }
    this.#kept.push(chunk);
    if (rule.where === 'cut') this.destroy();
    rule.caught();
  }

  #letGo(rule: Rule): void {
    if (this.#keeping !== rule) return;
    this.#keeping = null;
    for (const chunk of this.#kept.splice(0)) if (!this.#client.destroyed) this.#client.write(chunk);
  }
}
