import { Skeleton } from '@mantine/core';
import { type MouseEvent, type ReactNode, useEffect, useRef } from 'react';
import { useLocation } from 'wouter';

/** A column: what stands above it, and in it for one row. */
export interface Column<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** Numbers stand to the right; what is narrow, as buttons are, takes no more room than it needs. */
  kind?: 'number' | 'narrow' | 'acts';
  /** Left out where there is no room for columns. */
  spare?: true;
  /** It says by itself what it is, as a status does: there is no need of its header where that does not stand above it. */
  plain?: true;
}

interface Props<Row> {
  /** What the table lists, for those who do not see it. */
  label: string;
  columns: Column<Row>[];
  /** Undefined: not known yet. */
  rows: Row[] | undefined;
  idOf: (row: Row) => string;
  /** Where a row leads, null: nowhere; its first cell should have the same link, which the keyboard goes to. */
  hrefOf?: (row: Row) => string | null;
  /** Shown instead of no rows. */
  empty: ReactNode;
}

const classOf = <Row,>({ kind, spare }: Column<Row>) =>
  [kind === 'acts' && 'narrow', kind, spare && 'spare'].filter(Boolean).join(' ') || undefined;

/**
 * Rows of what a page lists. Asked for again they stay what they are, with a question that one of them has open, and with
 * the keyboard's place.
 */
export function DataTable<Row>({ label, columns, rows, idOf, hrefOf, empty }: Props<Row>) {
  const [, navigate] = useLocation();
  const box = useRef<HTMLDivElement>(null);
  /** The row that had the keyboard last, be it in a dialog of its own. */
  const visited = useRef<string>(null);
  useEffect(() => {
    // A row that is gone would leave the keyboard at the top of the page.
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
                  // Of the first cell nobody needs to be told.
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
