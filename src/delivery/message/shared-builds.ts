import type { OutgoingEmail } from '../../core/outgoing/outgoing.ts';

interface Entry<Built> {
  email: OutgoingEmail;
  built: Promise<Built>;
  users: number;
}

/** What is built from emails, by name: each once for all who use it at the same time. */
export class SharedBuilds<Built> {
  readonly #entries = new Map<string, Entry<Built>>();

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** The email that the build of this name was made from; undefined if nobody uses it now. */
  emailOf(name: string): OutgoingEmail | undefined {
    return this.#entries.get(name)?.email;
  }

  /** Runs `use` with the build of this name, which is made if nobody uses it yet, and dropped when nobody does any more. */
  async use<T>(
    name: string,
    email: OutgoingEmail,
    build: () => Promise<Built>,
    use: (built: Built) => Promise<T>,
  ): Promise<T> {
    const entry = this.#entries.get(name) ?? { email, built: build(), users: 0 };
    entry.users += 1;
    this.#entries.set(name, entry);
    try {
      return await use(await entry.built);
    } finally {
      entry.users -= 1;
      if (entry.users === 0 && this.#entries.get(name) === entry) this.#entries.delete(name);
    }
  }

  /** Has the build of this name made anew for the next user; current users keep theirs. */
  outdate(name: string): void {
    this.#entries.delete(name);
  }
}
