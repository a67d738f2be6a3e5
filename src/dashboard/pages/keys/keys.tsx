import { Button, Checkbox, Group, NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { ApiKey } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { useOutliving } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { NameAndStatus } from '../../parts/filters.tsx';
import { FirstEmail } from '../../parts/first-email.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { WholeTable } from '../../parts/paged-table.tsx';
import { ShownOnce } from '../../parts/shown-once.tsx';
import { Status } from '../../parts/status.tsx';
import { now } from '../../words/clock.ts';
import { smtpPorts } from '../../words/commands.ts';
import { firstEmail } from '../../words/first-email.ts';
import { plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { useKeys } from './all-keys.ts';
import { maySendFrom } from './first-sender.ts';
import { revokeIt, standing } from './key-standing.ts';
import { SmtpSettings } from './smtp-settings.tsx';

const columns: Column<ApiKey>[] = [
  {
    id: 'name',
    header: 'Name',
    cell: ({ name }) => (
      <span className="cut" dir="auto" title={name}>
        {name}
      </span>
    ),
  },
  {
    id: 'prefix',
    header: 'Key',
    kind: 'narrow',
    cell: ({ key_prefix: prefix }) => <span className="mono">{prefix}…</span>,
  },
  { id: 'status', header: 'Status', kind: 'narrow', plain: true, cell: (key) => <Status value={standing(key)} /> },
  { id: 'scopes', header: 'Scopes', kind: 'narrow', cell: ({ scopes }) => scopes.join(', ') },
  {
    id: 'domains',
    header: 'From',
    cell: ({ domains }) =>
      domains.length > 0 ? (
        <span className="wrap-anywhere" title={domains.join(', ')}>
          {inOwnLetters(domains.join(', '))}
        </span>
      ) : (
        <span className="dim">any domain</span>
      ),
  },
  {
    id: 'expires',
    header: 'Ends',
    kind: 'narrow',
    cell: ({ expires_at: at }) => (at ? <Moment at={at} ahead /> : <span className="dim">never</span>),
  },
  { id: 'created', header: 'Created', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
  {
    id: 'act',
    header: '',
    kind: 'acts',
    cell: (key) => (
      <Group gap={10} wrap="nowrap" justify="flex-end">
        {key.scopes.includes('send') && (
          <Link href={`/emails?key=${key.id}`} className="link" aria-label={`Emails sent with ${key.name}`}>
            Emails
          </Link>
        )}
        {standing(key) === 'active' && (
          <Confirmed
            name="Revoke"
            about={key.name}
            size="compact-xs"
            words={`Anything that uses “${key.name}” is refused from then on, and mail that it has scheduled fails. Other mail that it has sent and that waits still goes out.`}
            act={() => api.keys.revoke(key.id)}
            done="Revoked."
          />
        )}
      </Group>
    ),
  },
];

/** The API keys that programs send with. */
export function Keys() {
  const session = useSession();
  const [state, change] = useAddressState(['new', 'q', 'status', 'page']);
  const query = useKeys();
  const { data } = query;
  const wanted = state.status ?? 'active';
  const shown = data?.api_keys.filter(
    (key) =>
      key.name.toLowerCase().includes(state.q?.toLowerCase() ?? '') && (wanted === 'all' || wanted === standing(key)),
  );
  return (
    <>
      <PageHead
        title="API keys"
        words="Credentials for your programs: over HTTP, or as the SMTP password."
        actions={<Button onClick={() => change({ new: '1' })}>Create a key</Button>}
      />
      {data && data.api_keys.length > 0 && (
        <NameAndStatus
          name="Name"
          all="Active"
          statuses={['revoked', 'expired', 'all']}
          state={state}
          change={change}
          found={plural(shown?.length ?? 0, 'key')}
        />
      )}
      <WholeTable
        query={query}
        page={pageOf(state.page)}
        change={change}
        label="API keys"
        columns={columns}
        rows={shown}
        idOf={({ id }) => id}
        empty={
          data && data.api_keys.length > 0 ? (
            <Empty
              title={state.q || state.status ? 'No key matches' : 'No key can be used'}
              words={state.q || state.status ? 'Remove a filter to see more.' : 'All were revoked, or have expired.'}
            />
          ) : (
            <Empty
              title="No key yet"
              words="Create one, and put it into your program. It is shown once."
              command={firstEmail(session)}
            />
          )
        }
      />
      <SmtpSettings />
      {state.new === '1' && <NewKey close={() => change({ new: null })} />}
    </>
  );
}

const lifetimes = [
  { value: '', label: 'never' },
  { value: '30', label: 'in 30 days' },
  { value: '90', label: 'in 90 days' },
  { value: '365', label: 'in a year' },
];

function NewKey({ close }: { close: () => void }) {
  const session = useSession();
  const { submission } = session.service;
  const [made, setMade] = useState<{ key: string; api_key: ApiKey } | null>(null);
  const [{ chosen = [] }, setChosen] = useOutliving<{ chosen: string[] }>('domains of a new key');
  const domains = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list() });
  const create = useAction(
    (form: FormData) => {
      const days = Number(form.get('days'));
      return api.keys.create({
        name: String(form.get('name')).trim(),
        scopes: [form.get('scope') === 'read' ? 'read' : 'send'],
        ...(chosen.length > 0 ? { domains: chosen } : {}),
        ...(days > 0 ? { expires_at: new Date(now() + days * 86_400_000).toISOString() } : {}),
      });
    },
    null,
    setMade,
  );
  const from =
    made && domains.data?.domains.find((one) => one.status === 'verified' && maySendFrom(made.api_key, one.domain));
  return (
    <Dialog
      close={close}
      stays={made !== null || create.isPending}
      title={made ? 'Keep this key now' : 'Create a key'}
      size="lg"
    >
      {made ? (
        <ShownOnce
          words="It is shown only once: no readable copy is kept."
          text={made.key}
          what="the key"
          remedy={revokeIt}
          close={close}
        >
          {made.api_key.scopes.includes('send') && (
            <>
              <p className="soft" style={{ fontSize: 13 }}>
                {from ? 'Try it:' : 'None of its domains is verified yet. Once one is, try it:'}
              </p>
              <FirstEmail from={from?.domain} apiKey={made.key} />
              {submission && (
                <p className="soft" style={{ fontSize: 13 }}>
                  By SMTP: <span className="mono">{submission.host}</span>, port {smtpPorts(submission)}, any user name,
                  and the key as the password.
                </p>
              )}
            </>
          )}
        </ShownOnce>
      ) : (
        <Form action={create} keeps="a new key" submit={(fields) => create.mutate(fields)}>
          <TextField name="name" label="Name" placeholder="shop" size="sm" required data-autofocus />
          <Group grow mt="sm">
            <NativeSelect
              name="scope"
              label="Permissions"
              data={[
                { value: 'send', label: 'send and read' },
                { value: 'read', label: 'read only' },
              ]}
            />
            <NativeSelect name="days" label="Expires" data={lifetimes} />
          </Group>
          {domains.data && domains.data.domains.length > 1 && (
            <Checkbox.Group
              label="Only from these domains"
              description="None chosen: from all domains."
              value={chosen}
              onChange={(names) => setChosen({ chosen: names })}
              mt="sm"
            >
              {/* The button below stays in sight of an account with a hundred domains. */}
              <Group gap="md" mt={6} mah={180} style={{ overflowY: 'auto' }}>
                {domains.data.domains.map(({ domain }) => (
                  <Checkbox key={domain} size="xs" value={domain} label={inOwnLetters(domain)} />
                ))}
              </Group>
            </Checkbox.Group>
          )}
          <Submit action={create}>Create</Submit>
        </Form>
      )}
    </Dialog>
  );
}
