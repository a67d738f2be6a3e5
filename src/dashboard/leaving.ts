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

/** A step to another address frees the page; logging out does not, as it may fail, and what was typed is still there. */
const leaving = (go: () => void) => () => {
  leaveFreely();
  go();
};

const isHere = (address: string) => new URL(address, location.href).pathname === location.pathname;

/** Around each step that links, keys and pages take to another address. */
export function carefully<Rest extends unknown[]>(go: (to: string, ...rest: Rest) => void, to: string, ...rest: Rest) {
  if (isHere(to)) go(to, ...rest);
  else leaveBy(leaving(() => go(to, ...rest)));
}

/** The browser's buttons have gone already when they are heard of, and would take the page along: so it comes back first, and asks. */
function comeBack(event: PopStateEvent): void {
  // Within the page, as the link to its content goes, nothing is left.
  if (!guard || isHere(guarded)) return;
  event.stopImmediatePropagation();
  history.pushState(null, '', guarded);
  leaveBy(leaving(() => history.back()));
}
// Here, not when there is something to lose: whoever draws pages hears of it in the same way, and has to come later.
addEventListener('popstate', comeBack, { capture: true });

/** What would be gone with this tab, by name. Of closing it, and of loading it anew, the browser asks. */
const inTab = new Set<string>();
const warn = (event: BeforeUnloadEvent) => event.preventDefault();

export function holdTab(what: string): void {
  inTab.add(what);
  addEventListener('beforeunload', warn);
}

export function freeTab(what: string): void {
  inTab.delete(what);
  if (inTab.size === 0) removeEventListener('beforeunload', warn);
}

/** Begins anew without asking: what would be lost is somebody else's. */
export function loadAnew(): void {
  removeEventListener('beforeunload', warn);
  location.reload();
}

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
    holdTab('page');
    return () => {
      guard = null;
      freeTab('page');
    };
  }, [isUnsaved]);
  const leave = () => {
    setAsked(null);
    asked?.go();
  };
  return { go: asked && leave, stay: () => setAsked(null) };
}
