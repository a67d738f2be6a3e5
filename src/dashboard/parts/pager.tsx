import { ActionIcon } from '@mantine/core';
import { Icon } from '../look/icons.tsx';
import { count } from '../words/format.ts';
import { Empty } from './empty.tsx';
import { VanishingButton } from './vanishing.tsx';

export const pageSize = 25;

/** What to ask the server for, to get this page of a list. */
export const rangeOf = (page: number) => ({ limit: pageSize, offset: (page - 1) * pageSize });

/** Moves between the pages of a list; draws nothing if there is only one. */
export function Pager(props: { page: number; total: number; exact?: boolean; go: (page: number) => void }) {
  const { page, total, exact = true, go } = props;
  const last = Math.max(1, Math.ceil(total / pageSize));
  if (last === 1 && page === 1) return null;
  const from = (page - 1) * pageSize + 1;
  const isPast = from > total && exact;
  return (
    <nav className="pager" aria-label="Pages of this list">
      <span>
        {isPast ? 'none' : `${count(from)}–${count(exact ? Math.min(total, page * pageSize) : page * pageSize)}`} of{' '}
        {count(total)}
        {exact ? '' : ' or more'}
      </span>
      <ActionIcon
        variant="default"
        aria-label="Previous page"
        data-again
        disabled={page === 1}
        onClick={() => go(Math.min(page - 1, exact ? last : page))}
      >
        <Icon name="left" size={14} />
      </ActionIcon>
      <ActionIcon
        variant="default"
        aria-label="Next page"
        data-again
        disabled={page >= last && exact}
        onClick={() => go(page + 1)}
      >
        <Icon name="right" size={14} />
      </ActionIcon>
    </nav>
  );
}

/** Shown instead of rows if the list has some, but none on this page. */
export function PastEnd({ go }: { go: (page: number) => void }) {
  return (
    <Empty title="This page is empty" words="The list has become shorter, or the address was mistyped.">
      <VanishingButton to=".table-box" onClick={() => go(1)}>
        Go to the first page
      </VanishingButton>
    </Empty>
  );
}
