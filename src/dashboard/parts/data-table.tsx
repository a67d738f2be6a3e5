import { Skeleton } from '@mantine/core';
import { type MouseEvent, type ReactNode, useEffect, useRef } from 'react';
import { useLocation } from 'wouter';

/** A column: its header, and its cell for one row. */
export interface Column<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** Numbers are right-aligned; narrow columns, such as buttons, take only the room that they need. */
  kind?: 'number' | 'narrow' | 'acts';
  /** Left out on screens that are too narrow for columns. */
  spare?: true;
  /** Its values explain themselves, as a status does: without columns it needs no label. */
  plain?: true;
}

export interface TableProps<Row> {
  /** What the table lists, for screen readers. */
  label: string;
  columns: Column<Row>[];
  /** Undefined: not known yet. */
  rows: Row[] | undefined;
  idOf: (row: Row) => string;
  /** Where a row leads; null: nowhere. Its first cell should have the same link, for the keyboard. */
  hrefOf?: (row: Row) => string | null;
  /** Shown when there are no rows. */
  empty: ReactNode;
}

const classOf = <Row,>({ kind, spare }: Column<Row>) =>
  [kind === 'acts' && 'narrow', kind, spare && 'spare'].filter(Boolean).join(' ') || undefined;

/** A table of a page's rows. When refetched, rows keep their identity, including an open question and the focus. */
export function DataTable<Row>({ label, columns, rows, idOf, hrefOf, empty }: TableProps<Row>) {
  const [, navigate] = useLocation();
  const box = useRef<HTMLDivElement>(null);
  /** The row that last had the focus, including its dialog. */
  const visited = useRef<string>(null);
  useEffect(() => {
    // If the focused row disappears, the browser would move the focus to the top of the page.
    if (rows === undefined || visited.current === null || document.activeElement !== document.body) return;
    if (rows.some((row) => idOf(row) === visited.current)) return;
    visited.current = null;
    box.current?.focus({ preventScroll: true });
  }, [rows, idOf]);
  if (rows?.length === 0)
    return (
      <div className="table-box" ref={box} tabIndex={-1}>
        {empty}
      </div>
    );
  const open = (row: Row) => (event: MouseEvent) => {
    const isControl = (event.target as HTMLElement).closest('a, button, input, select, label');
    const href = hrefOf?.(row) ?? null;
    if (href !== null && !isControl && getSelection()?.isCollapsed !== false) navigate(href);
  };
  return (
    <div className="table-box" ref={box} tabIndex={-1}>
      <table className="rows" aria-label={label} aria-busy={rows === undefined}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" className={classOf(column)}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows === undefined && <WaitingRows columns={columns.length} />}
          {rows?.map((row) => (
            <tr
              key={idOf(row)}
              className={hrefOf?.(row) ? 'open' : undefined}
              onClick={open(row)}
              onFocus={() => {
                visited.current = idOf(row);
              }}
              onBlur={() => {
                visited.current = null;
              }}
            >
              {columns.map((column, index) => (
                <td
                  key={column.id}
                  className={classOf(column)}
                  // The first cell needs no label.
                  data-label={column.plain || index === 0 ? undefined : column.header}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function WaitingRows({ columns }: { columns: number }) {
  return Array.from({ length: 8 }, (_, row) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
    <tr key={row}>
      {Array.from({ length: columns }, (_, column) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <td key={column}>
          <Skeleton height={12} my={4} width={`${85 - 12 * ((row + column) % 4)}%`} />
        </td>
      ))}
    </tr>
  ));
}
