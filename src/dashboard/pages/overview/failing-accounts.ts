import { useQuery } from '@tanstack/react-query';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import type { Span } from '../../words/spans.ts';
import { filtersOf } from '../emails/emails-filters.tsx';
import { countOf } from './all-accounts.tsx';

/** Another account, and how many of its emails failed and did not. */
export interface AccountFailures {
  id: string;
  name: string;
  sent: number;
  failed: number;
}

/** Of so many failures, the latest, an account with a tenth is looked at more closely; of those the first few. */
const latest = 100;
const mostAccounts = 3;

/**
 * For operators: the accounts whose mail fails most just now. Among the mail of all, that of one that only bounces is not seen,
 * although the sending addresses are blocked for it.
 *
 * @param time how far back the numbers go
 */
export function useFailingAccounts(time: Span, enabled: boolean) {
  const { account: own } = useSession();
  return useQuery({
    queryKey: ['failing-accounts', time],
    enabled,
    queryFn: async (): Promise<AccountFailures[]> => {
      const filter = filtersOf({ time, status: 'failed' }, true);
      const { emails } = await api.admin.emails.list({ ...filter, limit: latest });
      const shares = new Map<string, number>();
      for (const { account_id: id } of emails) if (id !== own.id) shares.set(id, (shares.get(id) ?? 0) + 1);
      const found = [...shares].filter(([, share]) => share >= latest / 10).sort(([, a], [, b]) => b - a);
      return Promise.all(found.slice(0, mostAccounts).map(([id]) => failuresOf(id, time)));
    },
    refetchInterval: 60_000,
  });
}

async function failuresOf(id: string, time: Span): Promise<AccountFailures> {
  const [{ account }, sent, failed] = await Promise.all([
    api.admin.accounts.get(id),
    countOf({ time, status: 'sent' }, id),
    countOf({ time, status: 'failed' }, id),
  ]);
  return { id, name: account.name, sent, failed };
}
