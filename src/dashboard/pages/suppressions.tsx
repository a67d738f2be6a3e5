import { Button, FileButton, Group, NativeSelect } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { Link } from 'wouter';
import { readSuppressionsCsv, type Suppression, type SuppressionEntry } from '../../client/index.ts';
import { pageOf, pageState, useAddressState } from '../address-state.ts';
import { api, CannotBeDone, refusalOf } from '../api.ts';
import { count, plural } from '../format.ts';
import { Confirmed, useAction } from '../parts/action.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { Known } from '../parts/failure.tsx';
import { ChoiceField, ClearFilters, SearchField } from '../parts/filters.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { Moment } from '../parts/moment.tsx';
import { PageHead } from '../parts/page.tsx';
import { Pager, PastEnd, pageSize } from '../parts/pager.tsx';
import { Status } from '../parts/status.tsx';
import { useSession } from '../session.ts';
import { Evidence } from './suppression-evidence.tsx';

const reasons = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

/** @param evidenceOf the address that shows the evidence for an entry */
const columnsOf = (evidenceOf: (id: string, address: string) => string): Column<Suppression>[] => [
  {
    id: 'address',
    header: 'Address',
    cell: ({ address }) => (
      <span className="cut" title={address} style={{ fontWeight: 500 }}>
        {address}
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
        <span className="dim">added by hand</span>
      ),
  },
  { id: 'created', header: 'Since', kind: 'narrow', cell: ({ created_at: at }) => <Moment at={at} /> },
  {
    id: 'act',
    header: '',
    kind: 'acts',
    cell: ({ address }) => (
      <Confirmed
        name="Remove"
        size="compact-xs"
        words={`${address} gets mail again. If it bounces or complains, it is added to the list again.`}
        act={() => api.suppressions.remove(address)}
        done="It gets mail again."
      />
    ),
  },
];

/** How many entries one call takes. */
const mostAtOnce = 10_000;

/** The result of importing a file. */
interface Imported {
  added: number;
  /** Records with no address, or several. */
  leftOut: number;
  /** Contacts who have not unsubscribed. */
  subscribed: number;
}

/** Puts all addresses of a file on the list. */
export async function importCsv(file: File): Promise<Imported> {
  const { entries, leftOut, subscribed } = readCsv(await file.text());
  if (entries.length === 0 && subscribed > 0)
    throw new CannotBeDone('Nobody in this file has unsubscribed, so nothing was imported.');
  if (entries.length === 0) throw new CannotBeDone('There is no address in this file.');
  let added = 0;
  for (let at = 0; at < entries.length; at += mostAtOnce) {
    const some = entries.slice(at, at + mostAtOnce);
    const suppressions = some.map(({ line: _, ...entry }) => entry);
    try {
      added += (await api.suppressions.import({ suppressions })).count;
    } catch (error) {
      throw inFile(error, some, added);
    }
  }
  return { added, leftOut, subscribed };
}

function readCsv(text: string): ReturnType<typeof readSuppressionsCsv> {
  try {
    return readSuppressionsCsv(text);
  } catch (error) {
    throw error instanceof SyntaxError
      ? new CannotBeDone(`Nothing in the file was imported: ${error.message}.`)
      : error;
  }
}

/** Rewrites a refusal to name the line of the file that it is about. */
function inFile(error: unknown, entries: SuppressionEntry[], added: number): unknown {
  const { field = '', words } = refusalOf(error) ?? {};
  const entry = entries[Number(/^suppressions\[(\d+)\]/.exec(field)?.[1] ?? Number.NaN)];
  if (!entry) return error;
  const rest =
    added === 0 ? 'Nothing in the file was imported.' : `${count(added)} of the lines before it were imported.`;
  return new CannotBeDone(`Line ${entry.line}, “${entry.address}”: ${words}. ${rest}`);
}

function wordsFor({ added, leftOut, subscribed }: Imported): string {
  const words = [
    `${plural(added, 'address is', 'addresses are')} on the list.`,
    ...(subscribed > 0
      ? [
          `${plural(subscribed, 'contact who has not unsubscribed was', 'contacts who have not unsubscribed were')} not added.`,
        ]
      : []),
    ...(leftOut > 0 ? [`${plural(leftOut, 'record')} with no address, or several, skipped.`] : []),
  ];
  return words.join(' ');
}

/** The addresses that nothing is sent to. */
export function Suppressions() {
  const { service } = useSession();
  const [state, change] = useAddressState(['q', 'reason', 'page', 'new', 'evidence', 'about']);
  const page = pageOf(state.page);
  const query = {
    limit: pageSize,
    offset: (page - 1) * pageSize,
    ...(state.q ? { address: state.q } : {}),
    ...(state.reason ? { reason: state.reason as Suppression['reason'] } : {}),
  };
  const { data, error, refetch } = useQuery({
    queryKey: ['suppressions', query],
    queryFn: () => api.suppressions.list(query),
    placeholderData: keepPreviousData,
  });
  const load = useAction(importCsv, wordsFor);
  const resetFile = useRef<() => void>(null);
  const take = (file: File | null) => {
    if (!file) return;
    load.mutate(file);
    // So that choosing the same file again, after correcting it, counts as a change.
    resetFile.current?.();
  };
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
            <FileButton accept=".csv,text/csv,text/plain" onChange={take} resetRef={resetFile}>
              {(props) => (
                <Button variant="default" loading={load.isPending} {...props}>
                  Import CSV
                </Button>
              )}
            </FileButton>
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
          <span className="count" aria-live="polite">
            {count(data.count)} {data.count === 1 ? 'address' : 'addresses'}
          </span>
        )}
      </search>
      <Known data={data} error={error} retry={() => void refetch()}>
        <DataTable
          label="Suppressions"
          columns={columnsOf(evidenceOf)}
          rows={data?.suppressions}
          idOf={({ address }) => address}
          empty={
            data && data.count > 0 ? (
              <PastEnd go={(to) => change(pageState(to))} />
            ) : isFiltered ? (
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
      </Known>
      {data && <Pager page={page} total={data.count} go={(to) => change(pageState(to))} />}
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
      <Form action={add} submit={(fields) => add.mutate(fields)}>
        <TextField name="address" label="Address" size="sm" required withAsterisk={false} data-autofocus />
        <NativeSelect name="reason" label="Reason" mt="sm" defaultValue="manual" data={[...reasons]} />
        <Group justify="flex-end" mt="md">
          <Button type="submit" loading={add.isPending}>
            Add
          </Button>
        </Group>
      </Form>
    </Dialog>
  );
}
