import { Button } from '@mantine/core';
import { useState } from 'react';
import type { Check, DNSRecord } from '../../../client/index.ts';
import { Command, Copy } from '../../parts/copy.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';

export interface NamedRecord extends DNSRecord {
  purpose: string;
  /** The result of the look-up, once there is one. */
  check?: Check | undefined;
}

/** Strings of at most 255 octets, as a zone file requires (RFC 1035). */
const chunks = (value: string) => value.match(/.{1,250}/gs) ?? [''];

const rdata = ({ type, value }: DNSRecord) =>
  type === 'TXT'
    ? chunks(value)
        .map((chunk) => `"${chunk.replaceAll(/["\\]/g, '\\$&')}"`)
        .join(' ')
    : value;

/** The records as lines of a zone file. */
export const zoneFile = (records: DNSRecord[]): string =>
  records.map((record) => `${record.name}. 3600 IN ${record.type} ${rdata(record)}`).join('\n');

/** Records to copy, one by one or as a zone file, and what is published under their names. */
export function Records({ title, records, zone }: { title: string; records: NamedRecord[]; zone: string }) {
  const [asZone, setAsZone] = useState(false);
  return (
    <Panel
      title={title}
      actions={
        <Button variant="subtle" color="gray" px={8} mr={-8} onClick={() => setAsZone(!asZone)}>
          {asZone ? 'One by one' : 'As a zone file'}
        </Button>
      }
    >
      {asZone ? (
        <div className="body">
          <Command text={zone} what="the zone file" />
        </div>
      ) : (
        records.map((record) => <RecordLine key={`${record.type} ${record.name} ${record.value}`} record={record} />)
      )}
    </Panel>
  );
}

function Standing({ check: { ok, found } }: { check: Check }) {
  if (ok) return <Status value="found" tone="good" />;
  return found.length > 0 ? <Status value="wrong" tone="bad" /> : <Status value="not found" tone="wait" />;
}

function RecordLine({ record }: { record: NamedRecord }) {
  const { name, type, value, purpose, check } = record;
  return (
    <div className="recipient">
      <div className="line" style={{ marginBottom: 6 }}>
        <span className="tag">{type}</span>
        <span className="soft">{purpose}</span>
        {check && (
          <span style={{ marginLeft: 'auto' }}>
            <Standing check={check} />
          </span>
        )}
      </div>
      <dl className="facts">
        <dt>Name</dt>
        <dd className="mono">
          {name} <Copy text={name} what="the name" />
        </dd>
        <dt>Value</dt>
        <dd className="mono">
          {value} <Copy text={value} what="the value" />
        </dd>
        {check && !check.ok && (
          <>
            <dt>Found</dt>
            <dd className="mono">
              {check.found.length === 0 ? <span className="dim">nothing</span> : check.found.join('\n')}
            </dd>
            <dt>What to do</dt>
            <dd>{check.problem}</dd>
          </>
        )}
      </dl>
    </div>
  );
}
