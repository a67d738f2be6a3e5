import { MutationCache, type Query, QueryCache, QueryClient } from '@tanstack/react-query';
import { Sendwright, SendwrightError } from '../client/index.ts';

/** What pages of other sites cannot send along with the cookie. */
const fromOwnPage: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set('X-Sendwright-Page', '1');
  return fetch(input, { ...init, headers });
};

/** The service that this page is from; the browser sends the login along. */
export const api = new Sendwright({ baseUrl: location.origin, fetch: fromOwnPage, maxAttempts: 2 });

export const isStatus = (error: unknown, status: number) => error instanceof SendwrightError && error.status === status;

/** What was asked for cannot be done with what is at hand, and why: words for the person who asked. */
export class CannotBeDone extends Error {}

/** The same of one field, as the API names it. */
export class FieldRefused extends CannotBeDone {
  readonly field: string;

  constructor(field: string, words: string) {
    super(words);
    this.field = field;
  }
}

/** An error in words for the person who pressed the button. */
export function wordsOf(error: unknown): string {
  if (error instanceof CannotBeDone) return error.message;
  if (!(error instanceof SendwrightError)) return 'Something went wrong on this page.';
  const [code, detail] = [error.error, error.detail];
  if (code === 'network error' || code === 'timeout') return 'The server does not answer. Is it running?';
  if (isStatus(error, 401)) return 'Your login has ended: log in again.';
  if (isStatus(error, 403) && !detail) return 'You are not allowed to do this, or the account is suspended.';
  return detail ? `${code[0]?.toUpperCase()}${code.slice(1)}: ${detail}` : `${code[0]?.toUpperCase()}${code.slice(1)}.`;
}

/** The field that the server refused, as its API names it, and why; null where it names none. */
export function refusalOf(error: unknown): { field: string; words: string } | null {
  if (error instanceof FieldRefused) return { field: error.field, words: error.message };
  if (!(error instanceof SendwrightError) || error.status !== 400) return null;
  const [, field, words] = /^([\w.[\]]+): (.+)$/s.exec(error.detail ?? '') ?? [];
  return field && words ? { field, words } : null;
}

/**
 * How often to ask again, in ms: for what is not there any more, not at all.
 *
 * @param often by what is known so far
 */
export const whileThere =
  <Data>(often: (data: Data | undefined) => number | false) =>
  ({ state }: { state: { data: Data | undefined; error: unknown } }) =>
    isStatus(state.error, 404) ? false : often(state.data);

/** Whether a page has nothing to show: what it had stays, with what was typed there, while the server is away. */
export const isUnshown = (data: unknown, error: unknown): boolean =>
  error !== null && (data === undefined || isStatus(error, 404));

export const sessionKey = ['session'];

/** Whatever says that the login is over shows the login again. */
function noticeEnd(error: unknown): void {
  if (isStatus(error, 401)) queries.setQueryData(sessionKey, null);
}

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({
    onError: (error) => {
      noticeEnd(error);
      // Somebody else removed or changed it, and this page still shows it as it was.
      if (isStatus(error, 404) || isStatus(error, 409)) void askAgain();
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The client repeats what is worth repeating.
      retry: false,
    },
  },
});

/** What is being asked for, and is to be asked for once more. */
const askedAfter = new Map<Query, Promise<void>>();

/**
 * Asks again for what is shown, as it may have changed. What is being asked for goes on, and is asked for again once it is
 * answered, as that may be from before: once, however often this is called meanwhile. Left to the library a first request
 * would be the last, and any other begin anew, so that a page which changes faster than it is answered would show nothing new.
 */
export async function askAgain(isConcerned: (query: Query) => boolean = () => true): Promise<void> {
  const asked = queries.getQueryCache().findAll({ predicate: isConcerned, fetchStatus: 'fetching', type: 'active' });
  const isElse = (query: Query) => isConcerned(query) && !asked.includes(query);
  await Promise.all([...asked.map(askAfter), queries.invalidateQueries({ predicate: isElse })]);
}

function askAfter(query: Query): Promise<void> {
  const known = askedAfter.get(query);
  if (known !== undefined) return known;
  const asking = query
    .fetch()
    .catch(() => undefined)
    .then(() => {
      askedAfter.delete(query);
      return queries.invalidateQueries({ predicate: (one) => one === query });
    });
  askedAfter.set(query, asking);
  return asking;
}
