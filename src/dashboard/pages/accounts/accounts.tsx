import { Button, Group, NativeSelect } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { Account, ListedAccount } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { useIsBack } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { ChoiceField, ListSearch } from '../../parts/filters.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { rangeOf } from '../../parts/pager.tsx';
import { ShownOnce } from '../../parts/shown-once.tsx';
import { Status } from '../../parts/status.tsx';
import { count, plural } from '../../words/format.ts';

const plans = [
  { value: 'free', label: 'free: 100 a day, 3,000 a month, one domain' },
  { value: 'pro', label: 'pro: 50,000 a month, ten domains, more for credit' },
  { value: 'unlimited', label: 'unlimited' },
];

const amounts = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2 });

const money = (credit: string) => amounts.format(Number(credit));

const columns: Column<ListedAccount>[] = [
  {
    id: 'name',
    header: 'Account',
    cell: ({ id, name, failing_webhooks: failing }) => (
      <>
        <Link href={`/emails?accounts=${id}`} className="row-link" data-row title={`The emails of ${name}`}>
          <span className="cut" dir="auto">
            {name}
          </span>
        </Link>
        {failing > 0 && (
          <span className="cut whole dim" title="Calls to it fail, or it was disabled because they did">
            {plural(failing, 'webhook')} {failing === 1 ? 'fails' : 'fail'}
          </span>
        )}
      </>
    ),
  },
  {
    id: 'status',
    header: 'Status',
    kind: 'narrow',
    plain: true,
    cell: ({ suspended_at: since }) => <Status value={since ? 'suspended' : 'active'} />,
  },
  { id: 'plan', header: 'Plan', kind: 'narrow', cell: ({ plan }) => plan },
  { id: 'users', header: 'Users', kind: 'number', cell: ({ user_count: users }) => count(users) },
  { id: 'day', header: 'Today', kind: 'number', cell: ({ accepted }) => count(accepted.day) },
  { id: 'month', header: 'This month', kind: 'number', cell: ({ accepted }) => count(accepted.month) },
  {
    id: 'kept',
    header: 'Keeps',
    kind: 'narrow',
    spare: true,
    cell: ({ retention: { log_days: log, content_days: content } }) => (
      <span title="How long the log and the content of emails are kept">
        {log === content ? `${log} days` : `${log}, ${content} days`}
      </span>
    ),
  },
  { id: 'credit', header: 'Credit', kind: 'number', cell: ({ credit }) => money(credit) },
  { id: 'created', header: 'Created', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
  { id: 'act', header: '', kind: 'acts', cell: (account) => <Orders account={account} /> },
];

function Orders({ account }: { account: Account }) {
  const { account: own } = useSession();
  const [open, setOpen] = useState(useIsBack(`account ${account.id}`));
  return (
    <Group gap={4} wrap="nowrap">
      <Button variant="default" size="compact-xs" aria-label={`Change ${account.name}`} onClick={() => setOpen(true)}>
        Change
      </Button>
      {account.id !== own.id && <Suspension account={account} />}
      {open && <Change account={account} close={() => setOpen(false)} />}
    </Group>
  );
}

function Suspension({ account }: { account: Account }) {
  const resume = useAction(() => api.admin.accounts.update(account.id, { suspended: false }), 'It can send again.');
  if (account.suspended_at) {
    return (
      <Button
        variant="default"
        size="compact-xs"
        aria-label={`Reactivate ${account.name}`}
        loading={resume.isPending}
        onClick={() => resume.mutate(undefined)}
      >
        Reactivate
      </Button>
    );
  }
  return (
    <Confirmed
      name="Suspend"
      about={account.name}
      size="compact-xs"
      words={`Nobody from “${account.name}” can log in or send, and its mail that becomes due meanwhile fails for good.`}
      act={() => api.admin.accounts.update(account.id, { suspended: true })}
      done="Suspended."
    />
  );
}

function Change({ account: now, close }: { account: Account; close: () => void }) {
  // The values that the fields started with.
  const [account] = useState(now);
  // An idempotency key: saving again after an error adds the amount once, and is refused if the amount has changed.
  const [added] = useState(() => crypto.getRandomValues(new Uint32Array(2)).join('-'));
  const save = useAction(
    async (form: FormData) => {
      const [name = '', plan, amount] = ['name', 'plan', 'amount'].map((field) => String(form.get(field)).trim());
      // Send only what was changed here: somebody else may have changed the rest.
      const changes = {
        ...(name === account.name ? {} : { name }),
        ...(plan === account.plan ? {} : { plan: plan as Account['plan'] }),
      };
      if (Object.keys(changes).length > 0) await api.admin.accounts.update(account.id, changes);
      if (amount)
        await api.admin.accounts.addCredit(
          account.id,
          { amount: Number(amount) },
          { idempotencyKey: String(form.get('added')) },
        );
    },
    'Changed.',
    close,
  );
  return (
    <Dialog close={close} title="Change the account">
      <Form action={save} keeps={`account ${account.id}`} submit={(fields) => save.mutate(fields)}>
        <input type="hidden" name="added" defaultValue={added} />
        <TextField name="name" label="Name" size="sm" defaultValue={account.name} required />
        <NativeSelect name="plan" label="Plan" mt="sm" data={plans} defaultValue={account.plan} />
        <TextField
          name="amount"
          label="Add credit"
          description={`The balance is ${money(now.credit)}. On the plan pro, each email above the monthly limit takes 0.50.`}
          placeholder="0.00"
          inputMode="decimal"
          mt="sm"
        />
        <Submit action={save}>Save</Submit>
      </Form>
    </Dialog>
  );
}

/** The order of the list that is not the default, as the API has it. */
const byUsage = 'usage' as const;

/** What the list is narrowed to, as the API has it. */
const failing = 'failing' as const;

/** The customers of the server. */
export function Accounts() {
  const [state, change] = useAddressState(['new', 'q', 'webhooks', 'sort', 'page']);
  const page = pageOf(state.page);
  const query = {
    ...rangeOf(page),
    ...(state.q ? { q: state.q } : {}),
    ...(state.webhooks === failing ? { webhooks: failing } : {}),
    ...(state.sort === byUsage ? { sort: byUsage } : {}),
  };
  const list = useQuery({
    queryKey: ['accounts', query],
    queryFn: () => api.admin.accounts.list(query),
    placeholderData: keepPreviousData,
  });
  const { data } = list;
  return (
    <>
      <PageHead
        title="Accounts"
        words="Who sends with this server, and how much they may send."
        actions={<Button onClick={() => change({ new: '1' })}>New account</Button>}
      />
      {data && (
        <ListSearch
          label="Name or user’s email"
          value={state.q}
          change={(q) => change({ q, page: null })}
          found={plural(data.count, 'account')}
        >
          <ChoiceField
            label="Webhooks"
            all="All accounts"
            choices={[{ value: failing, label: 'Those whose webhooks fail' }]}
            value={state.webhooks}
            change={(webhooks) => change({ webhooks, page: null })}
          />
          <ChoiceField
            label="Order"
            all="Newest first"
            choices={[{ value: byUsage, label: 'Most emails this month first' }]}
            value={state.sort}
            change={(sort) => change({ sort, page: null })}
          />
        </ListSearch>
      )}
      <PagedTable
        query={list}
        page={page}
        change={change}
        label="Accounts"
        columns={columns}
        rows={data?.accounts}
        idOf={({ id }) => id}
        // Without a search or a filter the list is never empty: it has at least the user's own account.
        empty={
          state.webhooks && !state.q ? (
            <Empty title="All webhooks answer" words="Calls to none of them fail, and none was disabled for it." />
          ) : (
            <Empty title="No account matches" words="Remove the search to see more." />
          )
        }
      />
      {state.new === '1' && <NewAccount close={() => change({ new: null })} />}
    </>
  );
}

function NewAccount({ close }: { close: () => void }) {
  const [made, setMade] = useState<{ email: string; password?: string } | null>(null);
  const create = useAction(
    (form: FormData) =>
      api.admin.accounts.create({
        name: String(form.get('name')).trim(),
        email: String(form.get('email')).trim(),
        plan: String(form.get('plan')) as Account['plan'],
      }),
    null,
    ({ user }) => setMade(user),
  );
  return (
    <Dialog close={close} stays={made !== null || create.isPending} title={made ? 'Pass on this login' : 'New account'}>
      {made ? (
        <ShownOnce
          words="The password is shown only once. The user can change it in the settings."
          text={`${made.email}\n${made.password}`}
          what="the login"
          remedy="set another password on the machine: npm run -s sendwright -- users password <email>"
          close={close}
        />
      ) : (
        <Form action={create} keeps="a new account" submit={(fields) => create.mutate(fields)}>
          <TextField name="name" label="Name" size="sm" required data-autofocus />
          <TextField name="email" label="Email of its first user" size="sm" mt="sm" required />
          <NativeSelect name="plan" label="Plan" mt="sm" data={plans} />
          <Submit action={create}>Create</Submit>
        </Form>
      )}
    </Dialog>
  );
}
