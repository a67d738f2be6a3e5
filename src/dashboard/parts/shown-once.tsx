import { Button, Group } from '@mantine/core';

/** For the dialog of what is shown once: neither a key nor a click beside it closes it. */
export const stays = { closeOnEscape: false, closeOnClickOutside: false } as const;

/** The way out of it. */
export function Kept({ close }: { close: () => void }) {
  return (
    <Group justify="flex-end" mt="md">
      <Button onClick={close}>I have kept it</Button>
    </Group>
  );
}
