import {
  type Dispatch,
  type SetStateAction,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { isStatus, isUnanswered, queries, sessionKey, Unfinished, wordsOf } from '../data/api.ts';
import { endedByItself, useSession } from '../data/session.ts';
import { freeTab, holdTab, workInTab } from './leaving.ts';

/** Unsaved fields from when a login ended, by name; only in this tab, for as long as it is open. */
const interrupted = new Map<string, object>();

/** What was shown only once when the login ended, not the secret itself, or was under way; and what to do about it. */
let lost: string | null = null;

/** Login pages, to be told of what ends later than they came. */
const askers = new Set<() => void>();

function noteLost(words: string): void {
  lost = lost === null || lost === words ? words : `${lost} ${words}`;
  for (const tell of askers) tell();
}

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
        noteLost(
          `${what[0]?.toUpperCase()}${what.slice(1)} that was shown is not shown again. If you have not saved it, ${remedy}.`,
        );
    };
  }, [what, remedy]);
}

function listen(tell: () => void): () => void {
  askers.add(tell);
  return () => askers.delete(tell);
}

/** What went with the login, in words for the login page; null: nothing. */
export const useLost = (): string | null => useSyncExternalStore(listen, () => lost);

/** True if the server has refused it, as it would again; false if it did not answer, had no time, or the login has ended. */
const isRefusal = (error: unknown) => !isUnanswered(error) && !isStatus(error, 429) && !isStatus(error, 401);

/**
 * Does work of several calls in this tab. If it ends before it is done, that is not taken for its end: the page says so until
 * somebody has read it, or the login page if the login has ended.
 *
 * @param unfinished that it is not done, and what to do, in words
 * @throws Unfinished, or whatever the server has refused it with
 */
export async function workToItsEnd<Done>(unfinished: string, work: () => Promise<Done>): Promise<Done> {
  try {
    return await workInTab(work);
  } catch (error) {
    if (isRefusal(error)) throw error;
    if (!isStatus(error, 401)) throw new Unfinished(`${wordsOf(error)} ${unfinished}`);
    noteLost(unfinished);
    throw error;
  }
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
