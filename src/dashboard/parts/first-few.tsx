import { type ReactNode, useState } from 'react';
import { count } from '../words/format.ts';
import { Unfold } from './unfold.tsx';

const few = 10;

/** The first few of many lines, and a button that shows the rest too, as the browser's search does. On paper all are shown. */
export function FirstFew({ lines }: { lines: ReactNode[] }) {
  const [all, setAll] = useState(false);
  // React knows neither this value of `hidden` nor the event.
  const fold = (rest: HTMLDivElement | null) => {
    if (!rest) return undefined;
    if (all) rest.removeAttribute('hidden');
    else rest.setAttribute('hidden', 'until-found');
    const unfold = () => setAll(true);
    rest.addEventListener('beforematch', unfold);
    return () => rest.removeEventListener('beforematch', unfold);
  };
  return (
    <>
      {lines.slice(0, few)}
      {lines.length > few && (
        <>
          <div className="rest" ref={fold}>
            {lines.slice(few)}
          </div>
          <div style={{ padding: '8px 14px' }}>
            <Unfold open={all} set={setAll} words={all ? `Show only ${few}` : `Show all ${count(lines.length)}`} />
          </div>
        </>
      )}
    </>
  );
}
