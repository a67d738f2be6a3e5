import { useInterval } from '@mantine/hooks';
import { useState } from 'react';
import { now as clockNow } from '../words/clock.ts';
import { exact, lastingSince, relative } from '../words/format.ts';

/**
 * How long ago something was, or how far `ahead` it is; the tooltip has the exact time, and so has paper.
 *
 * @param props.lasting what began then goes on: "for 4 min"
 * @param props.exactly whether the exact time is also shown beside it, for where there is no pointer to ask for it
 * @param props.ahead `try`: an attempt that waits for its turn, and is "due", once its time has come
 */
export function Moment(props: { at: string; ahead?: boolean | 'try'; exactly?: boolean; lasting?: boolean }) {
  const { at, ahead = false, exactly = false, lasting = false } = props;
  const [now, setNow] = useState(clockNow);
  const date = new Date(at);
  const age = Math.abs(now - date.getTime());
  useInterval(() => setNow(clockNow()), age < 60_000 ? 1_000 : 30_000, { autoInvoke: true });
  return (
    <time className={exactly ? 'moment exactly' : 'moment'} dateTime={at} title={exact(date)}>
      {lasting
        ? lastingSince(date, now)
        : ahead === 'try' && date.getTime() <= now
          ? 'due'
          : relative(date, now, !ahead)}
      {exactly && <span className="dim"> · {exact(date)}</span>}
    </time>
  );
}
