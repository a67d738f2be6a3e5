import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api } from '../../data/api.ts';
import { Moment } from '../../parts/moment.tsx';
import { Status } from '../../parts/status.tsx';
import { storedAs } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** Why an address gets no mail, since when, and where to change that; nothing if it is not on the list. */
export function OnTheList({ address }: { address: string }) {
  const sought = storedAs(address);
  const { data } = useQuery({
    queryKey: ['suppressions', 'of', sought],
    queryFn: () => api.suppressions.list({ address: sought, exact: 'true' }),
    enabled: sought.includes('@'),
  });
  const found = data?.suppressions[0];
  if (!found) return null;
  return (
    <p className="on-the-list wrap-anywhere">
      <Status value={found.reason} />{' '}
      <span>
        {inOwnLetters(found.address)} has been on the suppression list <Moment at={found.created_at} lasting />, which
        stops {found.reason === 'unsubscribe' ? 'marketing' : 'all mail'}.{' '}
        <Link href={`/suppressions?q=${encodeURIComponent(found.address)}`} className="link">
          Show it there
        </Link>
      </span>
    </p>
  );
}
