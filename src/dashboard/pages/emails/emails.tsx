import { Group } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useContext, useState } from 'react';
import type { ListEmailsQuery, StopEmailsBody } from '../../../client/index.ts';
import { pageOf, pageState, useAddressState } from '../../browser/address-state.ts';
import { workToItsEnd } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { Connected } from '../../data/live.ts';
import { Pace } from '../../data/pace.ts';
import { useSession } from '../../data/session.ts';
import { Confirmed } from '../../parts/action.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Known } from '../../parts/failure.tsx';
import { ChoiceField, ClearFilters, Found } from '../../parts/filters.tsx';
import { PageHead } from '../../parts/page.tsx';
import { Pager, PastEnd, pageSize, rangeOf } from '../../parts/pager.tsx';
import { VanishingButton } from '../../parts/vanishing.tsx';
import { addressIn, count, plural } from '../../words/format.ts';
import { UntilFirstEmail } from '../sandbox/until-first-email.tsx';
import { OnTheList } from '../suppressions/suppression-standing.tsx';
import { account, columns, type Row, recipient, useAccount } from './emails-columns.tsx';
import { EmailFilters, filtersOf, names, stoppedBy } from './emails-filters.tsx';

/** Just after an email's millisecond, with which its id begins; others of that millisecond are listed again. */
const justAfter = (id: string) => new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16) + 1).toISOString();

/** The delivery log. */
export function Emails() {
  const { user, account: own } = useSession();
  const [state, change] = useAddressState(names);
  const connected = useContext(Connected);
  const page = pageOf(state.page);
  const isAdmin = user.role === 'admin';
  const all = isAdmin && state.accounts !== undefined;
  const one = all && state.accounts !== 'all' ? state.accounts : undefined;
  const sought = addressIn(state.to ?? '');
  const [pace] = useState(() => new Pace(10_000));
  const filters = filtersOf(state, all);
  const query: ListEmailsQuery = { ...filters, ...rangeOf(page) };
  const toStop = all ? null : stoppedBy(filters);
  const list = useQuery({
    queryKey: ['emails', all, one, query],
    queryFn: () =>
      pace.ask(() =>
        all ? api.admin.emails.list({ ...query, ...(one ? { account_id: one } : {}) }) : api.emails.list(query),
      ),
    placeholderData: keepPreviousData,
    // The server reports changes of status in this account, but not that mail is held, nor what other accounts do.
    refetchInterval: () => pace.everyMs,
  });
  const { data } = list;
  const hrefOf = ({ id, account_id: owner = own.id }: Row) => (owner === own.id ? `/emails/${id}` : null);
  const isFiltered = names.some((name) => name !== 'page' && name !== 'accounts' && state[name]);
  // The search found no more than this page shows. If there is a cursor, it has not looked at the older emails.
  const isAllFound = data && (data.emails.length < pageSize || page * pageSize === data.count);
  const furtherBack = isAllFound ? data.next_cursor : null;
  const clear = () =>
    change(Object.fromEntries(names.filter((name) => name !== 'accounts').map((name) => [name, null])));
  return (
    <>
      <PageHead
        title="Emails"
        words="Every email, what happened to it, and why."
        actions={
          <Group gap={12} wrap="nowrap">
            {isAdmin && (
              <WhoseEmails value={state.accounts} one={one} change={(accounts) => change({ accounts, page: null })} />
            )}
            <span className="live-dot dim" data-on={connected} style={{ fontSize: 12.5 }}>
              {connected ? 'Live' : 'Not live'}
            </span>
          </Group>
        }
      />
      <search className="filters">
        <EmailFilters state={state} change={change} all={all} />
        {isFiltered && <ClearFilters clear={clear} />}
        {/* Not beside what the filters before found. */}
        {toStop && data && !list.isPlaceholderData && data.count > 0 && (
          <StopAll search={toStop} found={`${count(data.count)}${data.count_exact ? '' : ' and more'}`} />
        )}
        {data && (
          <Found>
            {count(data.count)}
            {data.count_exact ? '' : '+'} {data.count === 1 ? 'email' : 'emails'}
          </Found>
        )}
      </search>
      {all && (
        <p className="dim" style={{ margin: '0 0 10px', fontSize: 12.5 }}>
          Emails of other accounts are listed only: their own users can open them.
        </p>
      )}
      {sought.includes('@', 1) && !all && <OnTheList address={sought} />}
      <Known query={list}>
        <DataTable
          label="Emails"
          columns={[recipient(hrefOf), ...(all ? [account] : []), ...columns]}
          rows={data?.emails}
          idOf={({ id }) => id}
          hrefOf={hrefOf}
          empty={
            furtherBack ? (
              <Empty title="No match among the newest emails" words="Older ones have not been searched yet." />
            ) : data && data.count > 0 ? (
              <PastEnd go={(to) => change(pageState(to))} />
            ) : isFiltered ? (
              <NoMatch sought={sought} clear={clear} />
            ) : one ? (
              <Empty title="No emails" words="This account has sent nothing." />
            ) : (
              <UntilFirstEmail
                title="No emails yet"
                words="Send one, and watch it here: each attempt, what the server said, and what happens next."
              />
            )
          }
        />
      </Known>
      {furtherBack && (
        <VanishingButton to=".table-box" mt={10} onClick={() => change({ before: justAfter(furtherBack), page: null })}>
          Look further back
        </VanishingButton>
      )}
      {data && <Pager page={page} total={data.count} exact={data.count_exact} go={(to) => change(pageState(to))} />}
    </>
  );
}

/** Stops all that the filters find, also on other pages of the list. @param props.found how many, in words */
function StopAll({ search, found }: { search: StopEmailsBody; found: string }) {
  return (
    <Confirmed
      name="Stop all"
      size="xs"
      to=".table-box"
      words={`Of all emails that match the filters (${found}), recipients that wait fail for good, and scheduled emails are canceled. What is being sent or about to be, and what is held for your decision, is left alone. This cannot be undone.`}
      meanwhile={`Emails left: ${found}. This goes on if you close this, but not if you close or reload the page.`}
      act={() => workToItsEnd('Not all is stopped: press “Stop all” again.', () => api.emails.stopMatching(search))}
      done={({ stopped, canceled }) =>
        `${plural(stopped, 'recipient is', 'recipients are')} given up, ${plural(canceled, 'scheduled email is', 'scheduled emails are')} canceled.`
      }
    />
  );
}

/** For operators: their own emails, those of all accounts, or of the `one` that a link named. */
function WhoseEmails(props: {
  value: string | undefined;
  one: string | undefined;
  change: (value: string | null) => void;
}) {
  const { value, one, change } = props;
  const { data } = useAccount(one);
  return (
    <ChoiceField
      label="Accounts"
      all="This account"
      choices={[
        { value: 'all', label: 'All accounts' },
        ...(one ? [{ value: one, label: data?.account.name ?? one }] : []),
      ]}
      value={value}
      change={change}
    />
  );
}

/** @param props.sought the address that was searched for */
function NoMatch({ sought, clear }: { sought: string; clear: () => void }) {
  const words =
    sought && !sought.includes('@')
      ? 'Recipients are found by the whole address, or by @ and the domain, as in @example.com.'
      : 'Remove a filter, or look further back.';
  return (
    <Empty title="No email matches" words={words}>
      <ClearFilters clear={clear} />
    </Empty>
  );
}
