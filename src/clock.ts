/** The time of day as an argument: whoever decides by time takes a clock, so that a test can move it. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };
