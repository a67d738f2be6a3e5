import { callsAtOnce } from '../core/webhooks/webhook-lines.ts';
import { Tally } from '../pace/tally.ts';
import { type Answered, EndpointRoom } from './endpoint-room.ts';

/** How many calls a node makes at once. */
export interface Limits {
  /** Calls that have just begun; older ones only wait for their endpoint. If every endpoint is slow, no more begin in 0.3 s. */
  running: number;
  /** Calls in all, including those that wait. */
  open: number;
  /** Of these, calls to failing endpoints: a crowd of dead ones leaves room for the living. */
  openToFailing: number;
  /** To an endpoint that is not known yet, or fails. */
  perEndpoint: number;
  /** To an endpoint that keeps answering well. */
  perGoodEndpoint: number;
  /** Claims in hand in all, running or waiting for their endpoint. */
  inHand: number;
}

export const defaultLimits: Limits = {
  running: 600,
  open: 2_000,
  openToFailing: 50,
  perEndpoint: callsAtOnce,
  perGoodEndpoint: 32,
  inHand: 5_000,
};

/** How long a call counts as just begun: a good endpoint answers within this time. */
const youngMs = 300;

interface Caller {
  webhookId: string;
  accountId: string;
  failing: boolean;
}

/**
 * The calls that this node may have under way. As with mail, those that have gone on for a while count only against a larger
 * limit: endpoints that take all the time they are given and then answer do not count as failing, and would otherwise hold up
 * the others for good.
 */
export class Slots {
  readonly #limits: Limits;
  readonly #onAged: () => void;
  readonly #ofEndpoint = new Tally<string>();
  readonly #room: EndpointRoom;
  /** Calls that have just begun. */
  readonly #young = new Map<Caller, NodeJS.Timeout>();
  #open = 0;
  readonly #openOfAccount = new Tally<string>();
  #openToFailing = 0;
  readonly #failingOfAccount = new Tally<string>();

  /** @param onAged called when a call is old enough for another one to begin */
  constructor(limits: Limits, onAged: () => void) {
    this.#limits = limits;
    this.#room = new EndpointRoom(limits.perEndpoint, limits.perGoodEndpoint);
    this.#onAged = onAged;
  }

  /** How many calls to this endpoint are under way. */
  of(webhookId: string): number {
    return this.#ofEndpoint.of(webhookId);
  }

  /** Whether any call may begin. */
  get free(): boolean {
    return this.#young.size < this.#limits.running && this.#open < this.#limits.open;
  }

  /**
   * Whether this call may begin. An account may have as many calls under way as are left to others, and the same goes for
   * calls to failing endpoints, so that some are always left: twenty endpoints with 32 calls each that take all the time they
   * get are a third of all.
   */
  hasRoomFor({ webhookId, accountId, failing }: Caller): boolean {
    return (
      this.free &&
      this.#ofEndpoint.of(webhookId) < this.#room.of(webhookId) &&
      this.#openOfAccount.of(accountId) < this.#limits.open - this.#open &&
      (!failing || this.#failingOfAccount.of(accountId) < this.#limits.openToFailing - this.#openToFailing)
    );
  }

  take(caller: Caller): void {
    this.#ofEndpoint.add(caller.webhookId, 1);
    this.#open += 1;
    this.#openOfAccount.add(caller.accountId, 1);
    if (caller.failing) this.#countFailing(caller, 1);
    const age = () => {
      this.#young.delete(caller);
      this.#onAged();
    };
    this.#young.set(caller, setTimeout(age, youngMs));
  }

  /**
   * @param caller the very object given to `take`
   * @param answered the result of the call, if it says something about the endpoint
   */
  give(caller: Caller, answered: Answered | null): void {
    const { webhookId } = caller;
    if (answered) this.#room.learn(webhookId, answered, this.#ofEndpoint.of(webhookId));
    this.#ofEndpoint.add(webhookId, -1);
    this.#open -= 1;
    this.#openOfAccount.add(caller.accountId, -1);
    if (caller.failing) this.#countFailing(caller, -1);
    clearTimeout(this.#young.get(caller));
    this.#young.delete(caller);
  }

  #countFailing({ accountId }: Caller, count: number): void {
    this.#openToFailing += count;
    this.#failingOfAccount.add(accountId, count);
  }
}
