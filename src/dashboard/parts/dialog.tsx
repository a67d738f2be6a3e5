import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { stayAt } from './vanishing.tsx';

/**
 * A button that works is disabled, and the browser takes the focus from it: the next Tab would lead behind the dialog. So its
 * content has the focus meanwhile, and the button again if it can be pressed once more.
 */
function useKeptFocus(own: HTMLElement | null): void {
  useEffect(() => {
    if (!own) return;
    let worked: HTMLElement | null = null;
    const keep = () => {
      const focused = document.activeElement;
      if (focused instanceof HTMLElement && own.contains(focused) && focused.matches(':disabled')) {
        worked = focused;
        own.focus({ preventScroll: true });
      } else if (worked && focused === own && !worked.matches(':disabled')) {
        worked.focus();
        worked = null;
      }
    };
    const observer = new MutationObserver(keep);
    observer.observe(own, { subtree: true, attributeFilter: ['disabled'] });
    return () => observer.disconnect();
  }, [own]);
}

/**
 * A dialog, open for as long as it is drawn. Returns the focus when it is removed; the library does so only when a dialog
 * is hidden. If what it was opened with is gone too, as a button that stops all once nothing is left, the page gets it.
 *
 * @param props.stays closes only by its own buttons, because what it shows, or is about to, appears only once
 */
export function Dialog(props: {
  title: string;
  close: () => void;
  size?: ModalProps['size'];
  stays?: boolean;
  children: ReactNode;
}) {
  const { title, close, size, stays = false, children } = props;
  const [before] = useState(() => document.activeElement);
  // Not a ref: the library draws it later than this.
  const [content, setContent] = useState<HTMLDivElement | null>(null);
  useKeptFocus(content);
  useEffect(
    () => () => {
      // The library holds the focus until it has removed the dialog.
      setTimeout(() => {
        if (document.activeElement !== document.body) return;
        if (before instanceof HTMLElement && before.isConnected) before.focus();
        else stayAt(document.getElementById('main'));
      });
    },
    [before],
  );
  return (
    <Modal
      opened
      onClose={close}
      title={title}
      {...(size === undefined ? {} : { size })}
      closeOnEscape={!stays}
      closeOnClickOutside={!stays}
      withCloseButton={!stays}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div ref={setContent} tabIndex={-1} style={{ outline: 'none' }}>
        {children}
      </div>
    </Modal>
  );
}
