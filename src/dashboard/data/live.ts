import type { Query } from '@tanstack/react-query';
import { createContext, useEffect, useState } from 'react';
import { askAgain } from './api.ts';

/** The queries whose data changes when emails do. */
const concerned = ['emails', 'email', 'stats', 'sandbox', 'deliveries', 'suppressions'];

const isConcerned = ({ queryKey }: Query) => concerned.includes(String(queryKey[0]));

/** How long to wait before reconnecting when the browser does not by itself, in ms. */
const againMs = 5_000;

/** The server gives a sign of life every ten seconds. Without one for this long the connection is lost, although nobody has closed it. */
const silentMs = 35_000;

/** Whether the live connection to the server is up. */
export const Connected = createContext(false);

/**
 * Refetches what is shown as soon as the server reports that emails of this account changed. Hidden pages do not
 * listen, because browsers allow few connections to one server.
 *
 * @returns whether the connection is up; call this only once, around everything else
 */
export function useLive(): boolean {
  const [connected, setConnected] = useState(false);
  useEffect(() => {
    let source: EventSource | null = null;
    let later: ReturnType<typeof setTimeout> | undefined;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const hear = () => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        close();
        setConnected(false);
        open();
      }, silentMs);
    };
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource('/api/v1/live');
      source.onopen = () => {
        setConnected(true);
        hear();
      };
      source.onerror = lose;
      source.addEventListener('alive', hear);
      // On the first event too: something may have happened since this page was requested.
      source.addEventListener('emails', () => {
        hear();
        void askAgain(isConcerned);
      });
      hear();
    };
    const close = () => {
      clearTimeout(later);
      clearTimeout(silence);
      source?.close();
      source = null;
    };
    const lose = () => {
      setConnected(false);
      // The browser reconnects after a lost connection, but gives up after an error status, such as from a proxy while the
      // server restarts.
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
