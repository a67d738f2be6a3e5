import { Kbd } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { PageEntry } from '../pages.ts';
import { Dialog } from '../parts/dialog.tsx';

/** Whether keys are meant for a field; radio buttons and checkboxes take no letters. */
const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && target.matches('input:not([type=radio], [type=checkbox]), textarea, select');

/** `j` and `k` move the focus through elements with `data-row`; the browser makes `Enter` follow the link. */
function moveRow(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  const at = links.indexOf(document.activeElement as HTMLElement);
  const next = links[at === -1 ? (step === 1 ? 0 : links.length - 1) : at + step];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

/** Listens to keys, and shows the list of shortcuts. */
export function Shortcuts({ entries }: { entries: PageEntry[] }) {
  const [, navigate] = useLocation();
  const [shown, setShown] = useState(false);
  // When `g` was pressed, in ms; a ref, so that it survives re-rendering.
  const going = useRef(0);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target)) {
        if (event.key === 'Escape') (event.target as HTMLElement).blur();
        return;
      }
      // A dialog has the keyboard to itself: navigating away would lose its question, or what it shows only once.
      if (document.querySelector('[role=dialog]')) return;
      const entry = Date.now() - going.current < 1_200 ? entries.find(({ letter }) => letter === event.key) : undefined;
      going.current = event.key === 'g' ? Date.now() : 0;
      if (entry) navigate(entry.path);
      else if (event.key === '?') setShown(true);
      else if (event.key === '/') document.querySelector<HTMLElement>('[data-search]')?.focus();
      else if (event.key === 'j') moveRow(1);
      else if (event.key === 'k') moveRow(-1);
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, [entries, navigate]);
  if (!shown) return null;
  return (
    <Dialog close={() => setShown(false)} title="Keyboard">
      <dl className="facts">
        {entries.map(({ letter, name }) => (
          <Line key={letter} keys={['g', letter]} words={`Go to ${name}`} />
        ))}
        <Line keys={['/']} words="Search" />
        <Line keys={['j']} words="Next row" />
        <Line keys={['k']} words="Previous row" />
        <Line keys={['Enter']} words="Open the row" />
        <Line keys={['?']} words="This list" />
      </dl>
    </Dialog>
  );
}

function Line({ keys, words }: { keys: string[]; words: string }) {
  return (
    <>
      <dt>
        {keys.map((key, index) => (
          <span key={key}>
            {index > 0 ? ' ' : ''}
            <Kbd>{key}</Kbd>
          </span>
        ))}
      </dt>
      <dd>{words}</dd>
    </>
  );
}
