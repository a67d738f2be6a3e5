/** How long each step of a session may take in total, in milliseconds, and how slow a link may be. */
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
  /** Sending the message. Here and in `transaction`, `minBytesPerSecond` grants more time by the message's size. */
  content: number;
  /** The reply to the final dot. */
  dot: number;
  /** One transaction with all its steps up to the final dot; the reply to the dot has its own deadline. */
  transaction: number;
  /** The slowest link on which a message of any size is still sent. */
  minBytesPerSecond: number;
}

/**
 * RFC 5321 section 4.5.3.2 asks for minutes at each step; at first only the dot gets them: a lost reply there means a
 * duplicate.
 */
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

const rfcMs = 300_000;

/** With the five minutes of RFC 5321 for each reply before DATA: a few servers take that long each time. */
export const patient = (deadlines: Deadlines): Deadlines => ({
  ...deadlines,
  greeting: Math.max(deadlines.greeting, rfcMs),
  ehlo: Math.max(deadlines.ehlo, rfcMs),
  mail: Math.max(deadlines.mail, rfcMs),
  rcpt: Math.max(deadlines.rcpt, rfcMs),
});
