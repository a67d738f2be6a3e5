/** A map of the entries that were set last: beyond a given number, the one that was set longest ago goes. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number;
  /** Yields the oldest entry. It is kept, as a new iterator would first step over all that was deleted since the last rehash. */
  readonly #oldest: MapIterator<Key>;

  constructor(most: number) {
    super();
    this.#most = most;
    this.#oldest = this.keys();
  }

  /** Makes the entry the latest, also if there was one with this key. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    // What it has yielded is deleted here, so all entries are still ahead of it.
    if (this.size > this.#most) this.delete(this.#oldest.next().value as Key);
    return this;
  }
}
