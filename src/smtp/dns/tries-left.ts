import type { MxHost } from './mx.ts';

const maxAddresses = 5;
// The first choice gets three, so that both families are tried.
const mostReserved = 2;
const maxSessions = 2;

/** What one delivery may still try: at most five addresses and two sessions, over all hosts. */
export class TriesLeft {
  #addresses = maxAddresses;
  /** How many of these are for less preferred hosts, which may be the ones that are alive. */
  #reserved = 0;
  #sessions = maxSessions;

  /** True while another address may be tried, at a host whose turn it is. */
  get any(): boolean {
    return this.addresses > 0 && this.#sessions > 0;
  }

  /** How many addresses may be dialed, at a host whose turn it is. */
  get addresses(): number {
    return this.#addresses - this.#reserved;
  }

  /** Reserves an address for each of the next two preferences, if they exist; the host to try now keeps at least one. */
  reserveFor(worse: MxHost[]): void {
    const preferences = new Set(worse.map(({ preference }) => preference));
    this.#reserved = Math.max(0, Math.min(preferences.size, mostReserved, this.#addresses - 1));
  }

  countAddresses(dialed: number): void {
    this.#addresses -= dialed;
  }

  countSession(): void {
    this.#sessions -= 1;
  }

  /** Returns a function that takes back what is counted from now on. */
  mark(): () => void {
    const [addresses, sessions] = [this.#addresses, this.#sessions];
    return () => {
      this.#addresses = addresses;
      this.#sessions = sessions;
    };
  }
}
