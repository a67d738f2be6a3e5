const smallest = 64 * 1024;

/** What needs more than this gets memory of its own, which is given back. */
const largest = 4 * 1024 * 1024;

/** Work space that is used again and again, instead of new memory for each text: for one synchronous step at a time. */
export class Scratch {
  #buffer = Buffer.alloc(0);

  /** At least so many octets, whatever they hold; the next call gives out the same ones. */
  of(size: number): Buffer {
    if (size > largest) return Buffer.allocUnsafeSlow(size);
    if (this.#buffer.length < size)
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(smallest, 2 ** Math.ceil(Math.log2(size))));
    return this.#buffer;
  }
}
