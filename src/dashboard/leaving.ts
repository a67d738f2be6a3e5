import { useEffect, useState } from 'react';

/** What is told how somebody goes on, where something would be lost by that; null: nothing would be. */
let guard: ((go: () => void) => void) | null = null;
/** Where that stands. */
let guarded = '';

/** Goes on, once nothing is lost by that or somebody said that it may be. */
export function leaveBy(go: () => void): void {
  if (guard) guard(go);
  else go();
}

/** Nothing is lost any more, as of now: the next page may come. */
export function leaveFreely(): void {
  guard = null;
}

/** Around each step that links, keys and pages take to another address. */
export function carefully<Rest extends unknown[]>(go: (to: string, ...rest: Rest) => void, to: string, ...rest: Rest) {
  if (new URL(to, location.href).pathname === location.pathname) go(to, ...rest);
  else leaveBy(() => go(to, ...rest));
}

/** The browser's buttons have gone already when they are heard of, and would take the page along: so it comes back first, and asks. */
function comeBack(event: PopStateEvent): void {
  if (!guard || location.href === guarded) return;
  event.stopImmediatePropagation();
  history.pushState(null, '', guarded);
  leaveBy(() => history.back());
}
// Here, not when there is something to lose: whoever draws pages hears of it in the same way, and has to come later.
addEventListener('popstate', comeBack, { capture: true });

/**
 * While something is unsaved: whatever leads away from the page asks first.
 *
 * @returns how somebody meant to go on, to ask whether they may; null where nobody did
 */
export function useUnsaved(isUnsaved: boolean): { go: (() => void) | null; stay: () => void } {
  const [asked, setAsked] = useState<{ go: () => void } | null>(null);
  useEffect(() => {
    if (!isUnsaved) return;
    guard = (go) => setAsked({ go });
    guarded = location.href;
    // Closing the tab, and loading it anew, is asked about by the browser.
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => {
      guard = null;
      removeEventListener('beforeunload', warn);
    };
  }, [isUnsaved]);
  const leave = () => {
    leaveFreely();
    setAsked(null);
    asked?.go();
  };
  return { go: asked && leave, stay: () => setAsked(null) };
}
