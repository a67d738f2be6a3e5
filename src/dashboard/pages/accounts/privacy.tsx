import { Button, Checkbox, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Erasure } from '../../../client/index.ts';
import { api } from '../../data/api.ts';
import { Confirmed } from '../../parts/action.tsx';
import { Failed } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

const shownReceipts = 5;

/** Exports everything of the account to a file, and erases the data of one recipient. */
export function Privacy() {
  const query = useQuery({
    queryKey: ['erasures'],
    queryFn: () => api.erasures.list({ limit: shownReceipts }),
    refetchInterval: ({ state }) => (state.data?.erasures.some(({ status }) => status === 'pending') ? 1_000 : false),
  });
  const { data } = query;
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
        <Failed query={query} />
        {data?.erasures.map((one) => (
          <Receipt key={one.id} {...one} />
        ))}
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
