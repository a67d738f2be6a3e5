const smallest = 64 * 1024;

/** Larger requests get memory of their own, which is not kept. */
const largest = 4 * 1024 * 1024;

/** Reusable work space, instead of new memory for each text. Use it for one synchronous step at a time. */
export class Scratch {
  #buffer = Buffer.alloc(0);

  /** At least this many octets, with arbitrary contents; the next call returns the same ones. */
  of(size: number): Buffer {
    if (size > largest) return Buffer.allocUnsafeSlow(size);
    if (this.#buffer.length < size)
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(smallest, 2 ** Math.ceil(Math.log2(size))));
    return this.#buffer;
  }
}
