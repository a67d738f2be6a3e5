import { useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';
import type { Session } from '../client/index.ts';
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
    // Somebody else may have logged in behind another tab.
    refetchOnWindowFocus: 'always',
    // Whether the service is on hold may change meanwhile.
    refetchInterval: ({ state }) => (state.data ? 30_000 : false),
  });
}

/** Whose pages are shown: what came with the decision to show them, so that none is drawn for nobody while a login ends. */
export const ShownTo = createContext<Session | null>(null);

/** Who is logged in, on pages that are shown to nobody else. */
export function useSession(): Session {
  const session = useContext(ShownTo);
  if (!session) throw new Error('a page was shown to nobody');
  return session;
}

export async function logIn(email: string, password: string): Promise<void> {
  await enter(await api.browser.create({ email, password }));
}

let leftByItself = false;

/** Whether a login that was here is over for another reason than that its owner logged out in this tab. */
export const wasEnded = (): boolean => !leftByItself;

export async function logOut(): Promise<void> {
  await api.browser.end().catch((error: unknown) => {
    if (!isStatus(error, 401)) throw error;
  });
  leftByItself = true;
  await enter(null);
}

async function enter(session: Session | null): Promise<void> {
  // An answer from before, which is still on its way, would show the pages again.
  await queries.cancelQueries({ queryKey: sessionKey });
  queries.setQueryData(sessionKey, session);
}

/** Once somebody is logged in, in whichever tab that was done. */
export function noteLogin(): void {
  leftByItself = false;
}

/** Once nobody is, and no page is shown any more: nothing that one user saw is left for another. */
export function forgetAll(): void {
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] });
}
