import { useInterval } from '@mantine/hooks';
import { useState } from 'react';
import { exact, relative } from '../format.ts';

/**
 * How long ago something was, or how far `ahead` it is; the tooltip has the exact time.
 *
 * @param props.ahead `try`: an attempt that waits for its turn, and is "due", once its time has come
 */
export function Moment({ at, ahead = false }: { at: string; ahead?: boolean | 'try' }) {
  const [now, setNow] = useState(Date.now());
  const date = new Date(at);
  const age = Math.abs(now - date.getTime());
  useInterval(() => setNow(Date.now()), age < 60_000 ? 1_000 : 30_000, { autoInvoke: true });
  return (
    <time className="moment" dateTime={at} title={exact(date)}>
      {ahead === 'try' && date.getTime() <= now ? 'due' : relative(date, now, !ahead)}
    </time>
  );
}
