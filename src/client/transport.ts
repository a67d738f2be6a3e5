import { type Failure, SendwrightError } from './errors.ts';
import { type Operations, routes } from './operations.ts';

export interface CallOptions {
  /** How long one attempt may take, its whole answer included; 30 s where it is omitted, 24 days at the most. */
  timeoutMs?: number | undefined;
  /** How often a call is made at the most; 3 where it is omitted, 1 for never again. */
  maxAttempts?: number | undefined;
  /** Ends the call, with its `reason` as the error. */
  signal?: AbortSignal | undefined;
}

export interface SendOptions extends CallOptions {
  /** Names what is sent or added: within 24 hours it is done once. Omitted, one is made for the attempts of this call. */
  idempotencyKey?: string | undefined;
}

export interface ClientOptions {
  /** Where the service is, such as `https://send.example.com`, with `/api/v1` behind it or without. */
  baseUrl: string;
  /** For sending and reading emails, templates and statistics. */
  apiKey?: string | undefined;
  /** Of a login, for everything else; `login` gets one. */
  token?: string | undefined;
  /** As for a single call, which can say otherwise. */
  timeoutMs?: number | undefined;
  maxAttempts?: number | undefined;
  /** How long to wait before the second attempt, about; 500 ms where it is omitted. It doubles with each. */
  backoffMs?: number | undefined;
  /** Longer answers are refused; 64 MiB where it is omitted. */
  maxAnswerBytes?: number | undefined;
  /** Called instead of the global one. */
  fetch?: typeof fetch | undefined;
}

type OperationId = keyof Operations;

/** What an operation takes: what stands in its path, its query and its body. */
export type Input<Id extends OperationId> = ((typeof routes)[Id]['path'] extends `${string}{${string}`
  ? { param: string }
  : unknown) &
  (Operations[Id] extends { query: infer Query } ? { query?: Query } : unknown) &
  (Operations[Id] extends { body: infer Body } ? { body: Body } : unknown);

export type Call = <Id extends OperationId>(
  id: Id,
  input: Input<Id>,
  options?: SendOptions,
) => Promise<Operations[Id]['answer']>;

const longestBackoffMs = 8_000;
/** Who is told to wait for longer than this had better hear of it at once. */
const longestWaitMs = 60_000;

/** Failures that may be over a moment later. */
const passingStatuses = [500, 502, 503, 504];
const passingErrors = ['network error', 'timeout'];

/** Operations that come to the same when they are called twice, although they are a `POST`. */
const repeatable: OperationId[] = ['logIn', 'renderTemplate', 'verifyDomain', 'addSuppression', 'unsubscribe'];

interface Route {
  method: string;
  path: string;
  isText?: true;
  takesKey?: true;
}

/** What one attempt came to. */
type Outcome = { answer: unknown } | Failure;

/** Not `randomUUID`, which a browser has for pages by https only. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (octet) => octet.toString(16).padStart(2, '0')).join('');

/**
 * How operations are called. After a network error, a timeout, or a status that passes, a call is repeated where that
 * cannot do it twice: whatever is not a `POST`, some that are, and what takes an `Idempotency-Key`, as each of
 * its attempts has the same and the same bytes. What was refused as `rate limited` was not done, and is always repeated.
 */
export function connect(settings: ClientOptions): Call {
  const base = baseOf(settings.baseUrl);

  return async (id, input, options = {}) => {
    const route: Route = routes[id];
    demandKnown(options, id, route);
    const asked = input as { param?: string; query?: object; body?: unknown };
    const { param, query, body } = asked;
    if ('body' in asked && body === undefined)
      throw new TypeError(`what to ${route.method} to ${route.path} is missing: ${id} takes an object`);
    const url = `${base}${pathOf(route.path, param)}${queryOf(query)}`;
    const idempotencyKey = route.takesKey ? (options.idempotencyKey ?? newKey()) : null;
    // A redirect is not followed: it would take the credentials along.
    const request: RequestInit = {
      method: route.method,
      headers: headersOf(settings, { route, hasBody: body !== undefined, idempotencyKey }),
      body: body === undefined ? null : JSON.stringify(body),
      redirect: 'manual',
    };
    const mayRepeat = route.method !== 'POST' || idempotencyKey !== null || repeatable.includes(id);
    const timeoutMs = timeoutOf(options.timeoutMs ?? settings.timeoutMs);
    const mostAttempts = options.maxAttempts ?? settings.maxAttempts ?? 3;
    for (let attempts = 1; ; attempts += 1) {
      const outcome = await attempt(url, request, route.isText === true, {
        ...settings,
        timeoutMs,
        signal: options.signal,
      });
      if ('answer' in outcome) return outcome.answer as never;
      const wait = attempts < mostAttempts ? waitAfter(outcome, attempts, mayRepeat, settings.backoffMs ?? 500) : null;
      if (wait === null) throw new SendwrightError({ ...outcome, idempotencyKey, attempts });
      await sleep(wait, options.signal);
    }
  };
}

const optionNames = ['timeoutMs', 'maxAttempts', 'signal', 'idempotencyKey'];

/**
 * A key by another name would be passed over, and a call that is made again would send again.
 *
 * @throws TypeError when there is an option that the call does not have
 */
function demandKnown(options: SendOptions, id: OperationId, { takesKey }: Route): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`the options of ${id} must be an object: ${options}`);
  for (const [name, value] of Object.entries(options)) {
    if (!optionNames.includes(name))
      throw new TypeError(`${name} is no option of a call: there are ${optionNames.join(', ')}`);
    if (name === 'idempotencyKey' && value !== undefined && !takesKey)
      throw new TypeError(`${id} takes no idempotencyKey: it is for what is sent or added`);
  }
}

