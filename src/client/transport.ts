import { attempt, type CallRequest } from './attempt.ts';
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
const transientStatuses = [500, 502, 503, 504];
const transientErrors = ['network error', 'timeout'];

/** Operations that are idempotent although they are a `POST`. */
const repeatablePosts: OperationId[] = [
  'logIn',
  'renderTemplate',
  'verifyDomain',
  'addSuppression',
  'unsubscribe',
  'stopEmails',
  'stopDestination',
];

interface Route {
  method: string;
  path: string;
  isText?: true;
  takesKey?: true;
}

/** Not `randomUUID`, which browsers offer only to https pages. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (octet) => octet.toString(16).padStart(2, '0')).join('');

/**
 * Returns the function that calls operations. After a network error, a timeout or a transient status, a call is retried if it
 * cannot take effect twice: every method but `POST`, some `POST`s, and those that take an `Idempotency-Key`, because all attempts
 * have the same key and the same bytes. A `rate limited` call had no effect, so it may always be retried.
 */
export function connect(settings: ClientOptions): Call {
  // Clients of other services take a key, or nothing.
  if (typeof settings !== 'object' || settings === null)
    throw new TypeError('a client takes an object, as in new Sendwright({ baseUrl, apiKey })');
  const base = baseOf(settings.baseUrl);

  return async (id, input, options = {}) => {
    const route: Route = routes[id];
    demandKnown(options, route);
    const { signal } = options;
    const idempotencyKey = route.takesKey ? (options.idempotencyKey ?? newKey()) : null;
    const request = requestOf(base, id, input, headersOf(settings, route, idempotencyKey));
    const timeoutMs = timeoutOf(options.timeoutMs ?? settings.timeoutMs);
    const maxAttempts = options.maxAttempts ?? settings.maxAttempts ?? 3;
    const isRepeatable = route.method !== 'POST' || idempotencyKey !== null || repeatablePosts.includes(id);
    for (let attempts = 1; ; attempts += 1) {
      const outcome = await attempt(request, { ...settings, timeoutMs, signal });
      if ('answer' in outcome) return outcome.answer as never;
      const pauseMs =
        attempts < maxAttempts && mayRepeat(outcome, isRepeatable)
          ? pauseAfter(outcome, attempts, settings.backoffMs ?? 500)
          : null;
      if (pauseMs === null) throw new SendwrightError({ ...outcome, idempotencyKey, attempts });
      await sleep(pauseMs, signal);
    }
  };
}

const optionNames = ['timeoutMs', 'maxAttempts', 'signal', 'idempotencyKey'];

/**
 * Refuses unknown options: a misspelled `idempotencyKey` would be ignored, and a repeated call would send again.
 *
 * @throws TypeError if there is an option that the call does not take
 */
function demandKnown(options: SendOptions, { method, path, takesKey }: Route): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`the options of ${method} ${path} must be an object: ${options}`);
  for (const [name, value] of Object.entries(options)) {
    if (!optionNames.includes(name))
      throw new TypeError(`${name} is no option of a call: there are ${optionNames.join(', ')}`);
    if (name === 'idempotencyKey' && value !== undefined && !takesKey)
      throw new TypeError(
        `${method} ${path} does not accept an idempotencyKey: only calls that send or add something do`,
      );
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

/** @throws TypeError if the operation has a body and the input does not */
function requestOf<Id extends OperationId>(base: string, id: Id, input: Input<Id>, headers: Headers): CallRequest {
  const { method, path, isText }: Route = routes[id];
  const given = input as { param?: string; query?: object; body?: unknown };
  const { param, query, body } = given;
  if ('body' in given && body === undefined)
    throw new TypeError(`${method} ${path} needs an object with its fields, which are listed at ${base}/docs`);
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  return {
    url: `${base}${pathOf(path, param)}${queryOf(query)}`,
    // Following a redirect would pass on the credentials.
    init: { method, headers, body: body === undefined ? null : JSON.stringify(body), redirect: 'manual' },
    isText: isText === true,
  };
}

/** @throws TypeError if a credential or the key cannot be a header */
function headersOf({ apiKey, token }: ClientOptions, { isText }: Route, idempotencyKey: string | null): Headers {
  // Text comes second: to a client that prefers HTML, an error would be a page instead of JSON.
  const headers = new Headers({ Accept: isText ? 'application/json, */*;q=0.9' : 'application/json' });
  const set = (name: string, option: string, value: string) => {
    try {
      headers.set(name, value);
    } catch {
      // The error of the platform would reveal the value.
      throw new TypeError(`${option} contains characters that are not allowed in a header, such as a line end`);
    }
  };
  if (isGiven(apiKey)) set('X-API-Key', 'apiKey', apiKey);
  if (isGiven(token)) set('Authorization', 'token', `Bearer ${token}`);
  if (idempotencyKey !== null) set('Idempotency-Key', 'idempotencyKey', idempotencyKey);
  return headers;
}

const isGiven = <Value>(value: Value | null | undefined): value is Value => value !== undefined && value !== null;

function mayRepeat({ status = null, error }: Failure, isRepeatable: boolean): boolean {
  // A rate limit passes. A quota lasts until the next day or month.
  if (status === 429) return error !== 'quota exceeded';
  const isTransient = transientErrors.includes(error) || (status !== null && transientStatuses.includes(status));
  return isTransient && isRepeatable;
}

/** How long to wait before the next attempt, in ms; null if the service asks for longer than anyone waits. */
function pauseAfter({ retryAfterMs }: Failure, attempts: number, backoffMs: number): number | null {
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
