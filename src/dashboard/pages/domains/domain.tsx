import { Button, Group, NativeSelect } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useLocation, useParams } from 'wouter';
import { type Checks, type Domain, SendwrightError, type VerificationError } from '../../../client/index.ts';
import { api, isUnshown, queries, whileThere } from '../../data/api.ts';
import { Confirmed, tell, tellFailure, useAction } from '../../parts/action.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Unshown, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { inOwnLetters } from '../../words/own-letters.ts';
import { DkimKeys } from './domain-keys.tsx';
import { type NamedRecord, Records, zoneFile } from './domain-records.tsx';
import { isSought } from './domain-standing.ts';

/**
 * Returns what was found, sufficient or not; any other failure is thrown. Looks first, because a refused verification is an
 * error in the browser's console.
 */
async function lookUp(id: string): Promise<{ ok: boolean; checks: Checks }> {
  try {
    const { checks: found, ...read } = await api.domains.lookUp(id);
    const isRight = found !== undefined && Object.values(found).every(({ ok }) => ok);
    // Verification also lets a pending key sign, whose record may have replaced that of the key before it.
    const isPending = read.dkim_keys.some(({ status }) => status === 'pending');
    if (found && !isRight && !isPending) {
      queries.setQueryData(['domains', id], read);
      return { ok: false, checks: found };
    }
    const { checks, ...verified } = await api.domains.verify(id);
    queries.setQueryData(['domains', id], verified);
    return { ok: true, checks };
  } catch (error) {
    if (!(error instanceof SendwrightError) || error.error !== 'dns verification failed') {
      // It may have been removed meanwhile.
      void queries.invalidateQueries({ queryKey: ['domains', id] });
      throw error;
    }
    return { ok: false, checks: (error.body as unknown as VerificationError).checks };
  }
}

/** One domain: its records, what is published, and its keys. */
export function DomainPage() {
  const { id = '' } = useParams<{ id: string }>();
  const [, navigate] = useLocation();
  const query = useQuery({ queryKey: ['domains', id], queryFn: () => api.domains.get(id) });
  const { data } = query;
  // Whoever opens this page, or comes back to it from their DNS provider, wants to know. The answer has the domain as well.
  const found = useQuery({
    queryKey: ['records', id],
    queryFn: () => lookUp(id),
    enabled: data !== undefined,
    refetchInterval: whileThere((known) => !known?.ok && 30_000),
  });
  const check = useMutation({
    mutationFn: () => found.refetch({ throwOnError: true }),
    onSuccess: ({ data: known }) =>
      tell(known?.ok ? 'All three records are right.' : 'Not yet: each record shows what was found.'),
    onError: tellFailure,
  });
  const back = { href: '/domains', name: 'Domains' };
  if (isUnshown(query))
    return <Unshown kind="Domain" name={data && inOwnLetters(data.domain.domain)} back={back} query={query} />;
  if (!data) return <Waiting bars={7} />;
  const { domain, dns_records: records } = data;
  // The record of a key stands with its state, and what is wrong with it, under the keys.
  const ofKeys = new Set(data.dkim_keys.map(({ record }) => record.name));
  const recommended = data.recommended_records.filter(({ name: one }) => !ofKeys.has(one));
  const name = inOwnLetters(domain.domain);
  const checks = found.data?.checks;
  const required: NamedRecord[] = [
    { purpose: 'Proves that the domain is yours.', check: checks?.verification, ...records.verification },
    { purpose: 'The key that receivers check signatures with (DKIM).', check: checks?.dkim, ...records.dkim },
    { purpose: 'Says that this server may send for it (SPF).', check: checks?.spf, ...records.spf },
  ];
  return (
    <>
      <PageHead
        title={name}
        back={back}
        words={
          <>
            {name !== domain.domain && (
              <>
                <span className="mono wrap-anywhere">{domain.domain}</span>{' '}
                <Copy text={domain.domain} what="the name in ASCII" />
                <br />
              </>
            )}
            <Status value={domain.status} />{' '}
            {domain.verified_at ? (
              <Moment at={domain.verified_at} lasting />
            ) : isSought(domain, data.dkim_keys) ? (
              'Its records are checked automatically, less and less often, for two days. You can also check them now.'
            ) : (
              'Its records were not found within two days. From now on they are checked only while this page is open.'
            )}
            {domain.dns_warning && <span style={{ color: 'var(--bad)' }}> {domain.dns_warning}</span>}
          </>
        }
        actions={
          <Group gap={6} wrap="nowrap">
            <Button loading={check.isPending} onClick={() => check.mutate()}>
              Check the records now
            </Button>
            <Confirmed
              name="Remove"
              words={`${name} can no longer send, and its queued emails fail.`}
              act={() => api.domains.remove(id)}
              done={`${name} was removed.`}
              then={() => navigate('/domains')}
            />
          </Group>
        }
      />
      <Records title="DNS records to publish" records={required} zone={zoneFile(required)} />
      {recommended.length > 0 && <Records title="Recommended" records={recommended} zone={zoneFile(recommended)} />}
      <DkimKeys domainId={id} keys={data.dkim_keys} />
      <Ways domain={domain} />
    </>
  );
}

function Ways({ domain }: { domain: Domain }) {
  const change = useAction(
    (tls: Domain['tls']) => api.domains.change(domain.id, { tls }),
    'Changed. It also applies to queued mail.',
  );
  return (
    <Panel title="TLS">
      <div className="body">
        <NativeSelect
          label="Minimum for all mail from this domain"
          maw={420}
          // Show the choice while it is being saved.
          value={change.isPending ? change.variables : domain.tls}
          disabled={change.isPending}
          data={[
            { value: 'opportunistic', label: 'opportunistic: encrypted if possible' },
            { value: 'required', label: 'required: waits rather than send unencrypted' },
            { value: 'verified', label: 'verified: waits for a valid certificate too' },
          ]}
          onChange={({ currentTarget }) => change.mutate(currentTarget.value as Domain['tls'])}
        />
      </div>
    </Panel>
  );
}
