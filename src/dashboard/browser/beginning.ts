import { useEffect, useRef } from 'react';
// Imported first for its popstate listener: while it asks the user, no other listener may see the step.
import './leaving.ts';

/** Whether the browser's own buttons led to what is drawn next. */
let isBackOrForward = false;
/** The path of the page that is drawn. */
let drawnPath = location.pathname;
// At module level, not when something is drawn: the router listens to the same event, and must come later.
addEventListener('popstate', () => {
  // A link within the page, such as the one to its content, is a step as well, after which nothing is drawn.
  isBackOrForward = location.pathname !== drawnPath;
});

/** The new page is still loading, so the element with the focus is still there. */
let isPageLoading = false;

function focusPage(): void {
  isPageLoading = document.activeElement !== document.body;
  if (!isPageLoading) document.getElementById('main')?.focus({ preventScroll: true });
}

/**
 * After a link or a key, scrolls the new page to its top, even if it was there at once. If the focused element is gone, such
 * as a list row, focuses the page, which screen readers then read. Back and forward keep the browser's own position.
 */
export function useBeginning(path: string): void {
  const shown = useRef(path);
  useEffect(() => {
    const isNew = shown.current !== path && !isBackOrForward;
    shown.current = path;
    drawnPath = location.pathname;
    isBackOrForward = false;
    if (!isNew) return;
    scrollTo(0, 0);
    focusPage();
  }, [path]);
}

/** For the head of a page: called once it is drawn. */
export function useArrival(): void {
  useEffect(() => {
    if (isPageLoading) focusPage();
    isPageLoading = false;
  }, []);
}
