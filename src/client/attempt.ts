import type { Failure } from './errors.ts';

/** The request of a call; all attempts send the same one. */
export interface CallRequest {
  url: string;
  init: RequestInit;
  /** Whether the answer is text; otherwise it is JSON. */
  isText: boolean;
}

export interface AttemptOptions {
  fetch?: typeof fetch | undefined;
  /** For the whole attempt, including the answer. */
  timeoutMs: number;
  maxAnswerBytes?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** The result of one attempt. */
export type Outcome = { answer: unknown } | Failure;

/** @throws the reason of the caller's signal; every other failure is returned */
export async function attempt({ url, init, isText }: CallRequest, options: AttemptOptions): Promise<Outcome> {
  const { signal, timeoutMs, maxAnswerBytes = 64 * 1024 * 1024 } = options;
  signal?.throwIfAborted();
  const controller = new AbortController();
  const stop = () => controller.abort();
  signal?.addEventListener('abort', stop, { once: true });
  const timer = setTimeout(stop, timeoutMs);
  try {
    const response = await (options.fetch ?? fetch)(url, { ...init, signal: controller.signal });
    const text = await readAll(response, maxAnswerBytes);
    return text === null ? tooLarge(response, maxAnswerBytes) : outcomeOf(response, text, isText);
  } catch (cause) {
    signal?.throwIfAborted();
    if (controller.signal.aborted)
      return { error: 'timeout', detail: `there was no answer within ${timeoutMs} ms`, cause };
    return { error: 'network error', detail: reasonOf(cause), cause };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

/** The body as text; null if it has more than `most` bytes, and then the rest is not read. */
async function readAll(response: Response, most: number): Promise<string | null> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > most) {
      await reader?.cancel();
      return null;
    }
    text += decoder.decode(value, { stream: true });
  }
}

function outcomeOf(response: Response, text: string, isText: boolean): Outcome {
  if (response.ok && isText) return { answer: text };
  const body = parseObject(text);
  if (response.ok && body) return { answer: body };
  const facts = factsOf(response);
  if (typeof body?.error !== 'string')
    return { ...facts, error: 'unexpected answer', detail: unexpected(response, text) };
  // For a refused credential, a header says what to do.
  const detail = typeof body.detail === 'string' ? body.detail : response.headers.get('X-Error-Detail');
  return { ...facts, error: body.error, detail, body };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The detail of an answer that Sendwright does not give, such as the error page of a proxy. */
function unexpected({ headers }: Response, text: string): string {
  const location = headers.get('location');
  if (location !== null) return `a redirect to ${location.slice(0, 200)}, which is not followed: is baseUrl right?`;
  return `this is not from Sendwright: ${text.slice(0, 200)}`;
}

const tooLarge = (response: Response, most: number): Failure => ({
  ...factsOf(response),
  error: 'answer too large',
  detail: `it has more than ${most} bytes`,
});

const factsOf = ({ status, headers }: Response) => ({
  status,
  requestId: headers.get('x-request-id'),
  retryAfterMs: retryAfter(headers.get('retry-after')),
});

/** Seconds or an HTTP date as milliseconds from now; null if it is neither. */
function retryAfter(value: string | null): number | null {
  if (value === null) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** The message of fetch is only "fetch failed"; the reason is in its cause. */
function reasonOf(error: unknown): string {
  const { message, code, cause } = Object(error) as { message?: string; code?: string; cause?: unknown };
  return cause ? reasonOf(cause) : message || code || String(error);
}
