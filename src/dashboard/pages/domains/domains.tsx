import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import type { Domain } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { NameAndStatus } from '../../parts/filters.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { WholeTable } from '../../parts/paged-table.tsx';
import { Status } from '../../parts/status.tsx';
import { hostIn, plural } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { isSought } from './domain-standing.ts';

const standing = (domain: Domain) => {
  if (domain.status === 'verified') return 'in order';
  return isSought(domain) ? 'checked regularly' : 'not found within two days';
};

/** As it is shown, and as it is stored. */
const isLike = (domain: string, text: string) =>
  domain.includes(hostIn(text)) || inOwnLetters(domain).includes(text.toLowerCase());

const isIn = ({ status, dns_warning: warning }: Domain, chosen: string) =>
  chosen === 'warning' ? status === 'verified' && warning !== null : status === chosen;

const columns: Column<Domain>[] = [
  {
    id: 'domain',
    header: 'Domain',
    cell: ({ id, domain }) => (
      <Link href={`/domains/${id}`} className="row-link" data-row>
        <span className="cut name" title={domain}>
          {inOwnLetters(domain)}
        </span>
      </Link>
    ),
  },
  { id: 'status', header: 'Status', kind: 'narrow', plain: true, cell: ({ status }) => <Status value={status} /> },
  {
    id: 'warning',
    header: 'DNS',
    cell: (domain) =>
      domain.dns_warning ? (
        <span style={{ color: 'var(--bad)' }}>{domain.dns_warning}</span>
      ) : (
        <span className="dim">{standing(domain)}</span>
      ),
  },
  { id: 'tls', header: 'TLS', kind: 'narrow', cell: ({ tls }) => tls },
  {
    id: 'created',
    header: 'Added',
    kind: 'narrow',
    cell: ({ created_at: at }) => (
      <span className="soft">
        <Moment at={at} />
      </span>
    ),
  },
];

/** The domains that mail can be sent from. */
export function Domains() {
  const { service } = useSession();
  const [state, change] = useAddressState(['new', 'q', 'status', 'page']);
  const query = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list() });
  const { data } = query;
  const shown = data?.domains.filter(
    (one) => isLike(one.domain, state.q ?? '') && (state.status === undefined || isIn(one, state.status)),
  );
  const add = <Button onClick={() => change({ new: '1' })}>Add a domain</Button>;
  return (
    <>
      <PageHead title="Domains" words="What you can send from, once the DNS records are found." actions={add} />
      {data && data.domains.length > 0 && (
        <NameAndStatus
          name="Name"
          all="Any status"
          statuses={['verified', 'pending', { value: 'warning', label: 'verified, with a warning' }]}
          state={state}
          change={change}
          found={plural(shown?.length ?? 0, 'domain')}
        />
      )}
      <WholeTable
        query={query}
        page={pageOf(state.page)}
        change={change}
        label="Domains"
        columns={columns}
        rows={shown}
        idOf={({ id }) => id}
        hrefOf={({ id }) => `/domains/${id}`}
        empty={
          data && data.domains.length > 0 ? (
            <Empty title="No domain matches" words="Remove a filter to see more." />
          ) : (
            <Empty
              title="No domain yet"
              words="Add one that you own. Three DNS records then show that it is yours, and let receivers check that mail is from you."
              command={`curl ${service.base_url}/api/v1/domains -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' \\\n  -d '{"domain": "example.com"}'`}
            />
          )
        }
      />
      {state.new === '1' && <AddDomain close={() => change({ new: null })} />}
    </>
  );
}

function AddDomain({ close }: { close: () => void }) {
  const [, navigate] = useLocation();
  const add = useAction(
    (domain: string) => api.domains.create({ domain }),
    null,
    ({ domain }) => {
      // Close the dialog first, so that going back does not open it again.
      close();
      navigate(`/domains/${domain.id}`);
    },
  );
  return (
    <Dialog close={close} title="Add a domain">
      <Form action={add} keeps="a new domain" submit={(fields) => add.mutate(String(fields.get('domain')).trim())}>
        <TextField
          name="domain"
          label="Name"
          description="A subdomain such as mail.example.com is a domain of its own."
          placeholder="example.com"
          size="sm"
          required
          data-autofocus
        />
        <Submit action={add}>Add</Submit>
      </Form>
    </Dialog>
  );
}
