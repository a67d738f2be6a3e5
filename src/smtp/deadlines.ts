/** How long each step of a session may take in all, in milliseconds, and how slow a link may be. */
export interface Deadlines {
  connect: number;
  greeting: number;
  ehlo: number;
  /** The reply to STARTTLS, and then the handshake. */
  starttls: number;
  mail: number;
  rcpt: number;
  /** The 354. */
  data: number;
  /** Handing over the message, besides the time that `minBytesPerSecond` grants for its size, here and in `transaction`. */
  content: number;
  /** The reply to the final dot. */
  dot: number;
  /** One transaction with all of its steps up to the final dot, whose answer has its own time. */
  transaction: number;
  /** The slowest link on which a message of any size is still sent. */
  minBytesPerSecond: number;
}

/** RFC 5321 section 4.5.3.2 asks for minutes at each step; only the dot, where a lost reply costs a second copy, has them. */
export const defaultDeadlines: Deadlines = {
  connect: 30_000,
  greeting: 60_000,
  ehlo: 60_000,
  starttls: 60_000,
  mail: 60_000,
  rcpt: 60_000,
  data: 120_000,
  content: 180_000,
  dot: 600_000,
  transaction: 1_200_000,
  minBytesPerSecond: 16_384,
};
