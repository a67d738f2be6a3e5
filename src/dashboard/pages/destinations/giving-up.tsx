import { Button, Group, NativeSelect, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Destination } from '../../../client/index.ts';
import { workToItsEnd } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { Pace } from '../../data/pace.ts';
import { useAction } from '../../parts/action.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Known } from '../../parts/failure.tsx';
import { Form, TextField } from '../../parts/form.tsx';
import { count, plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

type Waits = Awaited<ReturnType<typeof api.admin.destinations.waiting>>;

/** Before anything is given up; `waits` is not known at first. */
function whatHappens(domain: string, waits: Waits | undefined): string {
  if (domain === '') return 'What waits for the other domains is left alone.';
  if (!waits) return 'Counting…';
  const { waiting, in_hand: inHand, held } = waits;
  const left = [
    inHand > 0 && `${plural(inHand, 'recipient')} being sent to or about to be`,
    held > 0 && `${plural(held, 'recipient')} held for the sender's decision`,
  ].filter(Boolean);
  const what =
    waiting === 0
      ? `Nothing waits for ${inOwnLetters(domain)} that could be given up.`
      : `${plural(waiting, 'recipient')} at ${inOwnLetters(domain)}, of all accounts, will fail for good and will not be tried again. Mail sent there later is not affected.`;
  return left.length > 0 ? `${what} Left alone: ${left.join(', and ')}.` : what;
}

/** Asks for which domain, says how much waits for it, and gives that up. */
export function GiveUp({ destination, close }: { destination: Destination; close: () => void }) {
  // As they were when it was asked: the list behind is asked for every few seconds, and another domain may be the only one by then.
  const [domains] = useState(destination.destinations);
  // Of several none is chosen: whoever presses Enter has said which.
  const [domain, choose] = useState(domains.length === 1 ? (domains[0] ?? '') : '');
  const [pace] = useState(() => new Pace(5_000));
  const action = useAction(
    (reason: string) =>
      workToItsEnd('Not all is given up: press “Give up” again.', () =>
        api.admin.destinations.stop(domain, reason ? { reason } : {}),
      ),
    ({ stopped }) => `${plural(stopped, 'recipient is', 'recipients are')} given up.`,
    close,
  );
  const waits = useQuery({
    queryKey: ['destinations', 'waiting', domain],
    queryFn: () => pace.ask(() => api.admin.destinations.waiting(domain)),
    enabled: domain !== '',
    refetchInterval: () => action.isPending && pace.everyMs,
  });
  const waiting = waits.data?.waiting ?? 0;
  return (
    <Dialog close={close} title="Give up what waits?">
      <Form action={action} submit={(fields) => action.mutate(String(fields.get('reason')).trim())}>
        {domains.length > 1 && (
          <NativeSelect
            label="Domain"
            mb="sm"
            value={domain}
            data={[
              { value: '', label: 'Choose one', disabled: true },
              ...domains.map((value) => ({ value, label: inOwnLetters(value) })),
            ]}
            data-autofocus
            onChange={({ currentTarget }) => choose(currentTarget.value)}
          />
        )}
        <Known query={waits}>
          <Text size="sm" mb="sm" aria-live="polite">
            {action.isPending
              ? `Recipients left: ${count(waiting)}. This goes on if you close this, but not if you close or reload the page.`
              : whatHappens(domain, waits.data)}
          </Text>
        </Known>
        <TextField
          name="reason"
          label="Reason, for the senders"
          description="They see it in their log. It can be empty."
          placeholder="the domain does not exist"
          maxLength={200}
          data-autofocus={domains.length === 1 || undefined}
        />
        <Group justify="flex-end" gap="xs" mt="lg">
          <Button variant="default" onClick={close}>
            {action.isPending ? 'Close' : 'No'}
          </Button>
          <Button type="submit" color="red" loading={action.isPending} disabled={waiting === 0}>
            {waiting > 0 ? `Give up ${count(waiting)}` : 'Give up'}
          </Button>
        </Group>
      </Form>
    </Dialog>
  );
}
