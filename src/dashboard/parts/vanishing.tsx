import { Button, type ButtonProps } from '@mantine/core';
import { type ReactNode, useLayoutEffect, useRef } from 'react';

/** Focuses what had no place among the keyboard's stops until now. */
export function stayAt(place: HTMLElement | null): void {
  if (!place || document.activeElement !== document.body) return;
  if (!place.hasAttribute('tabindex')) place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

/**
 * A button that goes when it has done its work. If it had the focus, what it brought gets that: otherwise nothing would
 * have it, and screen readers would be nowhere.
 *
 * @param props.to selects what gets the focus; without this what is around the button
 */
export function VanishingButton(
  props: ButtonProps & {
    to?: string | undefined;
    onClick: () => void;
    'data-again'?: true;
    'aria-label'?: string | undefined;
    children: ReactNode;
  },
) {
  const { to, ...button } = props;
  const ref = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const own = ref.current;
    return () => {
      if (!own || document.activeElement !== own) return;
      const around = own.closest<HTMLElement>('.panel, [role=dialog]');
      // Once what comes in its place is drawn.
      setTimeout(() => {
        const place = to ? document.querySelector<HTMLElement>(to) : around;
        stayAt(place?.isConnected ? place : document.getElementById('main'));
      });
    };
  }, [to]);
  return <Button ref={ref} variant="default" {...button} />;
}
