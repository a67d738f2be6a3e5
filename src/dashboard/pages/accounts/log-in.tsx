import { Alert, Button, PasswordInput, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useEffect } from 'react';
import { useLost } from '../../browser/interrupted.ts';
import { isStatus, wordsOf } from '../../data/api.ts';
import { logIn } from '../../data/session.ts';
import { Logo } from '../../look/icons.tsx';

/** @param props.ended somebody was logged in here, and that login has ended */
export function LogIn({ ended }: { ended: boolean }) {
  const attempt = useMutation({
    mutationFn: ({ email, password }: { email: string; password: string }) => logIn(email, password),
  });
  const lost = useLost();
  useEffect(() => {
    document.title = 'Log in · Sendwright';
  }, []);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    attempt.mutate({ email: String(form.get('email')), password: String(form.get('password')) });
  };
  const why = isStatus(attempt.error, 401)
    ? 'Wrong email or password. If the password is lost, an operator of this server can set another one.'
    : isStatus(attempt.error, 403)
      ? 'This account is suspended. Ask the operator of this server.'
      : null;
  return (
    <main className="login">
      <form onSubmit={submit}>
        <div className="brand" style={{ padding: 0 }}>
          <Logo />
        </div>
        <h1>Log in to Sendwright</h1>
        <p className="dim" style={{ margin: '0 0 18px', fontSize: 13 }}>
          The first login was printed in the terminal that started Sendwright.
        </p>
        {(ended || lost) && !attempt.isError && (
          <Alert color="orange" variant="light" mb="md" p="xs" role="status">
            {ended && 'Your login has ended: it expired, or was ended elsewhere.'}
            {lost && <p style={{ margin: ended ? '6px 0 0' : 0 }}>{lost}</p>}
          </Alert>
        )}
        <TextInput
          name="email"
          label="Email"
          type="text"
          inputMode="email"
          autoComplete="username"
          size="sm"
          mb="sm"
          required
          autoFocus
        />
        <PasswordInput name="password" label="Password" autoComplete="current-password" mb="md" required />
        {attempt.isError && (
          <Alert color="red" variant="light" mb="md" p="xs" role="alert">
            {why ?? wordsOf(attempt.error)}
          </Alert>
        )}
        <Button type="submit" fullWidth size="sm" loading={attempt.isPending}>
          Log in
        </Button>
      </form>
    </main>
  );
}
