/** A point in a server of the harness where clients can be made to wait. */
export interface Trap {
  /** Resolves when the first one is caught. */
  hit: Promise<void>;
  /** Releases all that wait, and holds no more. */
  lift(): void;
}

/** The traps of one server, by phase. */
export class Traps<Phase extends string, Subject> {
  readonly #set = new Map<Trap, { phase: Phase; matches(subject: Subject): boolean; pass: () => Promise<void> }>();

  set(phase: Phase, matches: (subject: Subject) => boolean = () => true): Trap {
    const hit = Promise.withResolvers<void>();
    const lifted = Promise.withResolvers<void>();
    const trap: Trap = {
      hit: hit.promise,
      lift: () => {
        this.#set.delete(trap);
        lifted.resolve();
      },
    };
    const pass = () => {
      hit.resolve();
      return lifted.promise;
    };
    this.#set.set(trap, { phase, matches, pass });
    return trap;
  }

  /** Waits if there is a trap for this phase of this subject. */
  async pass(phase: Phase, subject: Subject): Promise<void> {
    for (const trap of this.#set.values()) if (trap.phase === phase && trap.matches(subject)) return trap.pass();
  }

  liftAll(): void {
    for (const trap of this.#set.keys()) trap.lift();
  }
}
