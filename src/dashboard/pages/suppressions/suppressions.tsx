import { Button, FileButton, Group, NativeSelect } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { Link } from 'wouter';
import type { Suppression } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { workToItsEnd } from '../../browser/interrupted.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { ChoiceField, ClearFilters, Found, SearchField } from '../../parts/filters.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { rangeOf } from '../../parts/pager.tsx';
import { Status } from '../../parts/status.tsx';
import { addressIn, count } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { Evidence } from './suppression-evidence.tsx';
import { importCsv, wordsFor } from './suppressions-import.ts';

const reasons = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

/** @param evidenceOf the address that shows the evidence for an entry */
const columnsOf = (evidenceOf: (id: string, address: string) => string): Column<Suppression>[] => [
  {
    id: 'address',
    header: 'Address',
    cell: ({ address }) => (
      <span className="cut" title={address} style={{ fontWeight: 500 }}>
        {inOwnLetters(address)}
      </span>
    ),
  },
  { id: 'reason', header: 'Reason', kind: 'narrow', plain: true, cell: ({ reason }) => <Status value={reason} /> },
  {
    id: 'stops',
    header: 'Stops',
    kind: 'narrow',
    cell: ({ reason }) => (reason === 'unsubscribe' ? 'marketing' : 'all mail'),
  },
  {
    id: 'evidence',
    header: 'Evidence',
    plain: true,
    cell: ({ address, email_id: id }) =>
      id ? (
        <Link href={evidenceOf(id, address)} className="link">
          Show the cause
        </Link>
      ) : (
        <span className="dim">added or imported</span>
      ),
  },
  { id: 'created', header: 'Added', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
  {
    id: 'act',
    header: '',
    kind: 'acts',
    cell: ({ address, reason, unsubscribed }) => (
      <Confirmed
        name="Remove"
        about={inOwnLetters(address)}
        size="compact-xs"
        words={`${inOwnLetters(address)} gets ${unsubscribed && reason !== 'unsubscribe' ? 'mail again, but no marketing: its owner has unsubscribed' : 'mail again'}. If it bounces or complains, it is added to the list again.`}
        act={() => api.suppressions.remove(address)}
        done={({ message }) => `${message}.`}
      />
    ),
  },
];

/** The addresses that nothing is sent to. */
export function Suppressions() {
  const { service } = useSession();
  const [state, change] = useAddressState(['q', 'reason', 'page', 'new', 'evidence', 'about']);
  const page = pageOf(state.page);
  const query = {
    ...rangeOf(page),
    ...(state.q ? { address: addressIn(state.q) } : {}),
    ...(state.reason ? { reason: state.reason as Suppression['reason'] } : {}),
  };
  const list = useQuery({
    queryKey: ['suppressions', query],
    queryFn: () => api.suppressions.list(query),
    placeholderData: keepPreviousData,
  });
  const { data } = list;
  // Keeps the filters, so that the same list is there after closing.
  const evidenceOf = (evidence: string, about: string) =>
    `/suppressions?${new URLSearchParams({ ...state, evidence, about })}`;
  const isFiltered = Boolean(state.q || state.reason);
  return (
    <>
      <PageHead
        title="Suppressions"
        words="Addresses that get no mail. Bounces, complaints and unsubscribes are added automatically."
        actions={
          <Group gap={6} wrap="nowrap">
            <Import />
            <Button variant="default" component="a" href="/api/v1/suppressions/export" download="suppressions.csv">
              Export CSV
            </Button>
            <Button onClick={() => change({ new: '1' })}>Add an address</Button>
          </Group>
        }
      />
      <search className="filters">
        <SearchField
          label="Part of an address"
          value={state.q}
          change={(q) => change({ q, page: null })}
          first
          width={240}
        />
        <ChoiceField
          label="Reason"
          all="Any reason"
          choices={reasons}
          value={state.reason}
          change={(reason) => change({ reason, page: null })}
        />
        {isFiltered && <ClearFilters clear={() => change({ q: null, reason: null, page: null })} />}
        {data && (
          <Found>
            {count(data.count)}
            {data.count_exact ? '' : '+'} {data.count === 1 ? 'address' : 'addresses'}
          </Found>
        )}
      </search>
      <PagedTable
        query={list}
        page={page}
        change={change}
        label="Suppressions"
        columns={columnsOf(evidenceOf)}
        rows={data?.suppressions}
        idOf={({ address }) => address}
        empty={
          isFiltered ? (
            <Empty title="No address matches" words="Remove a filter to see more." />
          ) : (
            <Empty
              title="Nobody is suppressed"
              words="Import the list of your previous service: a CSV file with an address, and optionally a reason, on each line."
              command={`curl ${service.base_url}/api/v1/suppressions -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' \\\n  -d '{"address": "gone@example.net", "reason": "bounce"}'`}
            />
          )
        }
      />
      {state.new === '1' && <AddAddress close={() => change({ new: null })} />}
      {state.evidence && (
        <Evidence
          emailId={state.evidence}
          address={state.about ?? ''}
          close={() => change({ evidence: null, about: null })}
        />
      )}
    </>
  );
}

function Import() {
  const load = useAction(
    (file: File) =>
      workToItsEnd('Not all addresses of the file are on the list: import it again.', () => importCsv(file)),
    wordsFor,
  );
  const resetFile = useRef<() => void>(null);
  const take = (file: File | null) => {
    if (!file) return;
    load.mutate(file);
    // So that choosing the same file again, after correcting it, counts as a change.
    resetFile.current?.();
  };
  return (
    <FileButton accept=".csv,text/csv,text/plain" onChange={take} resetRef={resetFile}>
      {(props) => (
        <Button variant="default" loading={load.isPending} {...props}>
          Import CSV
        </Button>
      )}
    </FileButton>
  );
}

function AddAddress({ close }: { close: () => void }) {
  const add = useAction(
    (form: FormData) =>
      api.suppressions.add({
        address: String(form.get('address')).trim(),
        reason: String(form.get('reason')) as Suppression['reason'],
      }),
    'It is on the list.',
    close,
  );
  return (
    <Dialog close={close} title="Add an address">
      <Form action={add} keeps="a suppression" submit={(fields) => add.mutate(fields)}>
        <TextField name="address" label="Address" size="sm" required data-autofocus />
        <NativeSelect name="reason" label="Reason" mt="sm" defaultValue="manual" data={[...reasons]} />
        <Submit action={add}>Add</Submit>
      </Form>
    </Dialog>
  );
}
