import { type Dispatch, type SetStateAction, useEffect, useRef, useState } from 'react';
import { queries, sessionKey } from './api.ts';
import { wasEnded } from './session.ts';

/** What was being written when a login ended, by what it is; in this tab alone, and for as long as it is open. */
const interrupted = new Map<string, unknown>();

/**
 * As `useState`, for what is typed and not saved: where the login ends by itself, it is there again after the next one.
 *
 * @param name what it is, and whose: nobody else finds it
 */
export function useOutliving<Value>(name: string, initial: Value): [Value, Dispatch<SetStateAction<Value>>] {
  const [value, setValue] = useState(() => (interrupted.has(name) ? (interrupted.get(name) as Value) : initial));
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  }, [value]);
  useEffect(() => {
    interrupted.delete(name);
    return () => {
      const isOver = queries.getQueryData(sessionKey) === null && wasEnded();
      if (isOver) interrupted.set(name, latest.current);
    };
  }, [name]);
  return [value, setValue];
}
