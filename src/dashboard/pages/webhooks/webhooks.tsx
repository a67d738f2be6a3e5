import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Webhook } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import type { Column } from '../../parts/data-table.tsx';
import { Empty } from '../../parts/empty.tsx';
import { NameAndStatus } from '../../parts/filters.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { WholeTable } from '../../parts/paged-table.tsx';
import { Status } from '../../parts/status.tsx';
import { webhookCall } from '../../words/commands.ts';
import { plural } from '../../words/format.ts';
import { NewWebhook } from './webhook-form.tsx';

const isFailing = ({ status, failing_since: since }: Webhook) => status === 'enabled' && since !== null;

const isIn = (one: Webhook, chosen: string) => (chosen === 'failing' ? isFailing(one) : one.status === chosen);

const columns: Column<Webhook>[] = [
  {
    id: 'url',
    header: 'Address',
    cell: ({ id, url }) => (
      <Link href={`/webhooks/${id}`} className="row-link" data-row>
        <span className="cut" title={url}>
          {url}
        </span>
      </Link>
    ),
  },
  {
    id: 'status',
    header: 'Status',
    kind: 'narrow',
    plain: true,
    cell: (one) =>
      isFailing(one) ? (
        <>
          <Status value="failing" tone="bad" />{' '}
          <span className="soft">
            <Moment at={one.failing_since ?? ''} lasting />
          </span>
        </>
      ) : (
        <Status value={one.status} />
      ),
  },
  {
    id: 'why',
    header: 'Why it is off',
    plain: true,
    cell: ({ disabled_reason: reason }) => reason && <span className="soft">{reason}</span>,
  },
  {
    id: 'events',
    header: 'Events',
    kind: 'narrow',
    cell: ({ events }) => <span title={events.join(', ')}>{events.length}</span>,
  },
  { id: 'created', header: 'Added', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
];

/** The endpoints that are called when something happens to an email. */
export function Webhooks() {
  const { service } = useSession();
  const [state, change] = useAddressState(['new', 'q', 'status', 'page']);
  const query = useQuery({ queryKey: ['webhooks'], queryFn: () => api.webhooks.list() });
  const { data } = query;
  const shown = data?.webhooks.filter(
    (one) =>
      one.url.toLowerCase().includes(state.q?.toLowerCase() ?? '') &&
      (state.status === undefined || isIn(one, state.status)),
  );
  return (
    <>
      <PageHead
        title="Webhooks"
        words="Sendwright calls your program when something happens to an email. Calls are signed, and repeated until they are answered."
        actions={<Button onClick={() => change({ new: '1' })}>Add a webhook</Button>}
      />
      {data && data.webhooks.length > 0 && (
        <NameAndStatus
          name="Address"
          all="Any status"
          statuses={['enabled', 'failing', 'disabled']}
          state={state}
          change={change}
          found={plural(shown?.length ?? 0, 'webhook')}
        />
      )}
      <WholeTable
        query={query}
        page={pageOf(state.page)}
        change={change}
        label="Webhooks"
        columns={columns}
        rows={shown}
        idOf={({ id }) => id}
        hrefOf={({ id }) => `/webhooks/${id}`}
        empty={
          data && data.webhooks.length > 0 ? (
            <Empty title="No webhook matches" words="Remove a filter to see more." />
          ) : (
            <Empty
              title="No webhook yet"
              words="Add a URL that accepts POST. Calls are signed with a secret that is shown once."
              command={webhookCall(service.base_url)}
            />
          )
        }
      />
      {state.new === '1' && <NewWebhook close={() => change({ new: null })} />}
    </>
  );
}