/** A timer that is to wait for longer, or without an end, is over at once. */
const longestTimeoutMs = 2 ** 31 - 1;

/** @throws TypeError when it is over before anything was sent */
function timeoutOf(ms: number | null = 30_000): number {
  if (Number(ms) > 0) return Math.min(Number(ms), longestTimeoutMs);
  throw new TypeError(`timeoutMs must be a number above 0: ${ms}`);
}

/**
 * Without the `/api/v1` that the paths of the API begin with: people write down either.
 *
 * @throws TypeError when it is no address of a service
 */
function baseOf(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  if (url && /^https?:$/.test(url.protocol))
    return `${url.origin}${url.pathname.replace(/(?:\/{1,100}api\/v1)?\/{0,100}$/, '')}`;
  throw new TypeError(`baseUrl must be the address of the service, such as https://send.example.com: ${baseUrl}`);
}

/** @throws TypeError when there is no parameter where the path has one, or one that would make it another path */
function pathOf(path: string, param: unknown): string {
  return path.replace(/\{(\w+)\}/, (_, name) => {
    if (typeof param === 'string' && !/^\.{0,2}$/.test(param)) return encodeURIComponent(param);
    throw new TypeError(`${name} must be a string that is not empty: ${param}`);
  });
}

function queryOf(query: object = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const pairs = entries.map(([name, value]): [string, string] => [name, String(value)]);
  return pairs.length > 0 ? `?${new URLSearchParams(pairs)}` : '';
}

function headersOf(
  { apiKey, token }: ClientOptions,
  { route, hasBody, idempotencyKey }: { route: Route; hasBody: boolean; idempotencyKey: string | null },
): Headers {
  // A page that there is none of would be another page, for whoever prefers one.
  const headers = new Headers({ Accept: route.isText ? 'application/json, */*;q=0.9' : 'application/json' });
  const set = (name: string, what: string, value: string) => {
    try {
      headers.set(name, value);
    } catch {
      // What the platform says shows the value.
      throw new TypeError(`${what} holds characters that no header can have, such as a line end`);
    }
  };
  if (isGiven(apiKey)) set('X-API-Key', 'apiKey', apiKey);
  if (isGiven(token)) set('Authorization', 'token', `Bearer ${token}`);
  if (hasBody) headers.set('Content-Type', 'application/json');
  if (idempotencyKey !== null) set('Idempotency-Key', 'idempotencyKey', idempotencyKey);
  return headers;
}

const isGiven = <Value>(value: Value | null | undefined): value is Value => value !== undefined && value !== null;

/** @throws the reason of the caller's signal; any other failure is an outcome */
async function attempt(
  url: string,
  request: RequestInit,
  isText: boolean,
  settings: ClientOptions & { timeoutMs: number; signal: AbortSignal | undefined },
): Promise<Outcome> {
  const { signal, timeoutMs, maxAnswerBytes = 64 * 1024 * 1024 } = settings;
  signal?.throwIfAborted();
  const controller = new AbortController();
  const stop = () => controller.abort();
  signal?.addEventListener('abort', stop, { once: true });
  const late = setTimeout(stop, timeoutMs);
  try {
    const response = await (settings.fetch ?? fetch)(url, { ...request, signal: controller.signal });
    const text = await readAll(response, maxAnswerBytes);
    return text === null ? tooLarge(response, maxAnswerBytes) : outcomeOf(response, text, isText);
  } catch (cause) {
    signal?.throwIfAborted();
    if (controller.signal.aborted)
      return { error: 'timeout', detail: `there was no answer within ${timeoutMs} ms`, cause };
    return { error: 'network error', detail: reasonOf(cause), cause };
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', stop);
  }
}

/** The body as text; null when it has more bytes, of which the rest is not read. */
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
  const body = parsed(text);
  if (response.ok && body) return { answer: body };
  const known = factsOf(response);
  if (typeof body?.error !== 'string') return { ...known, error: 'unexpected answer', detail: shown(response, text) };
  // Of a refused credential what to do stands in a header.
  const detail = typeof body.detail === 'string' ? body.detail : response.headers.get('X-Error-Detail');
  return { ...known, error: body.error, detail, body };
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function shown({ headers }: Response, text: string): string {
  const elsewhere = headers.get('location');
  if (elsewhere !== null) return `a redirect to ${elsewhere.slice(0, 200)}, which is not followed: is baseUrl right?`;
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

/** Seconds or an HTTP date, as milliseconds from now; null where it is neither. */
function retryAfter(value: string | null): number | null {
  if (value === null) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** What fetch says is "fetch failed"; why is in its cause. */
function reasonOf(error: unknown): string {
  const { message, code, cause } = Object(error) as { message?: string; code?: string; cause?: unknown };
  return cause ? reasonOf(cause) : message || code || String(error);
}

/** How long to wait before the next attempt; null when there is to be none. */
function waitAfter(failure: Failure, attempts: number, mayRepeat: boolean, backoffMs: number): number | null {
  const { status = null, error, retryAfterMs } = failure;
  const passes = passingErrors.includes(error) || (status !== null && passingStatuses.includes(status));
  // A quota lasts until the next day or month.
  const refused = status === 429 && error !== 'quota exceeded';
  if (!refused && !(passes && mayRepeat)) return null;
  if ((retryAfterMs ?? 0) > longestWaitMs) return null;
  const backoff = Math.min(longestBackoffMs, backoffMs * 2 ** (attempts - 1));
  return (retryAfterMs ?? 0) + backoff * (0.5 + Math.random() / 2);
}

/** @throws the reason of the signal */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
