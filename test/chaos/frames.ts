/** One message of PostgreSQL's protocol (version 3), from a client. */
export interface Frame {
  /** `Q`, `P`, `B`, …; empty for what comes before the first of those. */
  type: string;
  /** The whole message, as received. */
  bytes: Buffer;
}

/** Splits a client's bytes into messages. */
export class Frames {
  #rest: Buffer = Buffer.alloc(0);
  #begun = false;

  /** The messages that these bytes complete. */
  read(chunk: Buffer): Frame[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    for (;;) {
      // The first message has a length but no type.
      const head = this.#begun ? 1 : 0;
      if (this.#rest.length < head + 4) return frames;
      const length = head + this.#rest.readInt32BE(head);
      if (this.#rest.length < length) return frames;
      const bytes = this.#rest.subarray(0, length);
      this.#rest = this.#rest.subarray(length);
      frames.push({ type: this.#begun ? String.fromCharCode(bytes[0] ?? 0) : '', bytes });
      this.#begun = true;
    }
  }
}

/** A statement that is about to be executed. */
export interface Statement {
  /** The name it was prepared under; empty for most. */
  name: string;
  text: string;
}

/** Tracks what is prepared on one connection, and says what each message executes. */
export class Statements {
  readonly #texts = new Map<string, string>();

  /** @returns null for messages that execute nothing */
  of({ type, bytes }: Frame): Statement | null {
    if (type === 'Q') return { name: '', text: textAt(bytes, 5) };
    if (type === 'P') {
      const name = textAt(bytes, 5);
      this.#texts.set(name, textAt(bytes, 5 + Buffer.byteLength(name) + 1));
      return null;
    }
    if (type !== 'B') return null;
    const name = textAt(bytes, 5 + Buffer.byteLength(textAt(bytes, 5)) + 1);
    return { name, text: this.#texts.get(name) ?? '' };
  }
}

const textAt = (bytes: Buffer, at: number) => bytes.toString('utf8', at, bytes.indexOf(0, at));
