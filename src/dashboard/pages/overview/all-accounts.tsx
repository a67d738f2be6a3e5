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

/** These numbers, or why there are none. It has its height before they are known, so that nothing below it moves. */
export function AllAccounts({ time }: { time: Span }) {
  const query = useAllAccounts(time, true);
  const { data, error } = query;
  if (!data && error)
    return (
      <Panel title="All accounts">
        <div className="body">
          <Failed query={query} />
        </div>
      </Panel>
    );
  const number = (emails: number | undefined) => (emails === undefined ? '…' : compact(emails));
  const settled = (emails: number | undefined) =>
    data && emails !== undefined ? `${percent(emails, data.sent + data.failed)} of those settled` : 'of those settled';
  const emails = (status: string) => `/emails?accounts=all&status=${status}&time=${time}`;
  return (
    <Panel title="All accounts">
      <Failed query={query} />
      <Tiles
        tiles={[
          {
            name: 'Accepted',
            value: number(data?.accepted),
            more: 'emails',
            href: `/emails?accounts=all&time=${time}`,
          },
          { name: 'Sent', value: number(data?.sent), more: settled(data?.sent), href: emails('sent') },
          { name: 'Failed', value: number(data?.failed), more: settled(data?.failed), href: emails('failed') },
          {
            name: 'Suppressed',
            value: number(data?.suppressed),
            more: 'not sent, or not to all',
            href: emails('suppressed'),
          },
          {
            name: 'In the queue',
            value: number(data?.queued),
            more: 'now, scheduled ones too',
            href: '/emails?accounts=all&status=queued',
          },
        ]}
      />
    </Panel>
  );
}
