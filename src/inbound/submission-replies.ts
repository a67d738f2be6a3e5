import { isUnavailable } from '../db/errors.ts';
import { ApiError, isFromDomainNotVerified } from '../errors.ts';
import { LoopError, SenderError } from '../mail/submission/submission.ts';
import { MimeError } from '../mail/text/mime-error.ts';
import { badContent, inCircles, notNow, Refusal, tooLarge } from './refusal.ts';

export const badSender = (sentence: string) => new Refusal(550, '5.7.1', sentence);
export const badCredentials = (sentence: string) => new Refusal(535, '5.7.8', sentence);
export const tooManyRequests = (seconds: number, sentence: string) =>
  new Refusal(450, '4.7.1', `${sentence}: try again in ${seconds} s`);
export const tooManyOfAccount = () =>
  new Refusal(421, '4.7.0', 'this account has too many connections, try again later');

/**
 * The reply to an error while a message is accepted; null for a defect of ours. It is temporary (4xx) if the same message may
 * succeed later, as with a quota or the database.
 *
 * @param domain the sender's, for the sentence
 */
export function refusalOf(error: unknown, domain: string): Refusal | null {
  if (error instanceof Refusal) return error;
  if (error instanceof SenderError) return new Refusal(550, '5.6.0', error.message);
  if (error instanceof LoopError) return inCircles(error.message);
  if (error instanceof MimeError) return badContent(error.message);
  if (!(error instanceof ApiError)) return isUnavailable(error) ? notNow() : null;
  const detail = error.detail?.replace(/^from: /, 'From: ') ?? '';
  const sentence = [error.message, detail].filter(Boolean).join(': ');
  if (error.status === 403) return badSender(`From: this API key may not send for ${domain}`);
  if (isFromDomainNotVerified(error)) return badSender(detail);
  if (error.status === 409)
    return new Refusal(554, '5.5.0', 'X-Sendwright-Idempotency-Key: was used with another message');
  if (error.status === 413) return tooLarge(sentence);
  if (error.status === 429) return new Refusal(452, '4.3.1', sentence);
  return error.status >= 500 ? notNow() : badContent(sentence);
}
