import { Button, Group } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';
import { useShownOnce } from '../browser/interrupted.ts';
import { Command } from './copy.tsx';

/** A secret that is shown only here, in a dialog that `stays`, with the button that closes it. */
export function ShownOnce(props: {
  words: string;
  text: string;
  what: string;
  /** What to do if it was lost. */
  remedy: string;
  close: () => void;
  children?: ReactNode;
}) {
  const { words, text, what, remedy, close, children } = props;
  useShownOnce(what, remedy);
  const box = useRef<HTMLDivElement>(null);
  // The pressed button is gone. Do not focus the next one: a second Enter would close the dialog unseen.
  useEffect(() => box.current?.focus(), []);
  return (
    <div ref={box} tabIndex={-1} style={{ outline: 'none' }}>
      <p className="soft" style={{ marginTop: 0, fontSize: 13 }}>
        {words}
      </p>
      <Command text={text} what={what} />
      {children}
      <Group justify="flex-end" mt="md">
        <Button onClick={close}>I have saved it</Button>
      </Group>
    </div>
  );
}
