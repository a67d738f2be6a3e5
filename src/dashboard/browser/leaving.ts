import { useEffect, useState } from 'react';

/** Asks the user before something unsaved is lost; null: nothing would be lost. */
let askFirst: ((go: () => void) => void) | null = null;
/** The address of the page with the unsaved changes. */
let unsavedAddress = '';

/** Calls `go` at once if nothing is unsaved, else when the user agrees. */
export function leaveIfAgreed(go: () => void): void {
  if (askFirst) askFirst(go);
  else go();
}

/** Nothing is unsaved from now on: the next page may come. */
export function leaveFreely(): void {
  askFirst = null;
}

/** Going to another address frees the page; logging out does not, because it may fail, and the changes are still there. */
const freeingPage = (go: () => void) => () => {
  leaveFreely();
  go();
};

const isHere = (address: string) => new URL(address, location.href).pathname === location.pathname;

/** Wraps every navigation by links, keys and pages. */
export function navigateIfAgreed<T extends unknown[]>(go: (to: string, ...rest: T) => void, to: string, ...rest: T) {
  if (isHere(to)) go(to, ...rest);
  else leaveIfAgreed(freeingPage(() => go(to, ...rest)));
}

/** `popstate` fires after the browser has already moved: so this restores the address first, and then asks. */
function comeBack(event: PopStateEvent): void {
  // A link within the page, such as the one to its content, leaves nothing.
  if (!askFirst || isHere(unsavedAddress)) return;
  event.stopImmediatePropagation();
  history.pushState(null, '', unsavedAddress);
  leaveIfAgreed(freeingPage(() => history.back()));
}
// At module level, not when something is unsaved: the router listens to the same event, and must come later.
addEventListener('popstate', comeBack, { capture: true });

/** What would be lost with this tab, by name. Unless empty, the browser asks before it closes or reloads the tab. */
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

let worksBegun = 0;

/** Does work that takes several calls: without this tab the rest of them would not be made. */
export async function workInTab<Done>(work: () => Promise<Done>): Promise<Done> {
  worksBegun += 1;
  const what = `work ${worksBegun}`;
  holdTab(what);
  try {
    return await work();
  } finally {
    freeTab(what);
  }
}

/** Reloads without asking: what would be lost belongs to another user. */
export function loadAnew(): void {
  removeEventListener('beforeunload', warn);
  location.reload();
}

/**
 * While something is unsaved, asks before anything leaves the page.
 *
 * @returns `go`, which continues where the user was going, or null if they are going nowhere; and `stay`
 */
export function useUnsaved(isUnsaved: boolean): { go: (() => void) | null; stay: () => void } {
  const [asked, setAsked] = useState<{ go: () => void } | null>(null);
  useEffect(() => {
    if (!isUnsaved) return;
    askFirst = (go) => setAsked({ go });
    unsavedAddress = location.href;
    holdTab('page');
    return () => {
      askFirst = null;
      freeTab('page');
    };
  }, [isUnsaved]);
  const leave = () => {
    setAsked(null);
    asked?.go();
  };
  return { go: asked && leave, stay: () => setAsked(null) };
}
