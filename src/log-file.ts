import { fstatSync, writeSync } from 'node:fs';

/** Standard output, or what tests have instead. */
export type Output = NodeJS.WriteStream & { fd?: number };

/** Whether what is written to this stream goes to a file or a device. A pipe and a socket have a reader who makes room. */
export function isFile(stream: Output): stream is Output & { fd: number } {
  // What tests log to has no number.
  const { fd, isTTY } = stream;
  if (isTTY || typeof fd !== 'number') return false;
  const kind = fstatSync(fd);
  return kind.isFile() || kind.isCharacterDevice();
}

/**
 * Lines that go to a file. While its disk is full they are lost: Node's own stream would fail once and for all, which ends the
 * process, and mail matters more than what is said about it.
 */
export class LogFile {
  readonly #fd: number;
  readonly #onMended: (lines: number, error: string) => void;
  #lost = 0;
  #error = '';
  /** The line that the disk became full in has no end yet. */
  #isBroken = false;

  /** @param onMended told how many lines are missing, and why, when one can be written again */
  constructor(fd: number, onMended: (lines: number, error: string) => void) {
    this.#fd = fd;
    this.#onMended = onMended;
  }

  write(line: string): void {
    try {
      if (this.#isBroken) this.#put('\n');
      this.#isBroken = false;
      if (this.#lost > 0) this.#mend();
      this.#put(line);
    } catch (error) {
      this.#lost += 1;
      this.#error = (error as Error).message;
    }
  }

  /** Says what is missing, in a line before the one that is to be written. */
  #mend(): void {
    const [lost, error] = [this.#lost, this.#error];
    this.#lost = 0;
    this.#onMended(lost, error);
    // That line was lost too.
    if (this.#lost > 0) {
      this.#lost = lost;
      throw new Error(this.#error);
    }
  }

  /** @throws Error of the system if not all of it could be written */
  #put(text: string): void {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(this.#fd, bytes, at);
      this.#isBroken = at < bytes.length;
    }
  }
}
