import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { EventType } from '../../../client/index.ts';
import { api } from '../../data/api.ts';
import { Failed } from '../../parts/failure.tsx';
import { FirstFew } from '../../parts/first-few.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { count } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** Events that each recipient of an email has. */
const aboutOne = new Set<string>([
  'email.sent',
  'email.delayed',
  'email.uncertain',
  'email.bounced',
  'email.complained',
  'email.unsubscribed',
] satisfies EventType[]);

const atATime = 100;

/** The webhooks that were called for an email. */
export function EmailWebhooks({ id }: { id: string }) {
  const query = useInfiniteQuery({
    queryKey: ['deliveries', 'of', id],
    queryFn: ({ pageParam: offset }) => api.webhookDeliveries.list({ email_id: id, limit: atATime, offset }),
    initialPageParam: 0,
    getNextPageParam: ({ count: all }, _, offset) => (offset + atATime < all ? offset + atATime : null),
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ deliveries }) => deliveries.some(({ status }) => status === 'pending')) ? 3_000 : false,
  });
  const all = query.data?.pages.at(-1)?.count;
  const webhooks = useQuery({
    queryKey: ['webhooks'],
    queryFn: () => api.webhooks.list(),
    enabled: all !== undefined && all > 0,
  });
  const urls = new Map(webhooks.data?.webhooks.map((webhook) => [webhook.id, webhook.url]));
  // A call that is made while the pages are asked for moves the others on, and the last of one page begins the next.
  const byId = new Map(query.data?.pages.flatMap(({ deliveries }) => deliveries.map((one) => [one.id, one])));
  return (
    <Panel title={all === undefined ? 'Webhooks' : `Webhooks (${count(all)})`}>
      <Failed query={query} />
      {all === 0 && (
        <div className="body dim" style={{ fontSize: 13 }}>
          No webhook was called for this email.{' '}
          <Link href="/webhooks" className="link">
            Set up a webhook
          </Link>
        </div>
      )}
      <FirstFew
        lines={[...byId.values()].map((delivery) => (
          <div className="recipient" key={delivery.id}>
            <div className="line">
              <Status value={delivery.status} />
              <Link href={`/webhooks/${delivery.webhook_id}?delivery=${delivery.id}`} className="link">
                {delivery.event}
              </Link>
              {delivery.recipient && aboutOne.has(delivery.event) && (
                <span className="soft wrap-anywhere" title={delivery.recipient}>
                  {inOwnLetters(delivery.recipient)}
                </span>
              )}
              <span className="dim">{delivery.attempts.at(-1)?.response_status}</span>
              <span className="dim" style={{ marginLeft: 'auto' }}>
                <Moment at={delivery.created_at} />
              </span>
            </div>
            {delivery.attempts.at(-1)?.response_status === null && (
              <div className="dim wrap-anywhere">{delivery.attempts.at(-1)?.error}</div>
            )}
            {urls.has(delivery.webhook_id) && (
              <div className="dim wrap-anywhere">at {urls.get(delivery.webhook_id)}</div>
            )}
          </div>
        ))}
      />
      {query.hasNextPage && (
        <div className="dim" style={{ padding: '0 14px 10px', fontSize: 13 }}>
          Those are the latest {count(byId.size)}.{' '}
          <Button
            variant="default"
            size="compact-xs"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Load earlier ones
          </Button>
        </div>
      )}
    </Panel>
  );
}
