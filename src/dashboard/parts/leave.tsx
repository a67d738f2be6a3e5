import { Button, Group, Text } from '@mantine/core';
import { useUnsaved } from '../browser/leaving.ts';
import { Dialog } from './dialog.tsx';

/** Asks before the user leaves a page with unsaved changes. */
export function AskBeforeLeaving({ unsaved, what }: { unsaved: boolean; what: string }) {
  const { go, stay } = useUnsaved(unsaved);
  if (!go) return null;
  return (
    <Dialog close={stay} title="Leave without saving?">
      <Text size="sm" mb="lg">
        {what} was changed, and is not saved.
      </Text>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={stay} data-autofocus>
          Stay
        </Button>
        <Button color="red" onClick={go}>
          Leave
        </Button>
      </Group>
    </Dialog>
  );
}
