import { type Dispatch, type SetStateAction, useEffect, useRef, useState } from 'react';
import { queries, sessionKey } from './api.ts';
import { freeTab, holdTab } from './leaving.ts';
import { endedByItself, useSession } from './session.ts';

/** Unsaved fields from when a login ended, by name; only in this tab, for as long as it is open. */
const interrupted = new Map<string, object>();

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
      const isOver = queries.getQueryData(sessionKey) === null && endedByItself();
      if (!isOver || Object.keys(latest.current).length === 0) return;
      interrupted.set(name, latest.current);
      holdTab(name);
    };
  }, [name]);
  return [fields, setFields];
}
