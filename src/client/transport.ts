import { type Failure, SendwrightError } from './errors.ts';
import { type Operations, routes } from './operations.ts';

export interface CallOptions {
  /** How long one attempt may take, including the whole answer. Defaults to 30 s; at most 24 days. */
  timeoutMs?: number | undefined;
  /** The maximum number of attempts. Defaults to 3; 1 means no retries. */
  maxAttempts?: number | undefined;
  /** Aborts the call, with its `reason` as the error. */
  signal?: AbortSignal | undefined;
}

export interface SendOptions extends CallOptions {
  /** Within 24 hours, calls with the same key take effect once. Omitted: one is generated for the attempts of this call. */
  idempotencyKey?: string | undefined;
}

export interface ClientOptions {
  /** The address of the service, such as `https://send.example.com`, with or without `/api/v1`. */
  baseUrl: string;
  /** For sending and for reading emails, templates and statistics. */
  apiKey?: string | undefined;
  /** The token of a login, for everything else; `login` gets one. */
  token?: string | undefined;
  /** Default for calls, which can override it. */
  timeoutMs?: number | undefined;
  maxAttempts?: number | undefined;
  /** About how long to wait before the second attempt. Defaults to 500 ms; it doubles with each attempt. */
  backoffMs?: number | undefined;
  /** Larger answers are refused. Defaults to 64 MiB. */
  maxAnswerBytes?: number | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

type OperationId = keyof Operations;

/** The input of an operation: its path parameter, query and body. */
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
/** If the service asks for a longer wait than this, the call fails at once. */
const longestWaitMs = 60_000;

/** Failures that may be transient. */
const passingStatuses = [500, 502, 503, 504];
const passingErrors = ['network error', 'timeout'];

/** Operations that are idempotent although they are a `POST`. */
const repeatable: OperationId[] = ['logIn', 'renderTemplate', 'verifyDomain', 'addSuppression', 'unsubscribe'];

interface Route {
  method: string;
  path: string;
  isText?: true;
  takesKey?: true;
}

/** The result of one attempt. */
type Outcome = { answer: unknown } | Failure;

/** Not `randomUUID`, which browsers offer only to https pages. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (octet) => octet.toString(16).padStart(2, '0')).join('');

/**
 * Returns the function that calls operations. After a network error, a timeout or a transient status, a call is retried if it
 * cannot take effect twice: every method but `POST`, some `POST`s, and those that take an `Idempotency-Key`, because all attempts
 * have the same key and the same bytes. A `rate limited` call had no effect, so it may always be retried.
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
    // Following a redirect would pass on the credentials.
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
 * Refuses unknown options: a misspelt `idempotencyKey` would be ignored, and a repeated call would send again.
 *
 * @throws TypeError if there is an option that the call does not take
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

/** The longest that a timer can wait: with more, or infinity, it would fire at once. */
const longestTimeoutMs = 2 ** 31 - 1;

/** @throws TypeError if it is not above 0 */
function timeoutOf(ms: number | null = 30_000): number {
  if (Number(ms) > 0) return Math.min(Number(ms), longestTimeoutMs);
  throw new TypeError(`timeoutMs must be a number above 0: ${ms}`);
}

/**
 * The base URL without `/api/v1`, which the paths of operations begin with: people configure it with or without.
 *
 * @throws TypeError if it is not an http or https URL
 */
function baseOf(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  if (url && /^https?:$/.test(url.protocol))
    return `${url.origin}${url.pathname.replace(/(?:\/{1,100}api\/v1)?\/{0,100}$/, '')}`;
  throw new TypeError(`baseUrl must be the address of the service, such as https://send.example.com: ${baseUrl}`);
}

/** @throws TypeError if the path needs a parameter and it is missing, or would lead to another path */
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
  // Text comes second: to a client that prefers HTML, an error would be a page instead of JSON.
  const headers = new Headers({ Accept: route.isText ? 'application/json, */*;q=0.9' : 'application/json' });
  const set = (name: string, what: string, value: string) => {
    try {
      headers.set(name, value);
    } catch {
      // The error of the platform would reveal the value.
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

/** @throws the reason of the caller's signal; every other failure is returned */
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
  const body = parsed(text);
  if (response.ok && body) return { answer: body };
  const known = factsOf(response);
  if (typeof body?.error !== 'string') return { ...known, error: 'unexpected answer', detail: shown(response, text) };
  // For a refused credential, a header says what to do.
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

/** How long to wait before the next attempt, in ms; null for no further attempt. */
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
