/** A map of the entries that were set last: beyond a given number, the one that was set longest ago goes. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number;

  constructor(most: number) {
    super();
    this.#most = most;
  }

  /** Makes the entry the latest, also if there was one with this key. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    const [oldest] = this.keys();
    if (this.size > this.#most) this.delete(oldest as Key);
    return this;
  }
}
