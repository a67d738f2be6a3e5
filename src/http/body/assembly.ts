import { givingWay } from '../../pace/give-way.ts';
import { freeNow } from '../../process/free-now.ts';

const MB = 1024 * 1024;

/** Bodies of at least this many bytes get one piece of memory, which is reused. */
const largeFrom = MB / 4;

/** A large body gets no memory for its declared length alone: this fraction of it must have arrived first. */
const seriousPart = 1 / 16;

/** The most bytes lent to bodies that are still incomplete; other bodies wait as chunks for their end. */
const mostLent = 128 * MB;

/** How many pieces of memory are kept for further bodies, the last used ones, and for how long after the last return. */
const mostKept = 2;
const keptForMs = 10_000;

/** A body reuses memory of at most this many times its size: otherwise small bodies would keep large memory alive. */
const mostTimes = 4;

let lent = 0;
let kept: Buffer[] = [];
let forgetting: NodeJS.Timeout | undefined;

/**
 * Puts a body together from its chunks. The chunks of a large body are copied as they arrive, into memory reused from earlier
 * large bodies: waiting chunks and new memory for each body would trigger one full garbage collection of V8 after another.
 */
export class Assembly {
  #chunks: Buffer[] = [];
  #memory: Buffer | null = null;
  #size = 0;
  readonly #declared: number;

  /** @param declared its length in bytes according to its header, which it must not exceed; 0 if the header has none */
  constructor(declared: number) {
    this.#declared = declared;
  }

  /** The bytes that have arrived. */
  get size(): number {
    return this.#size;
  }

  /** @param chunk must not be used by anybody else: it is freed once it was copied */
  add(chunk: Buffer): void {
    const at = this.#size;
    this.#size += chunk.length;
    if (this.#memory) move(chunk, this.#memory, at);
    else this.#chunks.push(chunk);
    if (!this.#memory && this.#isWorthMemory()) this.#settle();
  }

  /** The whole body, valid until it is released. No chunk may be added afterwards. */
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

  /** Call this once, when nobody reads the bytes any more. */
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
  // Rounded up, as two batches hardly ever have the same length.
  const memory = kept.find(fits) ?? Buffer.allocUnsafeSlow(Math.ceil(size / MB) * MB);
  kept = kept.filter((other) => other !== memory);
  lent += memory.length;
  return memory;
}

function takeBack(memory: Buffer): void {
  lent -= memory.length;
  // Freed immediately: otherwise many concurrent large bodies would take many times their allowance.
  for (const tooMany of kept.splice(mostKept - 1)) freeNow(tooMany);
  kept.unshift(memory);
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    for (const memory of kept.splice(0)) freeNow(memory);
  }, keptForMs).unref();
}
