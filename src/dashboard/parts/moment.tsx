import { useInterval } from '@mantine/hooks';
import { useState } from 'react';
import { exact, relative } from '../format.ts';

/**
 * How long ago something was, or how far `ahead` it is; exactly when, where the pointer rests.
 *
 * @param props.ahead `try`: what is to be done then, and waits for its turn once that has come
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
