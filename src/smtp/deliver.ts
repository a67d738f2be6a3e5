import type { Transport } from './transport.ts';
import type { Delivery } from './result.ts';

export type { Reply } from './reply.ts';
export type { Classification, Delivery, Phase, RecipientResult, Session, TlsInfo } from './result.ts';
export { createTransport, type Transport, type TransportOptions } from './transport.ts';

/** One message for the recipients of one destination. */
export interface DeliveryRequest {
  /** The recipients' domain, in its ASCII form. */
  destination: string;
  envelope: { from: string; recipients: string[]; smtpUtf8: boolean };
  /** The complete message with CRLF line ends. */
  message: Buffer;
  /** Asked just before the final dot of each transaction; false means that the message is no longer ours to send. */
  beforeDot: () => boolean;
  /** Ends the attempt: before the dot the recipients are deferred, after it they are deferred and uncertain. */
  signal?: AbortSignal;
}

export async function deliver(_transport: Transport, _request: DeliveryRequest): Promise<Delivery> {
  throw new Error('under way');
}
