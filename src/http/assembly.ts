import { givingWay } from '../give-way.ts';

/** Bytes from which on a body gets memory of its own size, which is used again. */
const largeFrom = 256 * 1024;

/** Who only says that a large body comes gets no memory for it: this part of it has to be there first. */
const seriousPart = 1 / 16;

/** As many are kept for the bodies to come, those that were used last, and for as long, in ms, after one was given back. */
const mostKept = 2;
const keptForMs = 10_000;

/** A body gets no memory that is more times as large, which would then stay for as long as smaller bodies come. */
const mostTimes = 4;

/** Sizes are rounded up to this many bytes, as one batch is hardly ever as long as the one before. */
const step = 1024 * 1024;

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

  add(chunk: Buffer): void {
    if (this.#memory) chunk.copy(this.#memory, this.#size);
    else this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (!this.#memory && this.#declared >= largeFrom && this.#size >= this.#declared * seriousPart) this.#settle();
  }

  /** All of it, for as long as it is not released. */
  async bytes(): Promise<Buffer> {
    if (this.#memory) return this.#memory.subarray(0, this.#size);
    if (this.#size < largeFrom) return Buffer.concat(this.#chunks, this.#size);
    const bytes = Buffer.allocUnsafeSlow(this.#size);
    let at = 0;
    await givingWay(this.#chunks, (chunk) => {
      at += chunk.copy(bytes, at);
    });
    return bytes;
  }

  /** To be called once, when nobody reads its bytes any more. */
  release(): void {
    if (this.#memory) takeBack(this.#memory);
    this.#memory = null;
    this.#chunks = [];
  }

  #settle(): void {
    this.#memory = lend(this.#declared);
    let at = 0;
    for (const chunk of this.#chunks) at += chunk.copy(this.#memory, at);
    this.#chunks = [];
  }
}

function lend(size: number): Buffer {
  const fits = ({ length }: Buffer) => length >= size && length <= Math.max(mostTimes * size, step);
  const memory = kept.find(fits);
  if (!memory) return Buffer.allocUnsafeSlow(Math.ceil(size / step) * step);
  kept = kept.filter((other) => other !== memory);
  return memory;
}

function takeBack(memory: Buffer): void {
  kept = [memory, ...kept].slice(0, mostKept);
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    kept = [];
  }, keptForMs).unref();
}
