import { PasswordInput, type PasswordInputProps, TextInput, type TextInputProps } from '@mantine/core';
import { createContext, type FormEvent, type ReactNode, useContext } from 'react';
import { refusalOf } from '../api.ts';
import { forgetFailures, noteShown } from './action.tsx';

/** What was done with the fields last, as `useAction` has it. */
interface Action {
  error: unknown;
  isError: boolean;
  reset: () => void;
}

const Refused = createContext<unknown>(null);

/** Forgets what was refused: it is not what the fields hold any more. */
export const forget = ({ isError, reset }: Action) => {
  if (!isError) return;
  reset();
  forgetFailures();
};

/** Tells the fields in it what the server said about them. */
export function Refusals({ of, children }: { of: Action; children: ReactNode }) {
  return <Refused value={of.error}>{children}</Refused>;
}

/** What the server said about a field, by its name in the API; what is about a part of it is about the field. */
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

/** A form whose fields are named as in the API, and say why they were refused. */
export function Form(props: {
  action: Action;
  submit: (fields: FormData, form: HTMLFormElement) => void;
  className?: string;
  children: ReactNode;
}) {
  const { action, submit, className, children } = props;
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    submit(new FormData(event.currentTarget), event.currentTarget);
  };
  return (
    <form onSubmit={send} onInput={() => forget(action)} className={className}>
      <Refusals of={action}>{children}</Refusals>
    </form>
  );
}

export function TextField({ name, ...props }: TextInputProps & { name: string }) {
  return <TextInput name={name} error={useRefusals()(name)} {...props} />;
}

export function PasswordField({ name, ...props }: PasswordInputProps & { name: string }) {
  const error = useRefusals()(name);
  return <PasswordInput name={name} error={error} aria-invalid={error !== undefined} {...props} />;
}
