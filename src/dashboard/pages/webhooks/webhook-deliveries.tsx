import { Button, Drawer } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { EventType, Webhook, WebhookDelivery } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Pace } from '../../data/pace.ts';
import { useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { ChoiceField } from '../../parts/filters.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { rangeOf } from '../../parts/pager.tsx';
import { Status } from '../../parts/status.tsx';
import { now } from '../../words/clock.ts';
import { count, forField, plural, shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { Delivery } from './webhook-delivery.tsx';

const answerOf = ({ attempts, error }: WebhookDelivery) => {
  const last = attempts.at(-1);
  return last?.response_status ? String(last.response_status) : (last?.error ?? error ?? '–');
};

/** @param hrefOf the address that shows one call */
const columnsOf = (hrefOf: (one: WebhookDelivery) => string): Column<WebhookDelivery>[] => [
  {
    id: 'event',
    header: 'Event',
    cell: (one) => (
      <Link href={hrefOf(one)} className="row-link" data-row>
        <span className="cut">{one.event}</span>
      </Link>
    ),
  },
  { id: 'status', header: 'Status', kind: 'narrow', plain: true, cell: ({ status }) => <Status value={status} /> },
  {
    id: 'email',
    header: 'Email',
    cell: ({ email_id: email, recipient, subject }) =>
      email ? (
        <Link href={`/emails/${email}`} className="link cut" title={shownSubject(subject ?? '')}>
          {recipient ? inOwnLetters(recipient) : shownSubject(subject ?? '')}
        </Link>
      ) : (
        <span className="dim">none</span>
      ),
  },
  {
    id: 'answer',
    header: 'Last answer',
    cell: (one) => (
      <span className="cut" title={answerOf(one)}>
        {answerOf(one)}
      </span>
    ),
  },
  { id: 'attempts', header: 'Attempts', kind: 'number', cell: ({ attempts }) => attempts.length },
  {
    id: 'next',
    header: 'Next try',
    kind: 'narrow',
    cell: ({ next_attempt_at: at }) => (at ? <Moment at={at} ahead="try" /> : <span className="dim">–</span>),
  },
  { id: 'created', header: 'When', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
];

/** Every call of an endpoint, to inspect and to repeat. */
export function Deliveries({ webhook }: { webhook: Webhook }) {
  const [state, change] = useAddressState(['status', 'event', 'delivery', 'page']);
  const page = pageOf(state.page);
  const query = {
    webhook_id: webhook.id,
    ...rangeOf(page),
    ...(state.status ? { status: state.status as WebhookDelivery['status'] } : {}),
    ...(state.event ? { event: state.event as EventType } : {}),
  };
  const [pace] = useState(() => new Pace(5_000));
  const list = useQuery({
    queryKey: ['deliveries', query],
    queryFn: () => pace.ask(() => api.webhookDeliveries.list(query)),
    placeholderData: keepPreviousData,
    refetchInterval: () => pace.everyMs,
  });
  const { data } = list;
  // Keeps the filters, so that the same list is there after closing.
  const hrefOf = ({ id }: WebhookDelivery) =>
    `/webhooks/${webhook.id}?${new URLSearchParams({ ...state, delivery: id })}`;
  return (
    <Panel
      title={data ? `Calls (${count(data.count)}${data.count_exact ? '' : '+'})` : 'Calls'}
      actions={<Replay webhook={webhook} />}
    >
      <div className="body" style={{ paddingBottom: 0 }}>
        <search className="filters">
          <ChoiceField
            label="Status"
            all="Any status"
            choices={['pending', 'succeeded', 'failed']}
            value={state.status}
            change={(status) => change({ status, page: null })}
          />
          <ChoiceField
            label="Event"
            all="Any event"
            choices={[...webhook.events, 'webhook.test']}
            value={state.event}
            change={(event) => change({ event, page: null })}
          />
        </search>
      </div>
      <PagedTable
        query={list}
        page={page}
        change={change}
        label="Calls"
        columns={columnsOf(hrefOf)}
        rows={data?.deliveries}
        idOf={({ id }) => id}
        hrefOf={hrefOf}
        empty={
          state.status || state.event ? (
            <Empty title="No call matches" words="Remove a filter to see more." />
          ) : (
            <Empty
              title="No calls"
              words="Calls are made when something happens to an email. You can also make a test call."
            />
          )
        }
      />
      <Drawer
        opened={state.delivery !== undefined}
        onClose={() => change({ delivery: null })}
        title="One call"
        position="right"
        size="lg"
        transitionProps={{ duration: 0 }}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {state.delivery && <Delivery id={state.delivery} />}
      </Drawer>
    </Panel>
  );
}

/** @returns how many calls are repeated; one request takes about ten thousand */
async function replayAll(id: string, since: Date): Promise<number> {
  let count = 0;
  for (let next: string | null = since.toISOString(); next; ) {
    // Where it ends is left to the server: by a browser's clock that is behind, the newest calls would be left out.
    const taken = await api.webhooks.replay(id, { since: next });
    count += taken.count;
    next = taken.next_since;
  }
  return count;
}

function Replay({ webhook }: { webhook: Webhook }) {
  const [open, setOpen] = useState(false);
  const replay = useAction(
    (since: Date) => replayAll(webhook.id, since),
    (count) => `${plural(count, 'call')} made again.`,
    () => setOpen(false),
  );
  return (
    <>
      <Button variant="default" disabled={webhook.status === 'disabled'} onClick={() => setOpen(true)}>
        Replay
      </Button>
      {open && (
        <Dialog close={() => setOpen(false)} title="Replay">
          <Form action={replay} submit={(fields) => replay.mutate(new Date(String(fields.get('since'))))}>
            <TextField
              name="since"
              type="datetime-local"
              size="sm"
              label="Repeat every call since"
              description="Including those that succeeded, with the same ids, so that a receiver can recognize them."
              defaultValue={forField(new Date(now() - 3_600_000))}
              required
            />
            <Submit action={replay}>Replay</Submit>
          </Form>
        </Dialog>
      )}
    </>
  );
}
