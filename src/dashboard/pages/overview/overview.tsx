import { SegmentedControl } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Link } from 'wouter';
import type { Bucket } from '../../../client/index.ts';
import { useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Chart } from '../../parts/chart.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { now } from '../../words/clock.ts';
import { compact, count, duration, durationOnAxis, durationSteps, percent, plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { intervalsOf, type Span } from '../../words/spans.ts';
import { UntilFirstEmail } from '../sandbox/until-first-email.tsx';
import { AllAccounts, useHasOthers } from './all-accounts.tsx';
import { Concerns } from './overview-concerns.tsx';
import { Failures } from './overview-failures.tsx';
import { type Tile, Tiles } from './tiles.tsx';

const ranges = {
  day: { label: '24 hours', span: '24h', interval: 'hour' },
  week: { label: '7 days', span: '7d', interval: 'hour' },
  month: { label: '30 days', span: '30d', interval: 'day' },
} as const;
type Range = keyof typeof ranges;

/** What the numbers are about; for operators of several accounts, whose, and who sends the rest. */
function Scope({ hasOthers }: { hasOthers: boolean }) {
  if (!hasOthers) return 'How sending is going, and what needs attention.';
  return (
    <>
      How sending is going from all accounts, what needs attention, and then the mail of yours.{' '}
      <Link href="/accounts?sort=usage" className="link">
        Who sends the most
      </Link>
    </>
  );
}

/** Millions of emails are counted for longer than other answers take. */
const patience = { timeoutMs: 300_000 };

/** Numbers that are older, in ms, say so. */
const worthSayingMs = 60_000;

async function numbersOf(range: Range) {
  const { span, interval } = ranges[range];
  const times = intervalsOf(span);
  const from = times[0]?.toISOString() ?? '';
  const [{ buckets, to }, grouped, queue, any] = await Promise.all([
    api.stats.get({ from, interval }, patience),
    // They are added up anyway, and by the hour there may be too many for the server to keep.
    api.stats.get({ from, interval: 'day', group_by: 'provider' }, patience),
    api.emails.list({ limit: 1, status: 'queued' }),
    api.emails.list({ limit: 1 }),
  ]);
  const counted = to < grouped.to ? to : grouped.to;
  // Counts of much mail are kept by the server, for as long as it takes to make them many times.
  const countedAt = now() - Date.parse(counted) > worthSayingMs ? counted : null;
  return { times, buckets, byProvider: together(grouped.buckets), queued: queue.count, any: any.count > 0, countedAt };
}

/** How sending is going. */
export function Overview() {
  const [state, change] = useAddressState(['range']);
  const range: Range = state.range !== undefined && state.range in ranges ? (state.range as Range) : 'day';
  const query = useQuery({
    queryKey: ['stats', range],
    queryFn: () => numbersOf(range),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });
  const { data, error } = query;
  const hasOthers = useHasOthers();
  const { account } = useSession();
  // Less often: the query reads through everything that waits.
  const scheduled = useQuery({
    queryKey: ['scheduled'],
    queryFn: () => api.emails.list({ scheduled: 'true', limit: 1 }),
    refetchInterval: 60_000,
  });
  const time = ranges[range].span;
  const concerns = <Concerns buckets={data?.buckets ?? []} time={time} hasOthers={hasOthers} />;
  return (
    <>
      <PageHead
        title="Overview"
        words={<Scope hasOthers={hasOthers} />}
        actions={
          <SegmentedControl
            aria-label="How far back"
            value={range}
            data={Object.entries(ranges).map(([value, { label }]) => ({ value, label }))}
            onChange={(value) => change({ range: value === 'day' ? null : value })}
          />
        }
      />
      {/* Whoever operates a server often sends nothing themselves: what is wrong with the mail of others does not hang on that. */}
      {hasOthers && <AllAccounts time={time} />}
      {hasOthers && concerns}
      <Failed query={query} />
      {!data && !error && <Waiting bars={8} />}
      {data && !data.any && (
        <div className="table-box">
          <UntilFirstEmail
            title={hasOthers ? `The account ${account.name} has sent nothing yet` : 'Nothing has been sent yet'}
            words="Once there is mail, this page shows how delivery is going."
          />
        </div>
      )}
      {data?.countedAt && (
        <p className="dim">
          Counting this much mail takes a while: these numbers are from <Moment at={data.countedAt} />.
        </p>
      )}
      {data?.any && (
        <div className="overview">
          <OwnTiles
            title={hasOthers ? `The account ${account.name}` : null}
            buckets={data.buckets}
            queued={data.queued}
            later={scheduled.data}
            time={time}
          />
          <Charts times={data.times} buckets={data.buckets} />
          {hasOthers ? (
            <div className="columns">
              <Providers rows={data.byProvider} />
              <Failures buckets={data.buckets} time={time} />
            </div>
          ) : (
            <div className="columns pressing">
              <div>
                {concerns}
                <Failures buckets={data.buckets} time={time} />
              </div>
              <Providers rows={data.byProvider} />
            </div>
          )}
        </div>
      )}
    </>
  );
}

interface Numbers {
  /** Whose numbers these are; null: there is nobody else. */
  title: string | null;
  buckets: Bucket[];
  queued: number;
  /** How many of those in the queue only wait for their scheduled time; undefined: not known yet. */
  later: { count: number; count_exact: boolean } | undefined;
  /** How far back the numbers go, as the list of emails has it in its address. */
  time: Span;
}

function OwnTiles({ title, buckets, queued, later, time }: Numbers) {
  const sum = (read: (bucket: Bucket) => number) => buckets.reduce((total, bucket) => total + read(bucket), 0);
  const [delivered, failed] = [sum((one) => one.delivered), sum((one) => one.failed)];
  const latest = buckets.findLast(({ latency_ms: latency }) => latency !== null)?.latency_ms;
  // The two are not counted at the same time.
  const scheduled = Math.min(later?.count ?? 0, queued);
  const emails = (status: string) => `/emails?status=${status}&time=${time}`;
  const tiles: Tile[] = [
    {
      name: 'Accepted',
      value: compact(sum((one) => one.accepted)),
      more: 'emails',
      href: `/emails?time=${time}`,
    },
    {
      name: 'Delivered',
      value: compact(delivered),
      more: `recipients, ${percent(delivered, delivered + failed)} of those settled`,
      href: emails('sent'),
    },
    { name: 'Deferred', value: compact(sum((one) => one.deferrals)), more: 'answers of “later”' },
    {
      name: 'Failed',
      value: compact(failed),
      more: `recipients, ${percent(failed, delivered + failed)} of those settled`,
      href: emails('failed'),
    },
    {
      name: 'Suppressed',
      value: compact(sum((one) => one.suppressed)),
      more: 'emails not sent, or not to all',
      href: emails('suppressed'),
    },
    {
      name: 'In the queue',
      value: compact(queued),
      more:
        scheduled > 0 ? `emails, ${count(scheduled)}${later?.count_exact ? '' : '+'} of them for later` : 'emails now',
      href: '/emails?status=queued',
    },
    { name: 'Delivery time', value: latest ? duration(latest.p95) : '–', more: 'p95, in the latest interval' },
  ];
  const shown = <Tiles tiles={tiles} />;
  return title === null ? shown : <Panel title={title}>{shown}</Panel>;
}

const durationAxis = { steps: durationSteps, label: durationOnAxis };

function Charts({ times, buckets }: { times: Date[]; buckets: Bucket[] }) {
  const { counts, latencies } = useMemo(() => {
    const byTime = new Map(buckets.map((bucket) => [new Date(bucket.start).getTime(), bucket]));
    const at = <Value,>(read: (bucket: Bucket) => Value, none: Value) =>
      times.map((time) => {
        const bucket = byTime.get(time.getTime());
        return bucket ? read(bucket) : none;
      });
    return {
      counts: [
        { name: 'Accepted', color: '--accent', values: at((one) => one.accepted, 0) },
        { name: 'Delivered', color: '--good', values: at((one) => one.delivered, 0), filled: true },
        { name: 'Deferred', color: '--wait', values: at((one) => one.deferrals, 0) },
        { name: 'Failed', color: '--bad', values: at((one) => one.failed, 0) },
      ],
      latencies: [
        {
          name: 'Half of them within',
          color: '--accent',
          values: at<number | null>((one) => one.latency_ms?.p50 ?? null, null),
        },
        {
          name: '95 of 100 within',
          color: '--wait',
          values: at<number | null>((one) => one.latency_ms?.p95 ?? null, null),
        },
      ],
    };
  }, [times, buckets]);
  return (
    <div className="columns">
      <Panel title="Volume">
        <Chart
          label="Emails accepted, delivered, deferred and failed over time"
          times={times}
          series={counts}
          format={compact}
        />
      </Panel>
      <Panel title="Delivery time">
        <Chart
          label="How long delivery took over time"
          times={times}
          series={latencies}
          format={duration}
          axis={durationAxis}
        />
      </Panel>
    </div>
  );
}

type ByProvider = Pick<Bucket, 'accepted' | 'delivered' | 'deferrals' | 'failed' | 'pending'> & { name: string };

/** The rest says little, and there may be thousands. */
const mostProviders = 12;

/** Sums up each provider's intervals, the provider with the most mail first. */
function together(buckets: Bucket[]): ByProvider[] {
  const byName = new Map<string, ByProvider>();
  for (const { group, accepted, delivered, deferrals, failed, pending } of buckets) {
    const name = group ?? '';
    const known = byName.get(name) ?? { name, accepted: 0, delivered: 0, deferrals: 0, failed: 0, pending: 0 };
    byName.set(name, {
      name,
      accepted: known.accepted + accepted,
      delivered: known.delivered + delivered,
      deferrals: known.deferrals + deferrals,
      failed: known.failed + failed,
      pending: known.pending + pending,
    });
  }
  return [...byName.values()].sort((a, b) => b.accepted - a.accepted);
}

const columns: Column<ByProvider>[] = [
  {
    id: 'name',
    header: 'Provider',
    cell: ({ name }) => (
      <span className="cut" title={name}>
        {inOwnLetters(name)}
      </span>
    ),
  },
  { id: 'accepted', header: 'Emails', kind: 'number', cell: ({ accepted }) => count(accepted) },
  {
    id: 'delivered',
    header: 'Delivered',
    kind: 'number',
    cell: ({ delivered, failed }) => percent(delivered, delivered + failed),
  },
  { id: 'deferrals', header: 'Deferred', kind: 'number', cell: ({ deferrals }) => count(deferrals) },
  { id: 'failed', header: 'Failed', kind: 'number', cell: ({ failed }) => count(failed) },
  { id: 'pending', header: 'Waiting', kind: 'number', cell: ({ pending }) => count(pending) },
];

function Providers({ rows }: { rows: ByProvider[] }) {
  return (
    <Panel title="By provider">
      <DataTable
        label="By provider"
        columns={columns}
        rows={rows.slice(0, mostProviders)}
        idOf={({ name }) => name}
        empty={<div className="body dim">Nothing was sent in this period.</div>}
      />
      {rows.length > mostProviders && (
        <div className="body dim" style={{ fontSize: 12.5 }}>
          {plural(rows.length - mostProviders, 'more provider')} with less mail
        </div>
      )}
    </Panel>
  );
}
