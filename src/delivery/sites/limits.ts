/** How much a node does at once. */
export interface Limits {
  /**
   * Attempts in their first 0.3 s, which keep the processor busy. Where every server is far away no more than this begin in
   * 0.3 s.
   */
  running: number;
  /** Attempts in all: most of the others wait for a server. */
  open: number;
  /** Claims in hand in all, running or waiting for their site; one that waits is ids and addresses only. */
  inHand: number;
  /** Claims that wait here for one site; the others wait as rows. */
  line: number;
  /** The same once half of `inHand` is used. */
  lineIfHalfFull: number;
  /** Claims that go first in one line: with so many there, the jobs for more of them stay in the queue. */
  first: number;
}

export const defaultLimits: Limits = {
  running: 600,
  open: 2_000,
  inHand: 10_000,
  line: 300,
  lineIfHalfFull: 20,
  first: 20,
};
