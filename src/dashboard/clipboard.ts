import { CannotBeDone } from './api.ts';

/**
 * Puts this into the clipboard, and gives the keyboard back to what had it.
 *
 * @throws CannotBeDone where the browser does not let the page
 */
export async function copyText(text: string): Promise<void> {
  try {
    // Pages by http have none, but those of the same machine.
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copySelected(text);
  } catch {
    throw new CannotBeDone('The browser does not let this page copy. Select the text and copy it yourself.');
  }
}

/** As browsers did it before: there is no other way for a page by http. */
function copySelected(text: string): void {
  const focused = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  // Or the page would scroll to it.
  field.style.position = 'fixed';
  // Within the dialog, where one is open: it takes the keyboard back from elsewhere.
  (focused?.closest('[role=dialog]') ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isDone) throw new Error('refused');
}
