import { isUnanswered } from './api.ts';

/** The idempotency keys of calls of which nobody knows whether they took effect, by what they do. */
const keys = new Map<string, string>();

/**
 * Makes a call that must not take effect twice because somebody presses again after its answer was lost: until there is an
 * answer, each call that does the same has the same key. Until this page is loaded anew, and for as long as the server keeps keys.
 *
 * @param what names what is done, with all that is in the call
 */
export async function oncePerAnswer<Answer>(
  what: string,
  call: (options: { idempotencyKey: string }) => Promise<Answer>,
): Promise<Answer> {
  const idempotencyKey = keys.get(what) ?? crypto.getRandomValues(new Uint32Array(4)).join('-');
  keys.set(what, idempotencyKey);
  try {
    const answer = await call({ idempotencyKey });
    keys.delete(what);
    return answer;
  } catch (error) {
    if (!isUnanswered(error)) keys.delete(what);
    throw error;
  }
}
