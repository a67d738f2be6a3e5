import { useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import type { Session } from '../../client/index.ts';
import { api, isStatus, queries, sessionKey } from './api.ts';

/** Who is logged in; null: nobody, undefined: not known yet. */
export function useSessionState() {
  return useQuery({
    queryKey: sessionKey,
    queryFn: async (): Promise<Session | null> => {
      try {
        return await api.browser.get();
      } catch (error) {
        if (isStatus(error, 401) || isStatus(error, 403)) return null;
        throw error;
      }
    },
    staleTime: Number.POSITIVE_INFINITY,
    // Somebody may have logged in or out in another tab.
    refetchOnWindowFocus: 'always',
    // Whether the service is on hold may change meanwhile.
    refetchInterval: ({ state }) => (state.data ? 30_000 : false),
  });
}

/** Whose pages are shown. Set together with the decision to show them, so that none is drawn without a user at logout. */
export const ShownTo = createContext<Session | null>(null);

/** Who is logged in, for pages that are shown only after login. */
export function useSession(): Session {
  const session = useContext(ShownTo);
  if (!session) throw new Error('a page was shown to nobody');
  return session;
}

export async function logIn(email: string, password: string): Promise<void> {
  await enter(await api.browser.create({ email, password }));
}

let loggedOutHere = false;

/** Whether a login in this tab ended for any reason other than its owner's logging out here. */
export const endedByItself = (): boolean => !loggedOutHere;

export async function logOut(): Promise<void> {
  await api.browser.end().catch((error: unknown) => {
    if (!isStatus(error, 401)) throw error;
  });
  loggedOutHere = true;
  await enter(null);
}

async function enter(session: Session | null): Promise<void> {
  // An older answer that is still under way would show the pages again.
  await queries.cancelQueries({ queryKey: sessionKey });
  queries.setQueryData(sessionKey, session);
}

/** Call when somebody is logged in, in whichever tab they did that. */
export function noteLogin(): void {
  loggedOutHere = false;
}

/** Call when nobody is logged in and no page is shown: removes everything that one user saw before the next one comes. */
export function forgetAll(): void {
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] });
}
