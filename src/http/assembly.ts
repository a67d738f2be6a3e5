import { freeNow } from '../free-now.ts';
import { givingWay } from '../give-way.ts';

const MB = 1024 * 1024;

/** Bytes from which on a body gets memory of its own size, which is used again. */
const largeFrom = MB / 4;

/** Who only says that a large body comes gets no memory for it: this part of it has to be there first. */
const seriousPart = 1 / 16;

/** Bytes that are lent to bodies that are not all there yet; the others wait in chunks for their end. */
const mostLent = 128 * MB;

/** As many are kept for the bodies to come, those that were used last, and for as long, in ms, after one was given back. */
const mostKept = 2;
const keptForMs = 10_000;

/** A body gets no memory that is more times as large, which would then stay for as long as smaller bodies come. */
const mostTimes = 4;

let lent = 0;
let kept: Buffer[] = [];
let forgetting: NodeJS.Timeout | undefined;

/**
 * Puts a body together from its chunks. Those of a large one are copied as they come, into memory that large bodies before
 * it have used: chunks that wait for the last, and new memory for each body, are what makes V8 look through its whole heap
 * again and again.
 */
export class Assembly {
  #chunks: Buffer[] = [];
  #memory: Buffer | null = null;
  #size = 0;
  readonly #declared: number;

  /** @param declared its length in bytes as its header says, which no more than that may follow; 0 when it does not say */
  constructor(declared: number) {
    this.#declared = declared;
  }

  /** In bytes, of what has come. */
  get size(): number {
    return this.#size;
  }

  /** @param chunk nobody else has it: it is freed when it was copied */
  add(chunk: Buffer): void {
    const at = this.#size;
    this.#size += chunk.length;
    if (this.#memory) move(chunk, this.#memory, at);
    else this.#chunks.push(chunk);
    if (!this.#memory && this.#isWorthMemory()) this.#settle();
  }

  /** All of it, for as long as it is not released; nothing comes after that. */
  async bytes(): Promise<Buffer> {
    if (!this.#memory && this.#size < largeFrom) return Buffer.concat(this.#chunks, this.#size);
    if (!this.#memory) {
      const memory = lend(this.#size);
      this.#memory = memory;
      let at = 0;
      await givingWay(this.#chunks, (chunk) => {
        at += move(chunk, memory, at);
      });
      this.#chunks = [];
    }
    return this.#memory.subarray(0, this.#size);
  }

  /** To be called once, when nobody reads its bytes any more. */
  release(): void {
    if (this.#memory) takeBack(this.#memory);
    this.#memory = null;
    this.#chunks = [];
  }

  #isWorthMemory(): boolean {
    const declared = this.#declared;
    return declared >= largeFrom && this.#size >= declared * seriousPart && lent + declared <= mostLent;
  }

  #settle(): void {
    this.#memory = lend(this.#declared);
    let at = 0;
    for (const chunk of this.#chunks) at += move(chunk, this.#memory, at);
    this.#chunks = [];
  }
}

function move(chunk: Buffer, memory: Buffer, at: number): number {
  const size = chunk.copy(memory, at);
  freeNow(chunk);
  return size;
}

function lend(size: number): Buffer {
  const fits = ({ length }: Buffer) => length >= size && length <= Math.max(mostTimes * size, MB);
  // One batch is hardly ever as long as the one before.
  const memory = kept.find(fits) ?? Buffer.allocUnsafeSlow(Math.ceil(size / MB) * MB);
  kept = kept.filter((other) => other !== memory);
  lent += memory.length;
  return memory;
}

function takeBack(memory: Buffer): void {
  lent -= memory.length;
  // At once: many large bodies at once would else need many times the memory that they may have.
  for (const tooMany of kept.splice(mostKept - 1)) freeNow(tooMany);
  kept.unshift(memory);
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    for (const memory of kept.splice(0)) freeNow(memory);
  }, keptForMs).unref();
}
