import { Button, Group, Modal, Text } from '@mantine/core';
import { useUnsaved } from '../leaving.ts';

/** On a page with something unsaved: asks whoever goes elsewhere. */
export function AskBeforeLeaving({ unsaved, what }: { unsaved: boolean; what: string }) {
  const { go, stay } = useUnsaved(unsaved);
  return (
    <Modal
      opened={go !== null}
      onClose={stay}
      title="Leave without saving?"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Text size="sm" mb="lg">
        {what} was changed, and is not saved.
      </Text>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={stay} data-autofocus>
          Stay
        </Button>
        <Button color="red" onClick={() => go?.()}>
          Leave
        </Button>
      </Group>
    </Modal>
  );
}
