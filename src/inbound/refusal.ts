import type { Logger } from '../log.ts';

/** A refusal as the client reads it: the reply code, the enhanced code (RFC 3463) and a sentence. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  /** smtp-server reads the code from this property. */
  readonly responseCode: number;

  constructor(code: number, enhanced: string, sentence: string) {
    super(`${enhanced} ${printable(sentence)}`);
    this.responseCode = code;
  }
}

export const badContent = (sentence: string) => new Refusal(554, '5.6.0', sentence);
export const inCircles = (sentence: string) => new Refusal(554, '5.4.6', sentence);
export const tooManyConnections = () => new Refusal(421, '4.7.0', 'too many connections, try again later');
export const tooLarge = (sentence: string) => new Refusal(552, '5.3.4', sentence);
/** For a temporary condition: the client keeps the message and tries again. */
export const notNow = (sentence = 'the service is unavailable now, try again') => new Refusal(451, '4.3.0', sentence);

/**
 * The reply to an error. Any other than a Refusal is a defect of ours, which is logged, so the client may try again: its message
 * may be fine.
 *
 * @param failed what failed, for the log
 */
export function asRefusal(error: unknown, log: Logger, failed: string): Refusal {
  if (error instanceof Refusal) return error;
  log.error({ error: (error as Error).stack }, failed);
  return notNow('internal error, try again');
}

/** Fits a reply line of 512 octets (RFC 5321 section 4.5.3.1.5), and is safe to quote in logs and on terminals. */
const printable = (text: string) => text.replaceAll(/[^ -~]/g, '?').slice(0, 400);
