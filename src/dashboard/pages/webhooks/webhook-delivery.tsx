import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api, isUnshown } from '../../data/api.ts';
import { useAction } from '../../parts/action.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { PlainText } from '../../parts/preview.tsx';
import { Status } from '../../parts/status.tsx';
import { duration, exact } from '../../words/format.ts';

/** One call of an endpoint: its attempts, what was sent, and the way to repeat it. */
export function Delivery({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['deliveries', 'one', id],
    queryFn: () => api.webhookDeliveries.get(id),
    refetchInterval: ({ state }) => (state.data?.delivery.status === 'pending' ? 1_500 : false),
  });
  const { data } = query;
  const retry = useAction(() => api.webhookDeliveries.retry(id), 'It is called again now.');
  if (isUnshown(query)) return <Failed query={query} isBelow={false} />;
  if (!data) return <Waiting />;
  const { delivery } = data;
  return (
    <>
      <Group mb="md">
        <Status value={delivery.status} />
        <b>{delivery.event}</b>
        {delivery.email_id && (
          <Link href={`/emails/${delivery.email_id}`} className="link">
            The email
          </Link>
        )}
        {delivery.next_attempt_at && (
          <span className="dim">
            next try <Moment at={delivery.next_attempt_at} ahead="try" />
          </span>
        )}
        <Button ml="auto" variant="default" loading={retry.isPending} onClick={() => retry.mutate(undefined)}>
          Call again
        </Button>
      </Group>
      {delivery.error && <p style={{ color: 'var(--bad)' }}>{delivery.error}</p>}
      <Panel title={`Attempts (${delivery.attempts.length})`}>
        {delivery.attempts.toReversed().map((attempt) => (
          <div className="attempt" key={attempt.at}>
            <div className="line">
              <Status
                value={attempt.response_status ? String(attempt.response_status) : 'no answer'}
                tone={attempt.response_status && attempt.response_status < 300 ? 'good' : 'bad'}
              />
              <span className="dim moment" title={exact(new Date(attempt.at))}>
                <Moment at={attempt.at} /> · {duration(attempt.duration_ms)}
              </span>
            </div>
            {(attempt.error || attempt.response_body) && (
              <div className="reply">{attempt.error ?? attempt.response_body}</div>
            )}
          </div>
        ))}
      </Panel>
      <Panel title="Request body">
        <PlainText text={JSON.stringify(delivery.payload, null, 2)} />
      </Panel>
    </>
  );
}
