import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Failed } from '../../parts/failure.tsx';
import { Panel } from '../../parts/page.tsx';
import { compact, percent } from '../../words/format.ts';
import type { Span } from '../../words/spans.ts';
import { filtersOf } from '../emails/emails-filters.tsx';
import { Tiles } from './tiles.tsx';

/** Whether this user operates a server that others send with, too; also where that could not be asked, so that nothing is left out unseen. */
export function useHasOthers(): boolean {
  const { user } = useSession();
  const { data, isError } = useQuery({
    queryKey: ['accounts', 'count'],
    queryFn: () => api.admin.accounts.list({ limit: 1 }),
    staleTime: 300_000,
    enabled: user.role === 'admin',
  });
  return isError || (data?.count ?? 1) > 1;
}

/** How many emails there are, of all accounts or of one. */
export async function countOf(
  state: { status?: 'sent' | 'failed' | 'suppressed' | 'queued'; time?: Span },
  account?: string,
): Promise<number> {
  const whose = account === undefined ? {} : { account_id: account };
  return (await api.admin.emails.list({ ...filtersOf(state, true), ...whose, limit: 1 })).count;
}

/** How many emails of all accounts have which status: `queued` at this moment, the others of those accepted in a stretch of time. */
export type AllEmails = Record<'accepted' | 'sent' | 'failed' | 'suppressed' | 'queued', number>;

/** For operators: how many emails of all accounts have which status. The server has these numbers without reading an email. */
export function useAllAccounts(time: Span, enabled: boolean) {
  return useQuery({
    enabled,
    queryKey: ['all-accounts', time],
    queryFn: async (): Promise<AllEmails> => {
      const [accepted, sent, failed, suppressed, queued] = await Promise.all([
        countOf({ time }),
        countOf({ time, status: 'sent' }),
        countOf({ time, status: 'failed' }),
        countOf({ time, status: 'suppressed' }),
        countOf({ status: 'queued' }),
      ]);
      return { accepted, sent, failed, suppressed, queued };
    },
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });
}

/** These numbers, or why there are none. */
export function AllAccounts({ time }: { time: Span }) {
  const query = useAllAccounts(time, true);
  if (!query.data)
    return query.error ? (
      <Panel title="All accounts">
        <div className="body">
          <Failed query={query} />
        </div>
      </Panel>
    ) : null;
  const { accepted, sent, failed, suppressed, queued } = query.data;
  const settled = (emails: number) => `${percent(emails, sent + failed)} of those settled`;
  const emails = (status: string) => `/emails?accounts=all&status=${status}&time=${time}`;
  return (
    <Panel title="All accounts">
      <Failed query={query} />
      <Tiles
        tiles={[
          { name: 'Accepted', value: compact(accepted), more: 'emails', href: `/emails?accounts=all&time=${time}` },
          { name: 'Sent', value: compact(sent), more: settled(sent), href: emails('sent') },
          { name: 'Failed', value: compact(failed), more: settled(failed), href: emails('failed') },
          {
            name: 'Suppressed',
            value: compact(suppressed),
            more: 'not sent, or not to all',
            href: emails('suppressed'),
          },
          {
            name: 'In the queue',
            value: compact(queued),
            more: 'now, scheduled ones too',
            href: '/emails?accounts=all&status=queued',
          },
        ]}
      />
    </Panel>
  );
}
