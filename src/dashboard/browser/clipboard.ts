import { CannotBeDone } from '../data/api.ts';

/**
 * Copies this into the clipboard, and returns the focus to where it was.
 *
 * @throws CannotBeDone if the browser does not allow it
 */
export async function copyText(text: string): Promise<void> {
  try {
    // Pages served over http have no clipboard API, except on localhost.
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copySelected(text);
  } catch {
    throw new CannotBeDone('The browser does not let this page copy. Select the text and copy it yourself.');
  }
}

/** The old way, the only one for pages served over http. */
function copySelected(text: string): void {
  const focused = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  // Otherwise the page would scroll to it.
  field.style.position = 'fixed';
  // Inside an open dialog, which would take the focus back from anything outside.
  (focused?.closest('[role=dialog]') ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isDone) throw new Error('refused');
}
