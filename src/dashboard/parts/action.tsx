import { Button, type ButtonProps, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { askAgain, wordsOf } from '../api.ts';
import { Dialog } from './dialog.tsx';

export const tell = (message: string) => notifications.show({ message, color: 'indigo', withCloseButton: false });

const failures = new Set<string>();

/** Takes away what was said of failures: another try has begun, or something else is typed by now. */
export function forgetFailures(): void {
  for (const id of failures) notifications.hide(id);
  failures.clear();
}

export function tellFailure(error: unknown): void {
  forgetFailures();
  const id = notifications.show({
    message: wordsOf(error),
    color: 'red',
    autoClose: 8_000,
    closeButtonProps: { 'aria-label': 'Close' },
  });
  failures.add(id);
}

const shownAtField = new WeakSet<object>();

/** Its words stand at the field that it is about. */
export function noteShown(error: unknown): void {
  if (typeof error === 'object' && error !== null) shownAtField.add(error);
}

/** Until what follows from a failure is drawn, ms. */
const drawnMs = 60;

/** Says what no field has said by then. */
function tellUnlessShown(error: Error): void {
  setTimeout(() => shownAtField.has(error) || tellFailure(error), drawnMs);
}

/**
 * Does something on the server, and says so or why not; what is shown is then asked for again.
 *
 * @param done in words; null where what happens next says enough
 */
export function useAction<Input, Output>(
  work: (input: Input) => Promise<Output>,
  done: string | null | ((output: Output) => string | null),
  then?: (output: Output) => void,
) {
  return useMutation({
    mutationFn: work,
    onMutate: forgetFailures,
    onSuccess: async (output) => {
      const words = typeof done === 'function' ? done(output) : done;
      if (words) tell(words);
      then?.(output);
      await askAgain();
    },
    onError: tellUnlessShown,
  });
}

interface Asked<Output> extends ButtonProps {
  /** The button's words. */
  name: string;
  /** What will happen. */
  words: ReactNode;
  act: () => Promise<Output>;
  done: string | ((output: Output) => string | null);
  then?: ((output: Output) => void) | undefined;
  /** What does less, and may be what is meant. */
  less?: { name: string; act: () => Promise<Output> } | undefined;
}

/** A button for what cannot be taken back: it asks first. */
export function Confirmed<Output>({ name, words, act, done, then, less, ...button }: Asked<Output>) {
  const [asked, setAsked] = useState(false);
  const action = useAction(
    (chosen: () => Promise<Output>) => chosen(),
    done,
    (output) => {
      setAsked(false);
      then?.(output);
    },
  );
  return (
    <>
      <Button variant="default" {...button} onClick={() => setAsked(true)}>
        {name}
      </Button>
      {asked && (
        <Dialog close={() => setAsked(false)} title={`${name}?`}>
          <Text size="sm" mb="lg">
            {words}
          </Text>
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={() => setAsked(false)}>
              No
            </Button>
            {less && (
              <Button loading={action.isPending} onClick={() => action.mutate(less.act)} data-autofocus>
                {less.name}
              </Button>
            )}
            <Button color="red" loading={action.isPending} onClick={() => action.mutate(act)} data-autofocus={!less}>
              {name}
            </Button>
          </Group>
        </Dialog>
      )}
    </>
  );
}
