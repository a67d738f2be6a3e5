import { BoundedMap } from './bounded-map.ts';
import type { Logger } from './log.ts';

/** How often a failure is logged that goes on. */
const sayEveryMs = 60_000;

/** Something that fails only now and then is not over each time that it works. */
const calmMs = 5_000;

/** Messages may differ each time, as by an id. */
const mostKinds = 20;

/** What is logged when something fails, and when it works again; nothing is said of that if there is no sentence for it. */
interface Sentences {
  failing: string;
  over?: string;
}

/**
 * Something that is tried again and again. Each kind of failure is logged at once and then once a minute: while the database is
 * away, work that is due each second goes on failing, now with one message and now with another.
 */
export class Trouble {
  readonly #log: Logger;
  readonly #sentences: Sentences;
  readonly #now: () => number;
  /** When each message was logged last; null if it works. */
  #said: Map<string, number> | null = null;
  #since = 0;
  #lastAt = 0;

  /** @param now in milliseconds; never goes back */
  constructor(log: Logger, sentences: Sentences, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#sentences = sentences;
    this.#now = now;
  }

  failed({ message }: Error, fields: Record<string, unknown> = {}): void {
    const at = this.#now();
    if (this.#said === null) {
      this.#said = new BoundedMap(mostKinds);
      this.#since = at;
    }
    this.#lastAt = at;
    const saidAt = this.#said.get(message);
    if (saidAt !== undefined && at - saidAt < sayEveryMs) return;
    this.#said.set(message, at);
    this.#log.warn({ error: message, ...fields }, this.#sentences.failing);
  }

  /** To be called whenever it works. */
  worked(): void {
    if (this.#said === null || this.#now() - this.#lastAt < calmMs) return;
    this.#said = null;
    const { over } = this.#sentences;
    if (over) this.#log.info({ seconds: Math.round((this.#lastAt - this.#since) / 1_000) }, over);
  }
}
