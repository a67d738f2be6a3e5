import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Empty } from '../../parts/empty.tsx';
import { firstEmail } from '../../words/first-email.ts';

/** Shown where emails will be: how to send one from a domain of this account, or how to get one. */
export function UntilFirstEmail({ title, words }: { title: string; words: string }) {
  const session = useSession();
  const { data } = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list() });
  const own = data?.domains.find(({ status }) => status === 'verified')?.domain;
  if (data && !own)
    return (
      <Empty title={title} words={`${words} No domain is verified yet.`}>
        <Link href="/start" className="link">
          The steps to a first email
        </Link>
      </Empty>
    );
  return <Empty title={title} words={words} command={firstEmail(session, own)} />;
}
