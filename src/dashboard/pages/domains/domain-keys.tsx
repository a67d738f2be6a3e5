import { Button, Group } from '@mantine/core';
import type { DKIMKey } from '../../../client/index.ts';
import { api } from '../../data/api.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';

/** A domain's keys besides the one that signs: not in use yet, signing beside it, or being retired. */
export function DkimKeys({ domainId, keys }: { domainId: string; keys: DKIMKey[] }) {
  const rotate = useAction(
    (algorithm: DKIMKey['algorithm']) => api.domains.rotateDkim(domainId, { algorithm }),
    'Created. It signs as soon as its record is found.',
  );
  return (
    <Panel
      title="DKIM keys"
      actions={
        <Group gap={6}>
          <Button variant="default" loading={rotate.isPending} onClick={() => rotate.mutate('rsa')}>
            Rotate
          </Button>
          <Button variant="default" loading={rotate.isPending} onClick={() => rotate.mutate('ed25519')}>
            Add Ed25519
          </Button>
        </Group>
      }
    >
      {keys.length === 0 && (
        <div className="body dim" style={{ fontSize: 13 }}>
          Only the key above signs. Rotating creates another key, which takes over once its record is found.
        </div>
      )}
      {keys.map(({ id, selector, algorithm, status, record, problem }) => (
        <div className="recipient" key={id}>
          <div className="line">
            <Status value={status} />
            <b style={{ fontWeight: 550 }}>{selector}</b>
            <span className="dim">{algorithm}</span>
            <span style={{ marginLeft: 'auto' }}>
              <Confirmed
                name="Remove"
                about={selector}
                size="compact-xs"
                words="It no longer signs. Remove its record from DNS once the mail that it signed has been received."
                act={() => api.domains.removeDkimKey(id)}
                done="The key was removed."
              />
            </span>
          </div>
          {problem && <p style={{ color: 'var(--bad)' }}>{problem}</p>}
          <dl className="facts" style={{ marginTop: 6 }}>
            <dt>Name</dt>
            <dd className="mono">
              {record.name} <Copy text={record.name} what="the name" />
            </dd>
            <dt>Value</dt>
            <dd className="mono">
              {record.value} <Copy text={record.value} what="the value" />
            </dd>
          </dl>
        </div>
      ))}
    </Panel>
  );
}
