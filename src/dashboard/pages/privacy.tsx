import { Button, Checkbox, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Erasure } from '../../client/index.ts';
import { api } from '../api.ts';
import { plural } from '../format.ts';
import { Confirmed } from '../parts/action.tsx';
import { Failure } from '../parts/failure.tsx';
import { Moment } from '../parts/moment.tsx';
import { Panel } from '../parts/page.tsx';
import { Status } from '../parts/status.tsx';

const shownReceipts = 5;

/** Exports everything of the account to a file, and erases the data of one recipient. */
export function Privacy() {
  const { data, error } = useQuery({
    queryKey: ['erasures'],
    queryFn: () => api.erasures.list({ limit: shownReceipts }),
    refetchInterval: ({ state }) => (state.data?.erasures.some(({ status }) => status === 'pending') ? 1_000 : false),
  });
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
        <div className="body soft">
          All that the account has, one JSON object a line: domains, templates, suppressions, the log with what each
          email said. Keys and other secrets are not in it.
        </div>
      </Panel>
      <Panel title="Erase a recipient">
        <Ask />
        {error && <Failure error={error} />}
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
        description="It, and what was written to it alone, goes from everything that the account has."
        placeholder="ann@example.net"
        autoComplete="off"
        value={address}
        onChange={(event) => setAddress(event.currentTarget.value)}
      />
      <Checkbox
        label="Take it off the suppression list too"
        mt="sm"
        mb="md"
        checked={removes}
        onChange={(event) => setRemoves(event.currentTarget.checked)}
      />
      <Confirmed
        name="Erase"
        color="red"
        disabled={!address.includes('@')}
        words={`What is stored about ${address} is erased, and mail that waits for it is not sent. This cannot be undone.`}
        act={() => api.erasures.ask({ address: address.trim(), suppression: removes ? 'remove' : 'keep' })}
        done="It is being erased."
        then={() => setAddress('')}
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
        {plural(counts.emails, 'email')} · asked <Moment at={asked} />
      </span>
    </div>
  );
}
