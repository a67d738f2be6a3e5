import type { SiteLimits } from './connections/site-connections.ts';
import type { TlsDemand } from './policies/tls-policy.ts';
import type { RecipientResult, Session } from './replies/result.ts';
import type { Envelope } from './transaction/envelope.ts';

/** One message for the recipients of one destination. */
export interface DeliveryRequest {
  /** The recipients' domain, in its ASCII form. */
  destination: string;
  envelope: Envelope;
  /** The complete message with CRLF line ends, in one or more pieces of whole lines. */
  message: readonly Buffer[];
  /** Which of the transport's addresses the message may leave from, one picked per sender; default: all. */
  sendingIps?: readonly string[] | undefined;
  /** The first notes of the conversation's record: why now, and by which limits. */
  remarks?: string[];
  /** The site that the servers belong to, if its connections are limited. */
  site?: SiteLimits | undefined;
  /** What the sender asks for; default: opportunistic TLS. */
  tls?: TlsDemand;
  /** Asked in each transaction for these recipients just before the end of the message is written; false gives it up. */
  beforeDot: (recipients: string[], session: OpenSession) => boolean | Promise<boolean>;
  /**
   * Told the results of those who were asked for just before, as soon as they are known and before the attempt is over; also
   * if the end was not written after all.
   */
  afterDot?: (results: RecipientResult[]) => void;
  /** Ends the attempt: undecided recipients are deferred, and uncertain if the final dot was written. */
  signal?: AbortSignal;
}

/** A session whose end is not known yet. */
export type OpenSession = Omit<Session, 'durationMs' | 'results' | 'conversation'>;
