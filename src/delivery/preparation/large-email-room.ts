import { Tally } from '../../pace/tally.ts';

/** One account's share of the room, and that of all unproven sites together. */
const partOfRoom = 1 / 2;

/** An email that takes room. */
export interface Heavy {
  accountId: string;
  bytes: number;
  /** It goes to a site that took no mail lately. */
  unproven: boolean;
}

/** A share of the room: of an account, of the unproven sites, or of all emails. */
interface Share {
  name: string;
  most: number;
}

/** The memory for large emails: which shares of it are taken, and by how much. */
export class LargeEmailRoom {
  readonly #bytes: number;
  readonly #taken = new Tally<string>();

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** The same room, in which to try out what does not happen yet. */
  copy(): LargeEmailRoom {
    const copy = new LargeEmailRoom(this.#bytes);
    for (const name of this.#taken.kinds()) copy.#taken.add(name, this.#taken.of(name));
    return copy;
  }

  take(email: Heavy): void {
    for (const { name } of this.#sharesOf(email)) this.#taken.add(name, email.bytes);
  }

  free(email: Heavy): void {
    for (const { name } of this.#sharesOf(email)) this.#taken.add(name, -email.bytes);
  }

  /**
   * The name of a share in which there is no room for this email; null: it has room.
   *
   * @param reserved shares whose room is kept for emails that came before it
   */
  lackingFor(email: Heavy, reserved: ReadonlySet<string>): string | null {
    const lacking = this.#sharesOf(email).find(({ name, most }) => {
      const taken = this.#taken.of(name);
      // An email larger than the whole share gets it alone.
      return reserved.has(name) || (taken > 0 && taken + email.bytes > most);
    });
    return lacking?.name ?? null;
  }

  /** The smallest first. */
  #sharesOf({ accountId, unproven }: Heavy): Share[] {
    const part = this.#bytes * partOfRoom;
    return [
      { name: accountId, most: part },
      ...(unproven ? [{ name: 'unproven', most: part }] : []),
      { name: 'all', most: this.#bytes },
    ];
  }
}
