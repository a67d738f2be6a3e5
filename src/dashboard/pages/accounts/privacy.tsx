import { Button, Checkbox, TextInput } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Erasure } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Confirmed } from '../../parts/action.tsx';
import { Failed } from '../../parts/failure.tsx';
import { ListSearch } from '../../parts/filters.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { Pager, rangeOf } from '../../parts/pager.tsx';
import { Status } from '../../parts/status.tsx';
import { addressIn, plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** Exports everything of the account to a file, and erases the data of one recipient. */
export function Privacy() {
  return (
    <>
      <Panel
        title="Your data"
        actions={
          <Button variant="default" size="compact-sm" component="a" href="/api/v1/account/export" download>
            Export
          </Button>
        }
      >
        <div className="body soft" style={{ fontSize: 13 }}>
          All data of the account, one JSON object per line: domains, templates, suppressions, and the log with the
          content of each email. Keys and other secrets are left out.
        </div>
      </Panel>
      <Panel title="Erase a recipient">
        <Ask />
        <Receipts />
      </Panel>
    </>
  );
}

function Ask() {
  const [address, setAddress] = useState('');
  const [removes, setRemoves] = useState(false);
  return (
    <div className="body">
      <TextInput
        label="Address"
        description="The address, and mail sent only to it, is erased from all data of the account."
        placeholder="ann@example.net"
        autoComplete="off"
        value={address}
        onChange={(event) => setAddress(event.currentTarget.value)}
      />
      <Checkbox
        label="Also remove it from the suppression list"
        size="xs"
        mt="sm"
        mb="md"
        checked={removes}
        onChange={(event) => setRemoves(event.currentTarget.checked)}
      />
      <Confirmed
        name="Erase"
        color="red"
        disabled={!address.includes('@')}
        words={`Everything stored about ${inOwnLetters(address)} is erased, and waiting mail to it is not sent. ${
          removes ? 'It is taken off the suppression list, so later mail to it is sent. ' : ''
        }This cannot be undone.`}
        act={() => api.erasures.ask({ address: address.trim(), suppression: removes ? 'remove' : 'keep' })}
        done="It is being erased."
        then={() => {
          setAddress('');
          // The next person may have unsubscribed.
          setRemoves(false);
        }}
      />
    </div>
  );
}

/** What was erased, newest first. The receipt of one person is found by their whole address, as only its hash is kept. */
function Receipts() {
  const [state, change] = useAddressState(['receipts']);
  // Not in the address of the page as elsewhere: the browser would remember whom the service has forgotten.
  const [sought, setSought] = useState('');
  const page = pageOf(state.receipts);
  const go = (to: number) => change({ receipts: to === 1 ? null : String(to) });
  const address = addressIn(sought);
  const isWhole = /@[^@]+[.]/.test(address);
  const wanted = { ...rangeOf(page), ...(isWhole ? { address } : {}) };
  const query = useQuery({
    queryKey: ['erasures', wanted],
    queryFn: () => api.erasures.list(wanted),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) =>
      data?.erasures.some(({ status }) => status === 'pending') ? 1_000 : false,
  });
  const { data } = query;
  const find = (text: string | null) => {
    setSought(text ?? '');
    go(1);
  };
  return (
    <>
      <Failed query={query} />
      {data && (data.count > 0 || sought !== '') && (
        <div className="body">
          <ListSearch
            label="Receipt for this address"
            value={sought}
            change={find}
            found={plural(data.count, 'receipt')}
          />
        </div>
      )}
      {data?.erasures.map((one) => (
        <Receipt key={one.id} {...one} />
      ))}
      {data && <Pager page={page} total={data.count} go={go} />}
    </>
  );
}

/** The receipt has only a hash: nobody knows any more whose address it was. */
function Receipt({ status, counts, asked_at: asked, address_hash: hash }: Erasure) {
  return (
    <div className="recipient">
      <Status value={status} tone={status === 'done' ? 'good' : 'wait'} />{' '}
      <span className="mono" title={hash}>
        {hash.slice(0, 12)}
      </span>{' '}
      <span className="dim">
        {plural(counts.emails, 'email')} · requested <Moment at={asked} />
      </span>
    </div>
  );
}
