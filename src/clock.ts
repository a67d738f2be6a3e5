/** The time of day as an argument: code that decides by time takes a clock, so that a test can move it. */
export interface Clock {
  now(): Date;
}

/** An answer that took longer, in ms, says too little about when it was given. */
const quickMs = 1_000;

/**
 * The database's time of day, as this process last heard it, continued by a clock that nobody sets: all nodes agree on when
 * mail is due, whatever the clocks of their machines show, or are set to. Until it is first heard it is this machine's
 * time. It is never ahead, and behind by no more than an answer takes.
 */
export class DatabaseClock implements Clock {
  #heard = { time: Date.now(), at: performance.now() };

  now(): Date {
    return new Date(this.#heard.time + performance.now() - this.#heard.at);
  }

  /** Asks the database, or anything else that answers with its time. */
  async hear<T extends { time: Date } | null>(ask: () => Promise<T>): Promise<T> {
    const asked = performance.now();
    const answer = await ask();
    const at = performance.now();
    if (answer && at - asked < quickMs) this.#heard = { time: answer.time.getTime(), at };
    return answer;
  }
}

/**
 * A moment that has not come yet by the database's own clock either, which may be ahead of this one by as long as an answer
 * takes: whatever was stored until now is before it.
 */
export const shortlyAfterNow = (clock: Clock): Date => new Date(clock.now().getTime() + quickMs);

/** This machine's clock, which may be wrong: for what no other machine goes by. */
export const systemClock: Clock = { now: () => new Date() };
