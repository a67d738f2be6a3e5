import { Button } from '@mantine/core';
import { useState } from 'react';
import { useIsBack } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { useAction } from '../../parts/action.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { forField } from '../../words/format.ts';

const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();

/** Moves an email that waits for its scheduled time to another time. */
export function ChangeTime(props: { id: string; at: string }) {
  const [open, setOpen] = useState(useIsBack(`time of ${props.id}`));
  return (
    <>
      <Button variant="default" onClick={() => setOpen(true)}>
        Change the time
      </Button>
      {open && <NewTime {...props} close={() => setOpen(false)} />}
    </>
  );
}

function NewTime({ id, at, close }: { id: string; at: string; close: () => void }) {
  const move = useAction(
    (time: string) => api.emails.reschedule(id, { scheduled_at: new Date(time).toISOString() }),
    'Changed.',
    close,
  );
  return (
    <Dialog close={close} title="Change the time">
      <Form action={move} keeps={`time of ${id}`} submit={(fields) => move.mutate(String(fields.get('scheduled_at')))}>
        <TextField
          name="scheduled_at"
          type="datetime-local"
          label="Send it at"
          description={`In your time zone, ${timeZone}.`}
          size="sm"
          defaultValue={forField(new Date(at))}
          required
          data-autofocus
        />
        <Submit action={move}>Save</Submit>
      </Form>
    </Dialog>
  );
}
