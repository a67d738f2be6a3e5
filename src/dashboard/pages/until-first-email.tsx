import { useQuery } from '@tanstack/react-query';
import { api } from '../api.ts';
import { firstEmail } from '../commands.ts';
import { Empty } from '../parts/empty.tsx';
import { useSession } from '../session.ts';

/** Shown where emails will be: how to send one, from a domain of this account. */
export function UntilFirstEmail({ title, words }: { title: string; words: string }) {
  const { service } = useSession();
  const { data } = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list() });
  const own = data?.domains.find(({ status }) => status === 'verified')?.domain;
  return <Empty title={title} words={words} command={firstEmail(service.base_url, own ?? 'your-domain.example')} />;
}
