import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';

/**
 * A dialog, for as long as it is drawn. The keyboard goes on where it was before, as a dialog of the library sees to only
 * where it is hidden, not taken away.
 *
 * @param props.stays what is shown once, or will be, would be lost: it closes by what is in it alone
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
      // The library still holds the focus until it has taken itself away.
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
