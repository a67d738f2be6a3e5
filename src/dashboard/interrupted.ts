import { type Dispatch, type SetStateAction, useEffect, useRef, useState } from 'react';
import { queries, sessionKey } from './api.ts';
import { freeTab, holdTab } from './leaving.ts';
import { wasEnded } from './session.ts';

/** What was being written when a login ended, by what it is; in this tab alone, and for as long as it is open. */
const interrupted = new Map<string, object>();

/**
 * As `useState`, for fields that are typed and not saved: where the login ends by itself, they are there again after the
 * next one, and until then the browser asks before the tab is closed.
 *
 * @param name whose fields, and of whom: nobody else finds them
 */
export function useOutliving<Fields extends object>(
  name: string,
): [Partial<Fields>, Dispatch<SetStateAction<Partial<Fields>>>] {
  const [fields, setFields] = useState<Partial<Fields>>(() => interrupted.get(name) ?? {});
  const latest = useRef(fields);
  useEffect(() => {
    latest.current = fields;
  }, [fields]);
  useEffect(() => {
    interrupted.delete(name);
    freeTab(name);
    return () => {
      const isOver = queries.getQueryData(sessionKey) === null && wasEnded();
      if (!isOver || Object.keys(latest.current).length === 0) return;
      interrupted.set(name, latest.current);
      holdTab(name);
    };
  }, [name]);
  return [fields, setFields];
}
