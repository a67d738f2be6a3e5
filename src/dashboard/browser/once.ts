/** What can be pressed, including a dialog's overlay, which closes it: the first click may have opened the dialog. */
const pressed = 'button, a[download], .mantine-Modal-overlay, .mantine-Drawer-overlay';

/**
 * Ignores the second click of a double click, except on buttons marked as pressed repeatedly (`data-again`): by then the
 * button may mean something else, such as "Resume" instead of "Pause". The keyboard and later clicks still work.
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
