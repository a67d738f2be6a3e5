import { useEffect, useRef } from 'react';
// It hears of a step first, and who is asked then, and stays, is led nowhere.
import './leaving.ts';

/** Whether the browser's own buttons led to what is drawn next. */
let isStep = false;
// Here, not when something is drawn: whoever draws pages hears of it in the same way, and has to come later.
addEventListener('popstate', () => {
  isStep = true;
});

/** What had the keyboard is not gone yet, as the page is still on its way. */
let isOnItsWay = false;

function takeKeyboard(): void {
  isOnItsWay = document.activeElement !== document.body;
  if (!isOnItsWay) document.getElementById('main')?.focus({ preventScroll: true });
}

/**
 * Each page that a link or a key leads to begins at its top, also where it was all there at once; and where what had the
 * keyboard is gone, as the row of a list is, the page has it, which is what is read out. Back and forward lead to where one was.
 */
export function useBeginning(location: string): void {
  const shown = useRef(location);
  useEffect(() => {
    const isNew = shown.current !== location && !isStep;
    shown.current = location;
    isStep = false;
    if (!isNew) return;
    scrollTo(0, 0);
    takeKeyboard();
  }, [location]);
}

/** For the head of a page: it is drawn. */
export function useArrival(): void {
  useEffect(() => {
    if (isOnItsWay) takeKeyboard();
    isOnItsWay = false;
  }, []);
}
