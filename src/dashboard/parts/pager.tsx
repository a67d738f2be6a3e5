import { ActionIcon } from '@mantine/core';
import { count } from '../format.ts';
import { Icon } from '../icons.tsx';

export const pageSize = 25;

/** From page to page of a list; nothing where it has one. */
export function Pager(props: { page: number; total: number; exact?: boolean; go: (page: number) => void }) {
  const { page, total, exact = true, go } = props;
  const last = Math.max(1, Math.ceil(total / pageSize));
  if (last === 1 && page === 1) return null;
  const from = (page - 1) * pageSize + 1;
  return (
    <nav className="pager" aria-label="Pages of this list">
      <span>
        {count(from)}–{count(Math.min(total, page * pageSize))} of {count(total)}
        {exact ? '' : ' or more'}
      </span>
      <ActionIcon variant="default" aria-label="Page before" disabled={page === 1} onClick={() => go(page - 1)}>
        <Icon name="left" size={14} />
      </ActionIcon>
      <ActionIcon
        variant="default"
        aria-label="Next page"
        disabled={page >= last && exact}
        onClick={() => go(page + 1)}
      >
        <Icon name="right" size={14} />
      </ActionIcon>
    </nav>
  );
}
