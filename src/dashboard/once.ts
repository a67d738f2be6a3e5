/**
 * Keeps the second click of a double click from what sends a form, or says of itself that it does something once
 * (`data-once`): nobody means to do that twice. By keyboard, and by clicking again later, nothing is lost.
 */
export function ignoreSecondClicks(): void {
  document.addEventListener(
    'click',
    (event) => {
      const isOnce = event.target instanceof Element && event.target.closest('button[type=submit], [data-once]');
      if (event.detail < 2 || !isOnce) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );
}
