import { useInterval } from '@mantine/hooks';
import { useState } from 'react';
import { exact, relative } from '../words/format.ts';

/**
 * How long ago something was, or how far `ahead` it is; the tooltip has the exact time, and so has paper.
 *
 * @param props.exactly whether the exact time is also shown beside it, for where there is no pointer to ask for it
 * @param props.ahead `try`: an attempt that waits for its turn, and is "due", once its time has come
 */
export function Moment(props: { at: string; ahead?: boolean | 'try'; exactly?: boolean }) {
  const { at, ahead = false, exactly = false } = props;
  const [now, setNow] = useState(Date.now());
  const date = new Date(at);
  const age = Math.abs(now - date.getTime());
  useInterval(() => setNow(Date.now()), age < 60_000 ? 1_000 : 30_000, { autoInvoke: true });
  return (
    <time className={exactly ? 'moment exactly' : 'moment'} dateTime={at} title={exact(date)}>
      {ahead === 'try' && date.getTime() <= now ? 'due' : relative(date, now, !ahead)}
      {exactly && <span className="dim"> · {exact(date)}</span>}
    </time>
  );
}
