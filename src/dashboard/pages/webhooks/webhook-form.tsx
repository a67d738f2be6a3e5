import { Checkbox } from '@mantine/core';
import { useState } from 'react';
import type { EventType } from '../../../client/index.ts';
import { useOutliving } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { useAction } from '../../parts/action.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { ShownOnce } from '../../parts/shown-once.tsx';

const events: [name: EventType, words: string][] = [
  ['email.queued', 'accepted, and on its way'],
  ['email.sent', 'one recipient has it'],
  ['email.delivered', 'all recipients have it'],
  ['email.delayed', 'a server said “later”'],
  ['email.failed', 'it failed for good'],
  ['email.suppressed', 'not sent, or not to all: a recipient is suppressed'],
  ['email.uncertain', 'it may have arrived'],
  ['email.bounced', 'it came back later'],
  ['email.complained', 'its reader reported it as spam'],
  ['email.unsubscribed', 'its reader unsubscribed'],
];

export const eventTypes = events.map(([name]) => name);

const usual: EventType[] = ['email.delivered', 'email.failed', 'email.bounced', 'email.complained'];

export function EventChoice({ value, change }: { value: EventType[]; change: (value: EventType[]) => void }) {
  return (
    <Checkbox.Group label="Call it when an email is" value={value} onChange={change} mt="sm">
      <div style={{ display: 'grid', gridTemplateColumns: '1fr 1fr', gap: '8px 16px', marginTop: 8 }}>
        {events.map(([name, words]) => (
          <Checkbox key={name} size="xs" value={name} label={name.replace('email.', '')} description={words} />
        ))}
      </div>
    </Checkbox.Group>
  );
}

/** The secret of a webhook, in a dialog that `stays`. */
export function Secret({ secret, close }: { secret: string; close: () => void }) {
  return (
    <ShownOnce
      words="Calls are signed with this secret. It is shown only once; you can create another one at any time."
      text={secret}
      what="the secret"
      remedy="create a new one on the webhook’s page"
      close={close}
    />
  );
}

export function NewWebhook({ close }: { close: () => void }) {
  const [{ chosen = usual }, setChosen] = useOutliving<{ chosen: EventType[] }>('events of a new webhook');
  const [secret, setSecret] = useState<string | null>(null);
  const create = useAction(
    (url: string) => api.webhooks.create({ url, events: chosen }),
    null,
    ({ secret: made }) => setSecret(made),
  );
  return (
    <Dialog
      close={close}
      stays={secret !== null || create.isPending}
      size="lg"
      title={secret ? 'Keep this secret now' : 'Add a webhook'}
    >
      {secret ? (
        <Secret secret={secret} close={close} />
      ) : (
        <Form
          action={create}
          keeps="a new webhook"
          submit={(fields) => create.mutate(String(fields.get('url')).trim())}
        >
          <TextField
            name="url"
            label="Address"
            placeholder="https://example.com/hooks"
            size="sm"
            required
            data-autofocus
          />
          <EventChoice value={chosen} change={(names) => setChosen({ chosen: names })} />
          <Submit action={create} disabled={chosen.length === 0}>
            Add
          </Submit>
        </Form>
      )}
    </Dialog>
  );
}
