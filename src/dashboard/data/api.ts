import { MutationCache, type Query, QueryCache, QueryClient } from '@tanstack/react-query';
import { Sendwright, SendwrightError } from '../../client/index.ts';
import { noteServerClock } from '../words/clock.ts';
import { noteBusy } from './busy.ts';

/** The user whom this page is shown to, from the first login until it is loaded anew; null: nobody yet. */
let shownTo: string | null = null;

/** From now on the page asks for this user alone: it is refused if the cookie is another's, as after a login in another tab. */
export function askFor(userId: string): void {
  shownTo = userId;
}

/** Who is logged in is asked by a page that does not know it yet. */
const asksWho = (url: unknown, { method = 'GET' }: RequestInit = {}) =>
  method === 'GET' && String(url).endsWith('/api/v1/session');

/** Adds headers that pages of other sites cannot send along with the cookie. */
const fromOwnPage: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set('X-Sendwright-Page', '1');
  if (shownTo !== null && !asksWho(input, init)) headers.set('X-Sendwright-User', shownTo);
  const response = await fetch(input, { ...init, headers });
  noteBusy(response);
  noteServerClock(response.headers);
  return response;
};

/** The client of the service that serves this page; the browser sends the login cookie. */
export const api = new Sendwright({ baseUrl: location.origin, fetch: fromOwnPage, maxAttempts: 2 });

/** Whether this is an answer of something before the server, such as a proxy that wants a login of its own. */
const isForeign = ({ error }: SendwrightError): boolean => error === 'unexpected answer';

/** Whether the server itself answered with this status. */
export const isStatus = (error: unknown, status: number) =>
  error instanceof SendwrightError && error.status === status && !isForeign(error);

/** Something cannot be done here; the message says why, in words for the user. */
export class CannotBeDone extends Error {}

/** The same for one field, named as in the API. */
export class FieldRefused extends CannotBeDone {
  readonly field: string;

  constructor(field: string, words: string) {
    super(words);
    this.field = field;
  }
}

/** Work of several calls has ended before it was done; the message says what to do, and stays until it is read. */
export class Unfinished extends CannotBeDone {}

/** An error in words for the user. */
export function wordsOf(error: unknown): string {
  if (error instanceof CannotBeDone) return error.message;
  if (!(error instanceof SendwrightError)) return 'Something went wrong on this page.';
  const [code, detail] = [error.error, error.detail];
  if (code === 'network error' || code === 'timeout') return 'The server does not answer. Is it running?';
  if (isForeign(error)) return wordsOfForeign(error);
  if (isStatus(error, 401)) return 'Your login has ended: log in again.';
  if (isStatus(error, 403) && !detail) return 'You are not allowed to do this, or the account is suspended.';
  const words = `${code[0]?.toUpperCase()}${code.slice(1)}`;
  if (code === 'unavailable') {
    const where = error.requestId ? ` Its log says which, at request ${error.requestId}.` : '';
    return `The server is too busy, or its database is away or full.${where}`;
  }
  if (isStatus(error, 500) && error.requestId)
    return `${words}. The server's log says why, at request ${error.requestId}.`;
  return detail ? `${words}: ${detail}` : `${words}.`;
}

/** A proxy's page may be long, is written for a whole window, and cannot be followed from here. */
function wordsOfForeign({ status }: SendwrightError): string {
  if (status !== null && status >= 500)
    return `What stands before the server answers with ${status} in its place. Is the server running?`;
  if (status === 401 || status === 403 || (status ?? 0) < 400)
    return 'What stands before the server does not let this page in: it may ask for a login of its own. Load the page again.';
  return `What stands before the server answers with ${status} in its place.`;
}

/** The field that the server refused, named as in the API, and why; null if it names none. */
export function refusalOf(error: unknown): { field: string; words: string } | null {
  if (error instanceof FieldRefused) return { field: error.field, words: error.message };
  if (!(error instanceof SendwrightError) || error.status !== 400) return null;
  const [, field, words] = /^([\w.[\]]+): (.+)$/s.exec(error.detail ?? '') ?? [];
  return field && words ? { field, words } : null;
}

/**
 * How often to ask again, in ms; not at all once the object no longer exists.
 *
 * @param often the interval, given the data so far
 */
export const whileThere =
  <Data>(often: (data: Data | undefined) => number | false) =>
  ({ state }: { state: { data: Data | undefined; error: unknown } }) =>
    isStatus(state.error, 404) ? false : often(state.data);

/** Whether a page has nothing to show. While the server is away, a page keeps its data and what was typed into it. */
export const isUnshown = ({ data, error }: { data: unknown; error: unknown }): boolean =>
  error !== null && (data === undefined || isStatus(error, 404));

export const sessionKey = ['session'];

/** Shows the login page after any answer that says the session is over. */
function noticeEnd(error: unknown): void {
  if (!isStatus(error, 401) || queries.getQueryData(sessionKey) === null) return;
  queries.setQueryData(sessionKey, null);
  // It may be over because somebody else has logged in, in another tab.
  void queries.invalidateQueries({ queryKey: sessionKey });
}

/** Whether nobody knows what became of a call: it may have taken effect all the same. */
export const isUnanswered = (error: unknown): boolean =>
  error instanceof SendwrightError && (error.status === null || error.status >= 500);

/** Whether the server, what stands before it, or its database did not answer. */
const isAway = (error: unknown): boolean =>
  error instanceof SendwrightError && (error.status === null || (error.status > 501 && error.status < 505));

/** The queries that were not answered for that reason. */
const unanswered = new Set<string>();

/** Once the server is back everything that is out of date for that reason is asked again, and not only when its own time comes. */
function noticeReturn(answered: string): void {
  if (!unanswered.delete(answered)) return;
  const others = [...unanswered];
  unanswered.clear();
  void queries.invalidateQueries({ predicate: ({ queryHash }) => others.includes(queryHash) });
}

/** The server may run on this machine, or nearby: it is there although the browser says that there is no network. */
const regardless = { networkMode: 'always' } as const;

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      noticeEnd(error);
      if (isAway(error)) unanswered.add(query.queryHash);
    },
    onSuccess: (_, { queryHash }) => noticeReturn(queryHash),
  }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The client already retries what is worth retrying.
      retry: false,
      ...regardless,
      refetchOnReconnect: true,
    },
    mutations: regardless,
  },
});

/** Queries under way that will be sent once more, each with a promise for the repeat. */
const repeats = new Map<Query, Promise<void>>();

/**
 * Refetches what is shown because it may have changed. A query under way is left running and repeated afterwards, since its
 * answer may be from before the change: once, however often this is called meanwhile. The library would not repeat a first
 * request, and would restart any other: a page that changes faster than its queries are answered would never update.
 */
export async function askAgain(isConcerned: (query: Query) => boolean = () => true): Promise<void> {
  const underWay = queries.getQueryCache().findAll({ predicate: isConcerned, fetchStatus: 'fetching', type: 'active' });
  const isIdle = (query: Query) => isConcerned(query) && !underWay.includes(query);
  await Promise.all([...underWay.map(repeatAfterwards), queries.invalidateQueries({ predicate: isIdle })]);
}

function repeatAfterwards(query: Query): Promise<void> {
  const known = repeats.get(query);
  if (known !== undefined) return known;
  const asking = query
    .fetch()
    .catch(() => undefined)
    .then(() => {
      repeats.delete(query);
      return queries.invalidateQueries({ predicate: (one) => one === query });
    });
  repeats.set(query, asking);
  return asking;
}
