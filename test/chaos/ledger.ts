import { closeSync, openSync, writeSync } from 'node:fs';

/** One email that a client requested; the tag is its subject. */
export interface AskedMail {
  tag: string;
  to: string[];
}

/** What interrupts a node: only these explain a second copy. */
export type Blow = 'kill' | 'freeze';

/** What happened outside of the service, in the order that the harness saw it. `at` is in ms since 1970. */
export type Entry = { at: number } & (
  | { is: 'asked'; key: string; mails: AskedMail[] }
  /** `status` 0: no answer, or half of one. `ids` by tag. */
  | { is: 'answered'; key: string; status: number; ids: Record<string, string>; tookMs: number; while: string | null }
  /** A whole message, before its reply. `refused`: the reply will be no 2xx. */
  | {
      is: 'arrived';
      copy: number;
      tag: string;
      messageId: string;
      to: string[];
      sha256: string;
      refused: boolean;
      wire: string | null;
    }
  /** Before the reply to a message is written. */
  | { is: 'replied'; copy: number }
  /** A webhook call, before its answer. */
  | { is: 'called'; id: string; event: string; emailId: string; sha256: string }
  /** Before the answer to a webhook call is written. */
  | { is: 'told'; id: string }
  /** A bounce that the inbound server accepted. */
  | { is: 'returned'; emailId: string; address: string }
  | { is: 'blow'; blow: Blow; node: string; stage: string }
);

/** The entry without its time. */
export type Event = Entry extends infer E ? (E extends Entry ? Omit<E, 'at'> : never) : never;

/** A file that has each entry before the thing it records continues, and the same in memory for the auditor. */
export class Ledger {
  readonly path: string;
  readonly entries: Entry[] = [];
  readonly #fd: number;

  constructor(path: string) {
    this.path = path;
    this.#fd = openSync(path, 'ax');
  }

  write(event: Event): void {
    const entry = { at: performance.timeOrigin + performance.now(), ...event } as Entry;
    writeSync(this.#fd, `${JSON.stringify(entry)}\n`);
    this.entries.push(entry);
  }

  close(): void {
    closeSync(this.#fd);
  }
}
