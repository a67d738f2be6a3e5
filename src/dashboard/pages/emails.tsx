import { Tooltip } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Fragment, useContext } from 'react';
import { Link } from 'wouter';
import type { Email, ListEmailsQuery, ListedEmail } from '../../client/index.ts';
import { pageOf, pageState, useAddressState } from '../address-state.ts';
import { api } from '../api.ts';
import { firstEmail } from '../commands.ts';
import { count, isForLater, shownSubject } from '../format.ts';
import { Connected } from '../live.ts';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Empty } from '../parts/empty.tsx';
import { Known } from '../parts/failure.tsx';
import { ChoiceField, ClearFilters, SearchField } from '../parts/filters.tsx';
import { Moment } from '../parts/moment.tsx';
import { PageHead } from '../parts/page.tsx';
import { Pager, PastEnd, pageSize } from '../parts/pager.tsx';
import { Status, Tags } from '../parts/status.tsx';
import { useSession } from '../session.ts';
import { OnTheList } from './suppression-standing.tsx';

const statuses = ['queued', 'sent', 'failed', 'suppressed', 'canceled'] as const;

/** No status of its own: a recipient waits until somebody decides. */
const held = 'held';
/** Nor is this: it is queued, until its time has come. */
const scheduled = 'scheduled';

/** How far back, as the address has it. */
const times = [
  { value: '1h', label: 'Last hour' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
];
const hours: Record<string, number> = { '1h': 1, '24h': 24, '7d': 168 };

const names = [
  'to',
  'q',
  'status',
  'held',
  'scheduled',
  'tag',
  'domain',
  'type',
  'time',
  'before',
  'accounts',
  'page',
] as const;

/** To the minute, so that what is asked for stays the same for a while. */
function since(time: string | undefined): string | undefined {
  const back = hours[time ?? ''];
  return back === undefined ? undefined : new Date(Math.floor(Date.now() / 60_000 - back * 60) * 60_000).toISOString();
}

type Row = ListedEmail & { account_id?: string };

/** How many more than the one that is shown. */
const others = ({ recipient_count: recipients }: Row) =>
  recipients > 1 && <span className="dim"> +{count(recipients - 1)}</span>;

/** What belongs to other accounts is listed for operators, and opened by its owners alone. */
const recipient = (hrefOf: (row: Row) => string | null): Column<Row> => ({
  id: 'to',
  header: 'To',
  cell: (row) => {
    const href = hrefOf(row);
    const words = (
      <span className="cut wide with-more" title={row.to}>
        <span>{row.to}</span>
        {others(row)}
      </span>
    );
    return href === null ? (
      words
    ) : (
      <Link href={href} className="row-link" data-row>
        {words}
      </Link>
    );
  },
});

const account: Column<Row> = {
  id: 'account',
  header: 'Account',
  cell: ({ account_id: id = '' }) => <AccountName id={id} />,
};

function AccountName({ id }: { id: string }) {
  const { data } = useQuery({
    queryKey: ['accounts', 'one', id],
    queryFn: () => api.admin.accounts.get(id),
    staleTime: 300_000,
  });
  return (
    <span className="cut soft" title={id}>
      {data?.account.name ?? '…'}
    </span>
  );
}

/** What came back, as the events call it. */
const returnedAs = { bounce: 'bounced', delay: 'delayed', complaint: 'complained', unsubscribe: 'unsubscribed' };

const columns: Column<Row>[] = [
  {
    id: 'status',
    header: 'Status',
    kind: 'narrow',
    plain: true,
    cell: (row) => {
      const { status, error, returned, held } = row;
      const shown = [
        isForLater(row) ? 'scheduled' : status,
        ...(held ? ['held'] : []),
        ...returned.map((kind) => returnedAs[kind]),
      ].map((value) => (
        <Fragment key={value}>
          <Status value={value} />{' '}
        </Fragment>
      ));
      return error ? (
        <Tooltip label={error.slice(0, 300)} multiline maw={420}>
          <span>{shown}</span>
        </Tooltip>
      ) : (
        shown
      );
    },
  },
  {
    id: 'subject',
    header: 'Subject',
    plain: true,
    cell: ({ subject }) => (
      <span className="cut wide" title={subject}>
        {shownSubject(subject)}
      </span>
    ),
  },
  {
    id: 'from',
    header: 'From',
    spare: true,
    cell: ({ from }) => (
      <span className="cut soft" title={from}>
        {from}
      </span>
    ),
  },
  {
    id: 'tags',
    header: 'Tags',
    spare: true,
    cell: ({ tags }) =>
      tags.length > 0 && (
        <span className="cut several">
          <Tags tags={tags.slice(0, 3)} />
        </span>
      ),
  },
  {
    id: 'created',
    header: 'Accepted',
    kind: 'narrow',
    cell: ({ created_at }) => (
      <span className="soft">
        <Moment at={created_at} />
      </span>
    ),
  },
];

/** The delivery log. */
export function Emails() {
  const { user, account: own, service } = useSession();
  const [state, change] = useAddressState(names);
  const connected = useContext(Connected);
  const page = pageOf(state.page);
  const all = state.accounts === 'all' && user.role === 'admin';
  const after = since(state.time);
  const query: ListEmailsQuery = {
    limit: pageSize,
    offset: (page - 1) * pageSize,
    ...(state.to ? { to: state.to } : {}),
    ...(state.q ? { q: state.q } : {}),
    ...(state.tag ? { tag: state.tag } : {}),
    ...(state.domain ? { domain: state.domain } : {}),
    ...(state.status ? { status: state.status as Email['status'] } : {}),
    ...(state.held ? { held: 'true' } : {}),
    // An account's own log has it alone.
    ...(state.scheduled && !all ? { scheduled: 'true' } : {}),
    ...(state.type ? { type: state.type as Email['type'] } : {}),
    ...(after ? { created_after: after } : {}),
    ...(state.before ? { created_before: state.before } : {}),
  };
  const { data, error, refetch } = useQuery({
    queryKey: ['emails', all, query],
    queryFn: () => (all ? api.admin.emails.list(query) : api.emails.list(query)),
    placeholderData: keepPreviousData,
  });
  const hrefOf = ({ id, account_id: owner = own.id }: Row) => (owner === own.id ? `/emails/${id}` : null);
  const search = (name: (typeof names)[number]) => (value: string | null) => change({ [name]: value, page: null });
  const isFiltered = names.some((name) => name !== 'page' && name !== 'accounts' && state[name]);
  const clear = () => change(Object.fromEntries(names.map((name) => [name, null])));
  return (
    <>
      <PageHead
        title="Emails"
        words="Every email, what became of it, and why."
        actions={
          <span className="live-dot dim" data-on={connected} style={{ fontSize: 12.5, paddingTop: 6 }}>
            {connected ? 'Live' : 'Not live'}
          </span>
        }
      />
      <search className="filters">
        <SearchField label="Recipient, whole address" value={state.to} change={search('to')} first width={200} />
        <SearchField label="Subject" value={state.q} change={search('q')} width={130} />
        <ChoiceField
          label="Status"
          all="Any status"
          choices={[
            ...statuses,
            ...(all ? [] : [{ value: scheduled, label: 'scheduled, for later' }]),
            { value: held, label: 'held, to be decided' },
          ]}
          value={state.held ? held : state.scheduled && !all ? scheduled : state.status}
          change={(value) =>
            change({
              status: value === held || value === scheduled ? null : value,
              held: value === held ? 'true' : null,
              scheduled: value === scheduled ? 'true' : null,
              page: null,
            })
          }
        />
        <ChoiceField label="Time" all="Any time" choices={times} value={state.time} change={search('time')} />
        <SearchField label="Tag" value={state.tag} change={search('tag')} width={86} />
        <SearchField label="Sender domain" value={state.domain} change={search('domain')} width={126} />
        <ChoiceField
          label="Type"
          all="Any type"
          choices={['transactional', 'marketing']}
          value={state.type}
          change={search('type')}
        />
        {user.role === 'admin' && (
          <ChoiceField
            label="Accounts"
            all="This account"
            choices={[{ value: 'all', label: 'All accounts' }]}
            value={state.accounts}
            change={search('accounts')}
          />
        )}
        {isFiltered && <ClearFilters clear={clear} />}
        {data && (
          <span className="count" aria-live="polite">
            {count(data.count)}
            {data.count_exact ? '' : '+'} {data.count === 1 ? 'email' : 'emails'}
          </span>
        )}
      </search>
      {all && (
        <p className="dim" style={{ margin: '0 0 10px', fontSize: 12.5 }}>
          Emails of other accounts are listed, and not opened: what they say, and each attempt, is for their own users.
        </p>
      )}
      {state.to && !all && <OnTheList address={state.to} />}
      <Known data={data} error={error} retry={() => void refetch()}>
        <DataTable
          label="Emails"
          columns={[recipient(hrefOf), ...(all ? [account] : []), ...columns]}
          rows={data?.emails}
          idOf={({ id }) => id}
          hrefOf={hrefOf}
          empty={
            data && data.count > 0 ? (
              <PastEnd go={(to) => change(pageState(to))} />
            ) : isFiltered ? (
              <Empty title="No email matches" words="Take a filter off, or look further back.">
                <ClearFilters clear={clear} />
              </Empty>
            ) : (
              <Empty
                title="No emails yet"
                words="Send one, and watch it here: each attempt, what the server said, and what happens next."
                command={firstEmail(service.base_url, service.sandbox ? 'example.test' : 'your-domain.example')}
              />
            )
          }
        />
      </Known>
      {data && <Pager page={page} total={data.count} exact={data.count_exact} go={(to) => change(pageState(to))} />}
    </>
  );
}
