import { pageState } from '../browser/address-state.ts';
import { DataTable, type TableProps } from './data-table.tsx';
import { Known, type Query } from './failure.tsx';
import { Pager, PastEnd, rangeOf } from './pager.tsx';

interface Props<Row> extends TableProps<Row> {
  query: Query<{ count: number; count_exact?: boolean }>;
  page: number;
  change: (state: { page: string | null }) => void;
}

/** One page of a list that the server has, and the way to the others; `empty` is shown if the list has no rows at all. */
export function PagedTable<Row>({ query, page, change, empty, ...table }: Props<Row>) {
  const go = (to: number) => change(pageState(to));
  const total = query.data?.count;
  return (
    <>
      <Known query={query}>
        <DataTable {...table} empty={total ? <PastEnd go={go} /> : empty} />
      </Known>
      {total !== undefined && <Pager page={page} total={total} exact={query.data?.count_exact ?? true} go={go} />}
    </>
  );
}

/** The same for a list that the browser has as a whole: `rows` are those of all its pages. */
export function WholeTable<Row>({ query, page, rows, ...table }: Omit<Props<Row>, 'query'> & { query: Query }) {
  const { error, refetch } = query;
  const { offset, limit } = rangeOf(page);
  return (
    <PagedTable
      {...table}
      query={{ data: rows && { count: rows.length }, error, refetch }}
      page={page}
      rows={rows?.slice(offset, offset + limit)}
    />
  );
}
