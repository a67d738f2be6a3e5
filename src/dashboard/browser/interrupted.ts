import { type Dispatch, type SetStateAction, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { queries, sessionKey } from '../data/api.ts';
import { endedByItself, useSession } from '../data/session.ts';
import { freeTab, holdTab } from './leaving.ts';

/** Unsaved fields from when a login ended, by name; only in this tab, for as long as it is open. */
const interrupted = new Map<string, object>();

/** What was shown only once when the login ended, and what to do about it: not the secret itself. */
let lost: string | null = null;

const isOver = () => queries.getQueryData(sessionKey) === null && endedByItself();

/** Call at a login: what nobody takes up then, as its row or page is gone, would keep the tab open for good. */
export function askNoMore(): void {
  lost = null;
  for (const name of interrupted.keys()) freeTab(name);
}

/**
 * For a secret that is shown only once: if the login ends by itself meanwhile, the login page says that it is gone.
 *
 * @param what what is shown; null: nothing yet
 * @param remedy what to do if it was not saved
 */
export function useShownOnce(what: string | null, remedy: string): void {
  useLayoutEffect(() => {
    if (what === null) return;
    return () => {
      if (isOver())
        lost = `${what[0]?.toUpperCase()}${what.slice(1)} that was shown is not shown again. If you have not saved it, ${remedy}.`;
    };
  }, [what, remedy]);
}

/** What went with the login, in words for the login page, once this is drawn; null: nothing. */
export function useLost(): string | null {
  const [words, setWords] = useState<string | null>(null);
  useEffect(() => setWords(lost), []);
  return words;
}

const useOwn = (what: string) => `${what} of ${useSession().user.id}`;

/** Whether such fields are back, to open what they were typed in. */
export const useIsBack = (what: string): boolean => interrupted.has(useOwn(what));

/**
 * Like `useState`, for fields that are typed but not saved. If the login ends by itself, they are back after the next
 * login, and until then the browser asks before it closes the tab.
 *
 * @param what which fields; no other user finds them
 */
export function useOutliving<Fields extends object>(
  what: string,
): [Partial<Fields>, Dispatch<SetStateAction<Partial<Fields>>>] {
  const name = useOwn(what);
  const [fields, setFields] = useState<Partial<Fields>>(() => interrupted.get(name) ?? {});
  const latest = useRef(fields);
  useEffect(() => {
    latest.current = fields;
  }, [fields]);
  useEffect(() => {
    interrupted.delete(name);
    freeTab(name);
    return () => {
      if (!isOver() || Object.keys(latest.current).length === 0) return;
      interrupted.set(name, latest.current);
      holdTab(name);
    };
  }, [name]);
  return [fields, setFields];
}
