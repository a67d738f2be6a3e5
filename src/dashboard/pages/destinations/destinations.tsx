import { Button, Group, Tooltip } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { Link } from 'wouter';
import type { Destination, SendingAddress } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Pace } from '../../data/pace.ts';
import { useAction } from '../../parts/action.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Empty } from '../../parts/empty.tsx';
import { ChoiceField, ClearFilters, Found, SearchField } from '../../parts/filters.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { rangeOf } from '../../parts/pager.tsx';
import { Status } from '../../parts/status.tsx';
import { count, plural, spaced } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { isStalled, lacksMail, onlyRefuses, waitingAt } from './destination-standing.ts';
import { GiveUp } from './giving-up.tsx';

type State = Destination['state'];

/** Not a state of its own: nothing waits for those that refuse each email at once. */
const refusing = 'refusing';

const tones = { paused: 'wait', backing_off: 'bad', slowed: 'wait', open: 'good' } as const;
const states = Object.keys(tones) as State[];

/** A link to the emails sent there lately, from all accounts. */
const EmailsTo = ({ domain }: { domain: string }) => (
  <Link
    href={`/emails?accounts=all&to=${encodeURIComponent(`@${domain}`)}`}
    title={`Emails to ${domain}`}
    className="link"
  >
    {inOwnLetters(domain)}
  </Link>
);

/** When mail last arrived there or, where that is not known, when it last answered some. */
function LastMail({ last_delivered_at: delivered, last_success_at: success }: Destination) {
  const at = delivered ?? success;
  if (at === null) return null;
  return (
    <div className="cut several why dim">
      {delivered === null ? 'last settled mail' : 'mail last arrived'} <Moment at={at} exactly />
    </div>
  );
}

/** A provider has up to fifty domains, which nobody wants to tab through. */
const mostLinked = 3;

const columns: Column<Destination>[] = [
  {
    id: 'site',
    header: 'Destination',
    cell: ({ site, destinations }) => {
      const isItself = destinations.join() === site;
      return (
        <>
          <b className="cut whole" style={{ fontWeight: 550 }} title={site}>
            {isItself ? <EmailsTo domain={site} /> : inOwnLetters(site)}
          </b>
          {destinations.length > 0 && !isItself && (
            <span className="cut whole dim" title={destinations.join(', ')}>
              {destinations.slice(0, mostLinked).map((domain, place) => (
                <Fragment key={domain}>
                  {place > 0 && ', '}
                  <EmailsTo domain={domain} />
                </Fragment>
              ))}
              {destinations.length > mostLinked && ` +${destinations.length - mostLinked}`}
            </span>
          )}
        </>
      );
    },
  },
  {
    id: 'standing',
    header: 'Now',
    kind: 'narrow',
    plain: true,
    cell: (one) => (
      <Status value={spaced(one.state)} tone={one.state === 'open' && isStalled(one) ? 'mute' : tones[one.state]} />
    ),
  },
  { id: 'queued', header: 'Queued', kind: 'number', cell: ({ queued }) => count(queued) },
  { id: 'deferred', header: 'Deferred', kind: 'number', cell: ({ deferred }) => count(deferred) },
  {
    id: 'limit',
    header: 'In flight / limit',
    kind: 'narrow',
    cell: ({ in_flight: flying, connections, most_connections: most, per_minute: rate, reason }) =>
      // No node has sent there since it started: there is no limit yet.
      most === 0 ? (
        <span className="dim">–</span>
      ) : (
        <Tooltip label={reason ?? 'At the maximum.'} multiline maw={380}>
          <span>
            {flying} / {connections} <span className="dim">of {most}</span>
            {rate !== null && <span className="dim"> · {count(rate)} a minute</span>}
          </span>
        </Tooltip>
      ),
  },
  {
    id: 'why',
    header: 'Reason and last reply',
    cell: (one) => {
      const { reason, waiting_for: waiting, last_reply: reply } = one;
      return (
        <>
          {(reason ?? waiting) && <div className="cut several why">{reason ?? waiting}</div>}
          {reply && (
            <span
              className={`cut why dim mono${reason || waiting || !reply.startsWith('2') ? ' whole' : ''}`}
              title={reply}
            >
              {reply}
            </span>
          )}
          {(lacksMail(one) || onlyRefuses(one) || one.most_connections === 0) && <LastMail {...one} />}
        </>
      );
    },
  },
  {
    id: 'next',
    header: 'Next try',
    kind: 'narrow',
    cell: ({ backoff_until: backoff, next_attempt_at: next }) => {
      const at = backoff ?? next;
      return at ? <Moment at={at} ahead="try" /> : <span className="dim">–</span>;
    },
  },
  { id: 'act', header: '', kind: 'acts', cell: (one) => <Orders destination={one} /> },
];

/** The result of an order; which fields it has depends on the order. */
type Given = { destination: Destination; flushed?: number; rest_follows?: boolean };

