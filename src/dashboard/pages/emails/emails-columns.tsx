import { Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { Link } from 'wouter';
import type { ListedEmail } from '../../../client/index.ts';
import { api } from '../../data/api.ts';
import type { Column } from '../../parts/data-table.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Status, Tags } from '../../parts/status.tsx';
import { count, isForLater, shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

export type Row = ListedEmail & { account_id?: string };

/** How many recipients there are besides the one shown. */
const others = ({ recipient_count: recipients }: Row) =>
  recipients > 1 && <span className="dim"> +{count(recipients - 1)}</span>;

/** Operators see emails of other accounts in the list, but only the owners can open them. */
export const recipient = (hrefOf: (row: Row) => string | null): Column<Row> => ({
  id: 'to',
  header: 'To',
  cell: (row) => {
    const href = hrefOf(row);
    const words = (
      <span className="cut wide with-more" title={row.to}>
        <span>{inOwnLetters(row.to)}</span>
        {others(row)}
      </span>
    );
    return href === null ? (
      words
    ) : (
      <Link href={href} className="row-link" data-row>
        {words}
      </Link>
    );
  },
});

export const account: Column<Row> = {
  id: 'account',
  header: 'Account',
  cell: ({ account_id: id = '' }) => <AccountName id={id} />,
};

/** An account, for its name; only for operators. @param id undefined: none is asked for */
export const useAccount = (id: string | undefined) =>
  useQuery({
    queryKey: ['accounts', 'one', id],
    queryFn: () => api.admin.accounts.get(id ?? ''),
    staleTime: 300_000,
    enabled: id !== undefined,
  });

function AccountName({ id }: { id: string }) {
  const { data } = useAccount(id);
  return (
    <span className="cut soft" dir="auto" title={id}>
      {data?.account.name ?? '…'}
    </span>
  );
}

/** What came back, in the words of the events. */
const returnedAs = { bounce: 'bounced', delay: 'delayed', complaint: 'complained', unsubscribe: 'unsubscribed' };

export const columns: Column<Row>[] = [
  {
    id: 'status',
    header: 'Status',
    kind: 'narrow',
    plain: true,
    cell: (row) => {
      const { status, error, returned, held, scheduled_at: later } = row;
      if (later && isForLater(row))
        return (
          <>
            <Status value="scheduled" />{' '}
            <span className="soft">
              <Moment at={later} ahead />
            </span>
          </>
        );
      const shown = [status, ...(held ? ['held'] : []), ...returned.map((kind) => returnedAs[kind])].map((value) => (
        <Fragment key={value}>
          <Status value={value} />{' '}
        </Fragment>
      ));
      return error ? (
        <Tooltip label={error.slice(0, 300)} multiline maw={420}>
          <span>{shown}</span>
        </Tooltip>
      ) : (
        shown
      );
    },
  },
  {
    id: 'subject',
    header: 'Subject',
    plain: true,
    cell: ({ subject }) => (
      <span className="cut wide" dir="auto" title={subject}>
        {shownSubject(subject)}
      </span>
    ),
  },
  {
    id: 'from',
    header: 'From',
    spare: true,
    cell: ({ from }) => (
      <span className="cut soft" dir="auto" title={from}>
        {inOwnLetters(from)}
      </span>
    ),
  },
  {
    id: 'tags',
    header: 'Tags',
    spare: true,
    cell: ({ tags }) =>
      tags.length > 0 && (
        <span className="cut several">
          <Tags tags={tags.slice(0, 3)} />
        </span>
      ),
  },
  {
    id: 'created',
    header: 'Accepted',
    kind: 'narrow',
    cell: ({ created_at }) => (
      <span className="soft">
        <Moment at={created_at} />
      </span>
    ),
  },
];
