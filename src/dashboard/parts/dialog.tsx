import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';

/**
 * A dialog, open for as long as it is drawn. Returns the focus when it is removed; the library does so only when a dialog
 * is hidden.
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
  useEffect(
    () => () => {
      // The library holds the focus until it has removed the dialog.
      setTimeout(() => document.activeElement === document.body && before instanceof HTMLElement && before.focus());
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
      {children}
    </Modal>
  );
}
