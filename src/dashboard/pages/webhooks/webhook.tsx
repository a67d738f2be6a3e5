import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation, useParams } from 'wouter';
import type { EventType, Webhook } from '../../../client/index.ts';
import { useOutliving } from '../../browser/interrupted.ts';
import { api, isUnshown, queries, whileThere } from '../../data/api.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Unshown, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { exact, plural } from '../../words/format.ts';
import { Deliveries } from './webhook-deliveries.tsx';
import { EventChoice, eventTypes, Secret } from './webhook-form.tsx';

/** One endpoint: the events it is called for, and every call. */
export function WebhookPage() {
  const { id = '' } = useParams<{ id: string }>();
  const [, navigate] = useLocation();
  const query = useQuery({
    queryKey: ['webhooks', id],
    queryFn: () => api.webhooks.get(id),
    refetchInterval: whileThere(() => 15_000),
  });
  const { data } = query;
  const test = useAction(
    () => api.webhooks.test(id),
    ({ delivery }) => {
      const last = delivery.attempts.at(-1);
      const said = last?.response_status ? `it answered ${last.response_status}` : (last?.error ?? 'no answer yet');
      return `The test call ${delivery.status}: ${said}.`;
    },
  );
  const back = { href: '/webhooks', name: 'Webhooks' };
  if (isUnshown(query)) return <Unshown kind="Webhook" name={data?.webhook.url} back={back} query={query} />;
  if (!data) return <Waiting bars={7} />;
  const { webhook } = data;
  return (
    <>
      <PageHead
        title={webhook.url}
        back={back}
        words={<Standing webhook={webhook} />}
        actions={
          <Group gap={6} wrap="nowrap">
            <Button
              variant="default"
              disabled={webhook.status === 'disabled'}
              loading={test.isPending}
              onClick={() => test.mutate(undefined)}
            >
              Send a test call
            </Button>
            <Toggle webhook={webhook} />
            <Confirmed
              name="Remove"
              words="It is no longer called, and its calls are deleted."
              act={() => api.webhooks.remove(id)}
              done="The webhook was removed."
              then={() => navigate('/webhooks')}
            />
          </Group>
        }
      />
      <Deliveries webhook={webhook} />
      <Events webhook={webhook} />
      <NewSecret id={id} />
    </>
  );
}

function Standing({ webhook }: { webhook: Webhook }) {
  const { status, disabled_reason: reason, failing_since: since, events } = webhook;
  return (
    <>
      <Status value={status} /> {reason}
      {!reason && since && (
        <span style={{ color: 'var(--bad)' }}>
          every call has failed since {exact(new Date(since))} (<Moment at={since} lasting />)
        </span>
      )}
      {!reason && !since && `called for ${plural(events.length, 'event')}`}
    </>
  );
}

function Toggle({ webhook }: { webhook: Webhook }) {
  const other = webhook.status === 'enabled' ? 'disabled' : 'enabled';
  const change = useAction(
    () => api.webhooks.update(webhook.id, { status: other }),
    other === 'enabled' ? 'It is called again.' : 'It is no longer called.',
  );
  return (
    <Button variant="default" loading={change.isPending} onClick={() => change.mutate(undefined)}>
      {other === 'enabled' ? 'Enable' : 'Disable'}
    </Button>
  );
}

function Events({ webhook }: { webhook: Webhook }) {
  const isSaved = (name: EventType) => webhook.events.includes(name);
  // Holds only the boxes changed here: other people's saved changes appear, and are not undone.
  const [ticked, setTicked] = useOutliving<Record<EventType, boolean>>(`events of ${webhook.id}`);
  const chosen = eventTypes.filter((name) => ticked[name] ?? isSaved(name));
  const choose = (names: EventType[]) => {
    const changed = eventTypes.filter((name) => names.includes(name) !== isSaved(name));
    setTicked(Object.fromEntries(changed.map((name) => [name, names.includes(name)])));
  };
  const save = useAction(
    () => api.webhooks.update(webhook.id, { events: chosen }),
    'Saved.',
    (saved) => {
      queries.setQueryData(['webhooks', webhook.id], saved);
      setTicked({});
    },
  );
  const isSame = chosen.length === webhook.events.length && chosen.every(isSaved);
  return (
    <Panel title="Events">
      <div className="body">
        <EventChoice value={chosen} change={choose} />
        <Button
          mt="md"
          disabled={isSame || chosen.length === 0}
          loading={save.isPending}
          onClick={() => save.mutate(undefined)}
        >
          Save
        </Button>
      </div>
    </Panel>
  );
}

function NewSecret({ id }: { id: string }) {
  const [secret, setSecret] = useState<string | null>(null);
  const rotate = useAction(
    () => api.webhooks.rotateSecret(id),
    null,
    ({ secret: made }) => setSecret(made),
  );
  return (
    <Panel title="Secret">
      <div className="body soft" style={{ fontSize: 13 }}>
        <p style={{ marginTop: 0 }}>
          Signs the calls. It was shown once, when it was created. For 24 hours after you create a new one, calls are
          signed with both.
        </p>
        <Button variant="default" loading={rotate.isPending} onClick={() => rotate.mutate(undefined)}>
          Create a new secret
        </Button>
      </div>
      {secret !== null && (
        <Dialog close={() => setSecret(null)} stays title="Keep this secret now" size="lg">
          <Secret secret={secret} close={() => setSecret(null)} />
        </Dialog>
      )}
    </Panel>
  );
}
