/** What is pressed, and what is around a dialog, which a click there takes away: the first one may have opened it. */
const pressed = 'button, a[download], .mantine-Modal-overlay, .mantine-Drawer-overlay';

/**
 * Keeps the second click of a double click from all buttons but those that say of themselves that they are pressed again
 * and again (`data-again`): the button may mean something else by then, such as "Resume" where "Pause" was. By keyboard,
 * and by clicking again later, nothing is lost.
 */
export function ignoreSecondClicks(): void {
  document.addEventListener(
    'click',
    (event) => {
      const target = event.target instanceof Element ? event.target.closest(pressed) : null;
      if (event.detail < 2 || !target || target.matches('[data-again]')) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );
}