function wordsFor({ destination: { site, paused_at: paused }, flushed, rest_follows: more }: Given): string {
  const rest = more ? ' The rest follows.' : '';
  if (flushed !== undefined) return `${plural(flushed, 'recipient')} tried now.${rest}`;
  const name = inOwnLetters(site);
  return paused ? `${name} is paused.` : `${name} is resumed.${rest}`;
}

function Orders({ destination }: { destination: Destination }) {
  const { site, paused_at: paused } = destination;
  const [asked, setAsked] = useState(false);
  const order = useAction(
    (name: 'pause' | 'resume' | 'flush'): Promise<Given> => api.admin.destinations[name](site),
    wordsFor,
  );
  const button = (name: 'pause' | 'resume' | 'flush', words: string) => (
    <Button
      variant="default"
      size="compact-xs"
      aria-label={`${words} ${inOwnLetters(site)}`}
      onClick={() => order.mutate(name)}
    >
      {words}
    </Button>
  );
  const mayGiveUp = waitingAt(destination) > 0 && destination.destinations.length > 0;
  return (
    <Group gap={4} className="orders">
      {paused ? button('resume', 'Resume') : button('pause', 'Pause')}
      {button('flush', 'Try now')}
      {mayGiveUp && (
        <Button
          variant="default"
          size="compact-xs"
          aria-label={`Give up what waits for ${inOwnLetters(site)}`}
          onClick={() => setAsked(true)}
        >
          Give up
        </Button>
      )}
      {asked && <GiveUp destination={destination} close={() => setAsked(false)} />}
    </Group>
  );
}

/** Where mail goes, and the limits of each destination. */
export function Destinations() {
  const [state, change] = useAddressState(['q', 'now', 'page']);
  const page = pageOf(state.page);
  const query = {
    ...rangeOf(page),
    ...(state.q ? { q: state.q } : {}),
    ...(state.now === refusing ? { refusing: 'true' as const } : state.now ? { state: state.now as State } : {}),
  };
  const [pace] = useState(() => new Pace(5_000));
  const list = useQuery({
    queryKey: ['destinations', query],
    queryFn: () => pace.ask(() => api.admin.destinations.list(query)),
    placeholderData: keepPreviousData,
    refetchInterval: () => pace.everyMs,
  });
  const { data } = list;
  const isFiltered = Boolean(state.q || state.now);
  return (
    <>
      <PageHead
        title="Destinations"
        words="Where mail goes, grouped by who runs the servers: what waits, how much is sent at a time, and why."
      />
      <search className="filters">
        <SearchField
          label="Provider or domain"
          value={state.q}
          change={(q) => change({ q, page: null })}
          first
          width={220}
        />
        <ChoiceField
          label="Now"
          all="Any state"
          choices={[
            ...states.map((value) => ({ value, label: spaced(value) })),
            { value: refusing, label: 'refusing our mail' },
          ]}
          value={state.now}
          change={(now) => change({ now, page: null })}
        />
        {isFiltered && <ClearFilters clear={() => change({ q: null, now: null, page: null })} />}
        {data && <Found>{plural(data.count, 'destination')}</Found>}
      </search>
      <PagedTable
        query={list}
        page={page}
        change={change}
        label="Destinations"
        columns={columns}
        rows={data?.destinations}
        idOf={({ site }) => site}
        empty={
          isFiltered ? (
            <Empty title="No destination matches" words="Remove a filter to see more." />
          ) : (
            <Empty
              title="No destinations"
              words="A destination is listed if mail waits for it, if it got mail within the last hour, or if it is paused."
            />
          )
        }
      />
      <div style={{ height: 16 }} />
      {data && <Addresses addresses={data.sending_ips} />}
    </>
  );
}

const addressColumns: Column<SendingAddress>[] = [
  { id: 'ip', header: 'Address', cell: ({ ip }) => <span className="mono">{ip}</span> },
  { id: 'pool', header: 'Pool', cell: ({ pool }) => pool },
  {
    id: 'warm',
    header: 'Warm-up',
    cell: ({ warm_up: plan }) =>
      plan ? (
        <>
          day {plan.day}: {count(plan.sent_today)} of {count(plan.cap)} today
          <span className="dim">
            {' '}
            · over <Moment at={plan.ends_at} ahead />
          </span>
        </>
      ) : (
        <span className="dim">no cap</span>
      ),
  },
];

function Addresses({ addresses }: { addresses: SendingAddress[] }) {
  return (
    <Panel title="Sending addresses">
      <DataTable
        label="Sending addresses"
        columns={addressColumns}
        rows={addresses}
        idOf={({ ip, pool }) => `${pool} ${ip}`}
        empty={
          <Empty
            title="The system chooses the address"
            words="List this machine's addresses in SENDING_IPS to assign them to pools and to warm up new ones."
            command="SENDING_IPS=198.51.100.7,marketing=203.0.113.6 npm start"
          />
        }
      />
    </Panel>
  );
}
