import { Button, Group, PasswordInput, type PasswordInputProps, TextInput, type TextInputProps } from '@mantine/core';
import { createContext, type FormEvent, type ReactNode, useContext, useEffect, useRef, useState } from 'react';
import { useOutliving } from '../browser/interrupted.ts';
import { refusalOf } from '../data/api.ts';
import { forgetFailures, noteShown } from './action.tsx';

/** The last submission of the fields, as `useAction` returns it. */
interface Action {
  error: unknown;
  isError: boolean;
  reset: () => void;
}

const Refused = createContext<unknown>(null);

/** Forgets a refusal: the fields have changed since. */
export const forget = ({ isError, reset }: Action) => {
  if (!isError) return;
  reset();
  forgetFailures();
};

/** Gives the fields inside access to the server's refusal. */
export function Refusals({ of, children }: { of: Pick<Action, 'error'>; children: ReactNode }) {
  return <Refused value={of.error}>{children}</Refused>;
}

/** The refusal of a field by its API name; a refusal of one of its parts counts as the field's. */
export function useRefusals(): (name: string) => string | undefined {
  const error = useContext(Refused);
  const refusal = refusalOf(error);
  return (name) => {
    const rest = refusal?.field.startsWith(name) ? refusal.field.slice(name.length) : null;
    if (rest !== '' && rest?.[0] !== '[' && rest?.[0] !== '.') return undefined;
    noteShown(error);
    return refusal?.words;
  };
}

const textsOf = (form: HTMLFormElement): Record<string, string> =>
  Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));

function fill(form: HTMLFormElement, texts: Partial<Record<string, string>>): void {
  for (const [name, text] of Object.entries(texts)) {
    const field = form.elements.namedItem(name);
    const isText = field instanceof HTMLInputElement && field.type !== 'checkbox';
    if (isText || field instanceof HTMLSelectElement) field.value = text ?? '';
  }
}

/**
 * A form whose fields are named as in the API and show why they were refused.
 *
 * @param props.keeps names what is typed, which is back in the same form if the login ends by itself, except
 *   checkboxes. Without a name all is forgotten, as passwords must be
 */
export function Form(props: {
  action: Action;
  keeps?: string;
  submit: (fields: FormData, form: HTMLFormElement) => void;
  className?: string;
  children: ReactNode;
}) {
  const { action, keeps, submit, className, children } = props;
  const form = useRef<HTMLFormElement>(null);
  const [typed, setTyped] = useOutliving<Record<string, string>>(keeps ?? '');
  const [first] = useState(typed);
  useEffect(() => {
    if (form.current) fill(form.current, first);
  }, [first]);
  const note = () => {
    forget(action);
    if (form.current && keeps) setTyped(textsOf(form.current));
  };
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    submit(new FormData(event.currentTarget), event.currentTarget);
  };
  return (
    <form ref={form} onSubmit={send} onInput={note} className={className}>
      <Refusals of={action}>{children}</Refusals>
    </form>
  );
}

/** The button at the end of a dialog's form. */
export function Submit(props: { action: { isPending: boolean }; disabled?: boolean; children: string }) {
  const { action, disabled = false, children } = props;
  return (
    <Group justify="flex-end" mt="md">
      <Button type="submit" disabled={disabled} loading={action.isPending}>
        {children}
      </Button>
    </Group>
  );
}

export function TextField({ name, ...props }: TextInputProps & { name: string }) {
  return <TextInput name={name} error={useRefusals()(name)} {...props} />;
}

export function PasswordField({ name, ...props }: PasswordInputProps & { name: string }) {
  const error = useRefusals()(name);
  return <PasswordInput name={name} error={error} aria-invalid={error !== undefined} {...props} />;
}
