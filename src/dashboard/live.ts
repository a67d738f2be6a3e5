import type { Query } from '@tanstack/react-query';
import { createContext, useEffect, useState } from 'react';
import { askAgain } from './api.ts';

/** What changes when emails do. */
const concerned = ['emails', 'email', 'stats', 'sandbox', 'deliveries', 'suppressions'];

const isConcerned = ({ queryKey }: Query) => concerned.includes(String(queryKey[0]));

/** How long after an answer that the browser does not ask again by itself, in ms. */
const againMs = 5_000;

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
    let later: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource('/api/v1/live');
      source.onopen = () => setConnected(true);
      source.onerror = lose;
      // The first one too: something may have happened since this page was asked for.
      source.addEventListener('emails', () => void askAgain(isConcerned));
    };
    const close = () => {
      clearTimeout(later);
      source?.close();
      source = null;
    };
    const lose = () => {
      setConnected(false);
      // A connection that breaks the browser makes again, and gives up on any other answer, such as that of a proxy whose server starts anew.
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      later = setTimeout(open, againMs);
    };
    const change = () => {
      if (!document.hidden) return open();
      close();
      setConnected(false);
    };
    open();
    document.addEventListener('visibilitychange', change);
    return () => {
      document.removeEventListener('visibilitychange', change);
      close();
    };
  }, []);
  return connected;
}
