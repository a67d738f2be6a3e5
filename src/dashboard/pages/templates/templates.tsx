import { Button } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import type { TemplateSummary } from '../../../client/index.ts';
import { pageOf, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { useAction } from '../../parts/action.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { ListSearch } from '../../parts/filters.tsx';
import { Form, Submit, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { rangeOf } from '../../parts/pager.tsx';
import { Status } from '../../parts/status.tsx';
import { plural } from '../../words/format.ts';

const columns: Column<TemplateSummary>[] = [
  {
    id: 'name',
    header: 'Name',
    cell: ({ id, name }) => (
      <Link href={`/templates/${id}`} className="row-link" data-row>
        <span className="cut" dir="auto" title={name}>
          {name}
        </span>
      </Link>
    ),
  },
  { id: 'status', header: 'Status', kind: 'narrow', plain: true, cell: ({ status }) => <Status value={status} /> },
  {
    id: 'alias',
    header: 'Alias',
    cell: ({ alias }) =>
      alias ? (
        <span className="cut mono" title={alias}>
          {alias}
        </span>
      ) : (
        <span className="dim">none</span>
      ),
  },
  {
    id: 'published',
    header: 'Published',
    kind: 'narrow',
    cell: ({ published_at: at }) => (at ? <Moment at={at} /> : <span className="dim">never</span>),
  },
  { id: 'updated', header: 'Changed', kind: 'narrow', cell: ({ updated_at: at }) => <Moment at={at} /> },
];

/** Texts to make emails from. */
export function Templates() {
  const { service } = useSession();
  const [state, change] = useAddressState(['new', 'q', 'page']);
  const page = pageOf(state.page);
  const query = { ...rangeOf(page), ...(state.q ? { q: state.q } : {}) };
  const list = useQuery({
    queryKey: ['templates', query],
    queryFn: () => api.templates.list(query),
    placeholderData: keepPreviousData,
  });
  const { data } = list;
  return (
    <>
      <PageHead
        title="Templates"
        words="Texts for your emails. Programs name a template, and fill in its variables."
        actions={<Button onClick={() => change({ new: '1' })}>New template</Button>}
      />
      {data && (data.count > 0 || state.q) && (
        <ListSearch
          label="Name or alias"
          value={state.q}
          change={(q) => change({ q, page: null })}
          found={plural(data.count, 'template')}
        />
      )}
      <PagedTable
        query={list}
        page={page}
        change={change}
        label="Templates"
        columns={columns}
        rows={data?.templates}
        idOf={({ id }) => id}
        hrefOf={({ id }) => `/templates/${id}`}
        empty={
          state.q ? (
            <Empty title="No template matches" words="Remove the search to see more." />
          ) : (
            <Empty
              title="No template yet"
              words="Write one here, publish it, and send with its alias instead of a body."
              command={`curl ${service.base_url}/api/v1/templates -H 'X-API-Key: sk_live_…' -H 'Content-Type: application/json' \\\n  -d '{"name": "Welcome", "alias": "welcome", "subject": "Hello {{NAME}}", "html": "<p>Hello {{NAME}}</p>"}'`}
            />
          )
        }
      />
      {state.new === '1' && <NewTemplate close={() => change({ new: null })} />}
    </>
  );
}

const first = {
  subject: 'Hello {{NAME}}',
  html: '<h1>Hello {{NAME}}</h1>\n<p>It is good to have you here.</p>\n',
  text: 'Hello {{NAME}},\n\nit is good to have you here.\n',
  variables: [{ key: 'NAME', type: 'string' as const, fallback_value: 'there' }],
};

function NewTemplate({ close }: { close: () => void }) {
  const [, navigate] = useLocation();
  const create = useAction(
    (form: FormData) => {
      const alias = String(form.get('alias')).trim();
      return api.templates.create({ name: String(form.get('name')).trim(), ...(alias ? { alias } : {}), ...first });
    },
    null,
    ({ template }) => {
      // Close the dialog first, so that going back does not open it again.
      close();
      navigate(`/templates/${template.id}`);
    },
  );
  return (
    <Dialog close={close} title="New template">
      <Form action={create} keeps="a new template" submit={(fields) => create.mutate(fields)}>
        <TextField name="name" label="Name" placeholder="Welcome" size="sm" required data-autofocus />
        <TextField
          name="alias"
          label="Alias"
          description="A name for programs to use, if you like."
          placeholder="welcome"
          size="sm"
          mt="sm"
        />
        <Submit action={create}>Create</Submit>
      </Form>
    </Dialog>
  );
}
