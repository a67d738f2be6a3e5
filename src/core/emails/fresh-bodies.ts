import type { Draft } from './draft.ts';

/** The bodies of an email, as one transaction wrote them to its row. */
export interface FreshBody {
  /** The transaction's id: if the row was changed since, it has another one. */
  version: string;
  html: string | null;
  text: string | null;
}

interface Kept extends FreshBody {
  bytes: number;
  at: number;
}

/** Bytes, for all bodies together. */
const defaultRoom = 128 * 1024 * 1024;

/** Mail whose delivery has not begun by then waits for something other than its turn. */
const defaultMs = 10_000;

/** Reading back less than this costs no more than keeping it. */
const fewestBytes = 16 * 1024;

/**
 * Bodies of emails that this process accepted just now, so that it need not read them back to send them: for bodies of
 * 50 KB, that is an eighth of what an email costs. The row stays the truth: a body is good only while its row is as it was
 * written, so code that erases or changes rows need not know of this.
 */
export class FreshBodies {
  readonly #room: number;
  readonly #ms: number;
  /** The oldest first. */
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;
  #sweeper: NodeJS.Timeout | undefined;

  /**
   * @param room bytes; 0 keeps nothing, for a process that does not deliver
   * @param ms how long each body is kept at most
   */
  constructor({ room = defaultRoom, ms = defaultMs }: { room?: number; ms?: number } = {}) {
    this.#room = room;
    this.#ms = ms;
  }

  /**
   * Keeps bodies that are to be sent at once, as far as there is room. Earlier ones stay, because they are sent sooner.
   *
   * @param version the transaction that wrote them, already committed
   */
  keep(version: string, drafts: Pick<Draft, 'email' | 'request'>[]): void {
    this.#letGoOld();
    const at = performance.now();
    for (const { email, request } of drafts) {
      const { html, text } = request;
      // Counted as two bytes a character, which is the most that one takes.
      const bytes = 2 * ((html?.length ?? 0) + (text?.length ?? 0));
      const isDue = email.status === 'queued' && email.scheduledAt === null;
      if (!isDue || bytes < fewestBytes || this.#bytes + bytes > this.#room) continue;
      this.#bytes += bytes;
      this.#kept.set(email.id, { version, html, text, bytes, at });
    }
    this.#sweepLater();
  }

  of(emailId: string): FreshBody | undefined {
    return this.#kept.get(emailId);
  }

  letGo(emailId: string): void {
    this.#bytes -= this.#kept.get(emailId)?.bytes ?? 0;
    this.#kept.delete(emailId);
  }

  #letGoOld(): void {
    const since = performance.now() - this.#ms;
    for (const [emailId, { at }] of this.#kept) {
      if (at > since) break;
      this.letGo(emailId);
    }
  }

  #sweepLater(): void {
    if (this.#kept.size === 0) return;
    this.#sweeper ??= setTimeout(() => {
      this.#sweeper = undefined;
      this.#letGoOld();
      this.#sweepLater();
    }, this.#ms).unref();
  }
}
