import { Skeleton } from '@mantine/core';
import { type ColumnDef, type RowData, tableFeatures, useTable } from '@tanstack/react-table';
import type { MouseEvent, ReactNode } from 'react';
import { useLocation } from 'wouter';

const features = tableFeatures({});

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

interface Props<Row extends RowData> {
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

export function DataTable<Row extends RowData>({ label, columns, rows, idOf, hrefOf, empty }: Props<Row>) {
  const [, navigate] = useLocation();
  const definitions = columns.map(
    ({ id, header, cell }): ColumnDef<typeof features, Row> => ({
      id,
      header,
      cell: ({ row }) => cell(row.original),
    }),
  );
  const table = useTable({ features, columns: definitions, data: rows ?? none, getRowId: idOf });
  if (rows?.length === 0) return <div className="table-box">{empty}</div>;
  const byId = new Map(columns.map((column) => [column.id, column]));
  const classOf = (id: string) => {
    const { kind, spare } = byId.get(id) ?? {};
    return [kind === 'acts' && 'narrow', kind, spare && 'spare'].filter(Boolean).join(' ') || undefined;
  };
  // Of the first cell nobody needs to be told.
  const labelOf = (id: string) => {
    const { header, plain } = byId.get(id) ?? {};
    return plain || id === columns[0]?.id ? undefined : header;
  };
  const open = (row: Row) => (event: MouseEvent) => {
    const isControl = (event.target as HTMLElement).closest('a, button, input, select, label');
    const href = hrefOf?.(row) ?? null;
    if (href !== null && !isControl && getSelection()?.isCollapsed !== false) navigate(href);
  };
  return (
    <div className="table-box">
      <table className="rows" aria-label={label} aria-busy={rows === undefined}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => (
                <th key={header.id} scope="col" className={classOf(header.column.id)}>
                  <table.FlexRender header={header} />
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {rows === undefined && <WaitingRows columns={columns.length} />}
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id} className={hrefOf?.(row.original) ? 'open' : undefined} onClick={open(row.original)}>
              {row.getAllCells().map((cell) => (
                <td key={cell.id} className={classOf(cell.column.id)} data-label={labelOf(cell.column.id)}>
                  <table.FlexRender cell={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const none: never[] = [];

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
