import { Button, Progress, TextInput } from '@mantine/core';
import { useInterval } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Finding } from '../../../client/index.ts';
import { useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Copy } from '../../parts/copy.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { plural, spaced } from '../../words/format.ts';

const tones = { problem: 'bad', unknown: 'wait', note: 'wait', ok: 'good' } as const;
const order = ['problem', 'unknown', 'note', 'ok'] as const;

/** The server answers within this time, in ms. */
const longest = 25_000;

/** A finding as text, to paste elsewhere. */
const textOf = ({ check, subject, health, found, advice }: Finding): string =>
  [`${health}: ${spaced(check)}, ${subject}: ${found}`, ...(advice ? [`  -> ${advice}`] : [])].join('\n');

/** Checks everything that must be right before mail goes out to the internet. */
export function DoctorPage() {
  const [state, change] = useAddressState(['mx']);
  // The checks query other people's servers: they run only when the button is pressed, and the findings are kept.
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['doctor'],
    queryFn: () => api.admin.doctor.examine(state.mx ? { mx: state.mx } : {}, { timeoutMs: longest + 15_000 }),
    enabled: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: Number.POSITIVE_INFINITY,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    void refetch();
  };
  return (
    <>
      <PageHead
        title="Before going live"
        words="Port 25, names of addresses, blocklists, DNS of your domains, clock, disk and database: all that mail depends on."
      />
      <form className="filters" onSubmit={submit}>
        <TextInput
          aria-label="MX host to test port 25 with"
          placeholder="MX host to test; default: yours"
          w={240}
          value={state.mx ?? ''}
          onChange={({ currentTarget }) => change({ mx: currentTarget.value.trim() || null })}
        />
        <Button type="submit" loading={isFetching}>
          {data ? 'Check again' : 'Check now'}
        </Button>
      </form>
      {isFetching && <Looking />}
      {!isFetching && error && <Failure error={error} />}
      {!isFetching && !error && data && <Findings findings={data.findings} at={data.checked_at} />}
      {!isFetching && !error && !data && (
        <div className="panel">
          <Empty
            title="Not checked yet"
            words="This takes up to 25 seconds, and connects to nothing but the one MX host. The same in a terminal:"
            command="npm run -s sendwright -- doctor"
          />
        </div>
      )}
    </>
  );
}

function Looking() {
  const [begun] = useState(Date.now);
  const [now, setNow] = useState(begun);
  useInterval(() => setNow(Date.now()), 500, { autoInvoke: true });
  return (
    <Panel title="Looking">
      <div className="body" role="status" aria-busy="true">
        <Progress value={Math.min(98, (100 * (now - begun)) / longest)} aria-label="Progress" />
        <p className="soft hold-words">Querying DNS and other servers. This takes up to 25 seconds.</p>
      </div>
    </Panel>
  );
}

function Findings({ findings, at }: { findings: Finding[]; at: string }) {
  const sorted = order.flatMap((health) => findings.filter((one) => one.health === health));
  const number = (health: Finding['health']) => findings.filter((one) => one.health === health).length;
  const counts =
    number('problem') === 0 && number('unknown') === 0
      ? 'All is well'
      : `${plural(number('problem'), 'problem')}, ${number('unknown')} unknown, ${plural(number('note'), 'note')}, ${number('ok')} in order`;
  return (
    <Panel
      title={counts}
      actions={
        <>
          <span className="dim" style={{ fontSize: 12.5 }}>
            <Moment at={at} />
          </span>
          <Copy text={sorted.map(textOf).join('\n')} what="all of it" />
        </>
      }
    >
      <ul className="concerns">
        {sorted.map((finding) => {
          const { check, subject, health, found, advice } = finding;
          return (
            <li key={`${check} ${subject} ${found}`}>
              <span className="finding-health">
                <Status value={health} tone={tones[health]} />
              </span>
              <div className="finding wrap-anywhere">
                <div>
                  <b>{spaced(check)}</b> <span className="dim mono">{subject}</span>
                </div>
                <div>{found}</div>
                {advice && <div className="soft">→ {advice}</div>}
              </div>
              <Copy text={textOf(finding)} what={`the finding on ${spaced(check)}`} />
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}
