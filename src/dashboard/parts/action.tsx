import { Button, type ButtonProps, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { askAgain, isStatus, Unfinished, wordsOf } from '../data/api.ts';
import { Dialog } from './dialog.tsx';
import { VanishingButton } from './vanishing.tsx';

export const tell = (message: string) => notifications.show({ message, color: 'indigo', withCloseButton: false });

const failures = new Set<string>();

/** Hides the failures shown: another attempt has begun, or the input has changed. */
export function forgetFailures(): void {
  for (const id of failures) notifications.hide(id);
  failures.clear();
}

export function tellFailure(error: unknown): void {
  forgetFailures();
  const id = notifications.show({
    message: wordsOf(error),
    color: 'red',
    autoClose: error instanceof Unfinished ? false : 8_000,
    closeButtonProps: { 'aria-label': 'Close' },
  });
  failures.add(id);
}

const shownAtField = new WeakSet<object>();

/** Marks an error as shown at the field that it is about. */
export function noteShown(error: unknown): void {
  if (typeof error === 'object' && error !== null) shownAtField.add(error);
}

/** How long the effects of a failure take to be drawn, in ms. */
const drawnMs = 60;

/** Shows the error unless a field has shown it by then. */
function tellUnlessShown(error: Error): void {
  setTimeout(() => shownAtField.has(error) || tellFailure(error), drawnMs);
}

/**
 * Runs work on the server, reports success or why it failed, and refetches what is shown either way.
 *
 * @param done the success message; null if what follows says enough
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
    onError: (error) => {
      // The login page says it.
      if (isStatus(error, 401)) return;
      tellUnlessShown(error);
      // Part of it may be done, or all of it without an answer, or somebody else has changed the object.
      void askAgain();
    },
  });
}

interface Asked<Output> extends ButtonProps {
  /** The button's label. */
  name: string;
  /** What it is about, for screen readers, where many buttons have the same label. */
  about?: string;
  /** Explains what will happen. */
  words: ReactNode;
  /** The same while it is done, if that may take long. */
  meanwhile?: ReactNode;
  /** Selects what gets the focus if the button goes with what it does. */
  to?: string;
  act: () => Promise<Output>;
  done: string | ((output: Output) => string | null);
  then?: ((output: Output) => void) | undefined;
  /** A milder alternative, which may be what the user means. */
  less?: { name: string; act: () => Promise<Output> } | undefined;
}

/** A button for what cannot be undone: it asks first. */
export function Confirmed<Output>(props: Asked<Output>) {
  const { name, about, words, meanwhile, to, act, done, then, less, ...button } = props;
  const [asked, setAsked] = useState(false);
  const action = useAction(
    (chosen: () => Promise<Output>) => chosen(),
    done,
    (output) => {
      setAsked(false);
      then?.(output);
    },
  );
  const opener = { 'aria-label': about && `${name} ${about}`, ...button, onClick: () => setAsked(true) };
  // It is too late for a no.
  const lasts = meanwhile !== undefined && action.isPending;
  return (
    <>
      {to === undefined ? (
        <Button variant="default" {...opener}>
          {name}
        </Button>
      ) : (
        <VanishingButton to={to} {...opener}>
          {name}
        </VanishingButton>
      )}
      {asked && (
        <Dialog close={() => setAsked(false)} title={`${name}?`}>
          <Text size="sm" mb="lg" aria-live="polite">
            {lasts ? meanwhile : words}
          </Text>
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={() => setAsked(false)}>
              {lasts ? 'Close' : 'No'}
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
