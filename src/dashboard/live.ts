import { useEffect, useState } from 'react';
import { queries } from './api.ts';

/** What changes when emails do. */
const concerned = ['emails', 'email', 'stats', 'sandbox', 'deliveries', 'suppressions'];

/**
 * Asks again for what is shown as soon as the server says that emails of this account changed. A page that is not looked
 * at is not told: browsers allow few connections to one server.
 *
 * @returns whether the server tells now
 */
export function useLive(): boolean {
  const [connected, setConnected] = useState(false);
  useEffect(() => {
    let source: EventSource | null = null;
    let told = false;
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource('/api/v1/live');
      source.onopen = () => setConnected(true);
      source.onerror = () => setConnected(false);
      source.addEventListener('emails', () => {
        // The first one says what is known already, unless this page was hidden for a while.
        if (told)
          void queries.invalidateQueries({ predicate: ({ queryKey }) => concerned.includes(String(queryKey[0])) });
        told = true;
      });
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
