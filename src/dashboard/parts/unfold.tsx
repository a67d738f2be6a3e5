import { Button } from '@mantine/core';

/** Shows more and less of what stands beside it. @param props.words what a press does */
export function Unfold({ open, set, words }: { open: boolean; set: (open: boolean) => void; words: string }) {
  return (
    <Button variant="subtle" color="gray" size="compact-xs" ml={-8} aria-expanded={open} onClick={() => set(!open)}>
      {words}
    </Button>
  );
}
