import { type ReactNode, useState } from 'react';
import { count } from '../format.ts';
import { Unfold } from './unfold.tsx';

const few = 10;

/** The first few of many lines, and a button that shows the rest too. On paper all of them are shown. */
export function FirstFew({ lines }: { lines: ReactNode[] }) {
  const [all, setAll] = useState(false);
  return (
    <>
      {lines.slice(0, few)}
      {lines.length > few && (
        <>
          <div className="rest" hidden={!all}>
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
