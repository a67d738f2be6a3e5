import type { Query } from '@tanstack/react-query';
import { createContext, useEffect, useState } from 'react';
import { queries } from './api.ts';

/** What changes when emails do. */
const concerned = ['emails', 'email', 'stats', 'sandbox', 'deliveries', 'suppressions'];

const isConcerned = ({ queryKey }: Query) => concerned.includes(String(queryKey[0]));

/** Those that are being asked for the first time go on, and are asked again after: their answer may be older than what was told. */
async function askAgain(): Promise<void> {
  const known = queries.getQueryCache().findAll({ predicate: isConcerned, fetchStatus: 'fetching' });
  const first = known.filter(({ state }) => state.data === undefined);
  await queries.invalidateQueries({ predicate: isConcerned });
  if (first.length > 0) await queries.invalidateQueries({ predicate: (query) => first.includes(query) });
}

/** Whether the server tells now. */
export const Connected = createContext(false);

/**
 * Asks again for what is shown as soon as the server says that emails of this account changed. A page that is not looked
 * at is not told: browsers allow few connections to one server.
 *
 * @returns whether the server tells now; for the one place that everything else is in
 */
export function useLive(): boolean {
  const [connected, setConnected] = useState(false);
  useEffect(() => {
    let source: EventSource | null = null;
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource('/api/v1/live');
      source.onopen = () => setConnected(true);
      source.onerror = () => setConnected(false);
      // The first one too: something may have happened since this page was asked for.
      source.addEventListener('emails', () => void askAgain());
    };
    const change = () => {
      if (!document.hidden) return open();
      source?.close();
      source = null;
      setConnected(false);
    };
    open();
    document.addEventListener('visibilitychange', change);
    return () => {
      document.removeEventListener('visibilitychange', change);
      source?.close();
    };
  }, []);
  return connected;
}
