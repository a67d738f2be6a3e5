import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { EventType } from '../../client/index.ts';
import { api } from '../api.ts';
import { Failed } from '../parts/failure.tsx';
import { FirstFew } from '../parts/first-few.tsx';
import { Moment } from '../parts/moment.tsx';
import { Panel } from '../parts/page.tsx';
import { Status } from '../parts/status.tsx';

/** Events that each recipient of an email has. */
const aboutOne = new Set<string>([
  'email.sent',
  'email.delayed',
  'email.uncertain',
  'email.bounced',
  'email.complained',
  'email.unsubscribed',
] satisfies EventType[]);

/** The webhooks that were called for an email. */
export function EmailWebhooks({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['deliveries', 'of', id],
    queryFn: () => api.webhookDeliveries.list({ email_id: id, limit: 100 }),
    refetchInterval: ({ state }) => (state.data?.deliveries.some(({ status }) => status === 'pending') ? 3_000 : false),
  });
  const { data } = query;
  return (
    <Panel title={data ? `Webhooks (${data.count})` : 'Webhooks'}>
      <Failed query={query} />
      {data?.count === 0 && (
        <div className="body dim" style={{ fontSize: 13 }}>
          No webhook was called for this email.{' '}
          <Link href="/webhooks" className="link">
            Set up a webhook
          </Link>
        </div>
      )}
      <FirstFew
        lines={(data?.deliveries ?? []).map((delivery) => (
          <div className="recipient" key={delivery.id}>
            <div className="line">
              <Status value={delivery.status} />
              <Link href={`/webhooks/${delivery.webhook_id}?delivery=${delivery.id}`} className="link">
                {delivery.event}
              </Link>
              {delivery.recipient && aboutOne.has(delivery.event) && (
                <span className="soft wrap-anywhere">{delivery.recipient}</span>
              )}
              <span className="dim">
                {delivery.attempts.at(-1)?.response_status ?? delivery.attempts.at(-1)?.error}
              </span>
              <span className="dim" style={{ marginLeft: 'auto' }}>
                <Moment at={delivery.created_at} />
              </span>
            </div>
          </div>
        ))}
      />
    </Panel>
  );
}
