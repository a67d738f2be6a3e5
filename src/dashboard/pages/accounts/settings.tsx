import { Button, SegmentedControl, useMantineColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, FieldRefused, isStatus } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { useAction } from '../../parts/action.tsx';
import { Form, PasswordField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { inOwnLetters } from '../../words/own-letters.ts';
import { Privacy } from './privacy.tsx';

/** Who is logged in, the appearance, and the health of the service. */
export function Settings() {
  const { user, account, expires_at: end, service } = useSession();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const health = useQuery({
    queryKey: ['health'],
    queryFn: () =>
      api.service.isReady().then(
        () => true,
        () => false,
      ),
    refetchInterval: 10_000,
  });
  return (
    <>
      <PageHead title="Settings" words="Your login, the look of this dashboard, and your data." />
      <div className="columns">
        <div>
          <Panel title="You">
            <dl className="facts body">
              <dt>Email</dt>
              <dd title={user.email}>{inOwnLetters(user.email)}</dd>
              <dt>Role</dt>
              <dd>{user.role === 'admin' ? 'operator of the server' : 'member of the account'}</dd>
              <dt>Account</dt>
              <dd>
                {account.name} <span className="dim">({account.plan})</span>
              </dd>
              <dt>Login</dt>
              <dd>
                ends <Moment at={end} ahead />
              </dd>
            </dl>
          </Panel>
          <Password />
        </div>
        <div>
          <Panel title="Look">
            <div className="body">
              <SegmentedControl
                aria-label="Light or dark"
                value={colorScheme}
                onChange={(value) => setColorScheme(value as typeof colorScheme)}
                data={[
                  { value: 'auto', label: 'As the system' },
                  { value: 'light', label: 'Light' },
                  { value: 'dark', label: 'Dark' },
                ]}
              />
            </div>
          </Panel>
          <Panel title="Service">
            <dl className="facts body">
              <dt>Address</dt>
              <dd className="mono">{service.base_url}</dd>
              <dt>Mail</dt>
              <dd>{service.sandbox ? 'stays in the sandbox' : 'goes to the internet'}</dd>
              <dt>Database and queue</dt>
              <dd>
                {health.data !== undefined && (
                  <Status value={health.data ? 'answer' : 'do not answer'} tone={health.data ? 'good' : 'bad'} />
                )}
              </dd>
              <dt>Reference</dt>
              <dd>
                <a className="link" href="/docs">
                  for people
                </a>{' '}
                ·{' '}
                <a className="link" href="/api/v1/openapi.json">
                  for programs
                </a>
              </dd>
            </dl>
          </Panel>
          <Privacy />
        </div>
      </div>
    </>
  );
}

function Password() {
  const change = useAction(
    async ({ again, ...body }: { current_password: string; new_password: string; again: string }) => {
      if (again !== body.new_password) throw new FieldRefused('again', 'The two passwords differ.');
      try {
        await api.changePassword(body);
      } catch (error) {
        throw isStatus(error, 403) ? new FieldRefused('current_password', 'This is not your current password.') : error;
      }
    },
    'The password was changed, and all other logins have ended.',
  );
  const submit = (fields: FormData, form: HTMLFormElement) => {
    const [current_password = '', new_password = '', again = ''] = ['current_password', 'new_password', 'again'].map(
      (name) => String(fields.get(name)),
    );
    change.mutate({ current_password, new_password, again }, { onSuccess: () => form.reset() });
  };
  return (
    <Panel title="Password">
      <Form className="body" action={change} submit={submit}>
        <PasswordField name="current_password" label="Current password" autoComplete="current-password" required />
        <PasswordField name="new_password" label="New password" autoComplete="new-password" mt="sm" required />
        <PasswordField name="again" label="Repeat the new password" autoComplete="new-password" mt="sm" required />
        <Button type="submit" mt="md" loading={change.isPending}>
          Change the password
        </Button>
      </Form>
    </Panel>
  );
}
