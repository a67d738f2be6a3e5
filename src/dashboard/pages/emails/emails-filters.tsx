import { useLocation } from 'wouter';
import type { Email, ListEmailsQuery, StopEmailsBody } from '../../../client/index.ts';
import { ChoiceField, SearchField } from '../../parts/filters.tsx';
import { addressIn, emailIdIn } from '../../words/format.ts';
import { intervalsOf, type Span, spans } from '../../words/spans.ts';
import { useKeys } from '../keys/all-keys.ts';

const statuses = ['queued', 'sent', 'failed', 'suppressed', 'canceled'] as const;

/** Not a status of its own: a recipient waits until somebody decides. */
const held = 'held';
/** Not one either: the email is queued until its time comes. */
const scheduled = 'scheduled';

const times = Object.entries(spans).map(([value, { label }]) => ({ value, label }));

/** What the list keeps in its address. */
export const names = [
  'to',
  'q',
  'status',
  'held',
  'scheduled',
  'tag',
  'domain',
  'type',
  'key',
  'time',
  'before',
  'accounts',
  'page',
] as const;

type Name = (typeof names)[number];
type State = Partial<Record<Name, string>>;

/** What is asked of the server; the pages of the list are added to it. @param all whether the list is of all accounts */
export function filtersOf(state: State, all: boolean): ListEmailsQuery {
  const after =
    state.time !== undefined && Object.hasOwn(spans, state.time) ? intervalsOf(state.time as Span)[0] : null;
  return {
    ...(state.to ? { to: addressIn(state.to) } : {}),
    ...(state.q ? { q: state.q } : {}),
    ...(state.tag ? { tag: state.tag } : {}),
    ...(state.domain ? { domain: state.domain } : {}),
    ...(state.status ? { status: state.status as Email['status'] } : {}),
    ...(state.held ? { held: 'true' } : {}),
    // Only an account's own log has this filter.
    ...(state.scheduled && !all ? { scheduled: 'true' } : {}),
    ...(state.type ? { type: state.type as Email['type'] } : {}),
    ...(state.key ? { api_key_id: state.key } : {}),
    ...(after ? { created_after: after.toISOString() } : {}),
    ...(state.before ? { created_before: state.before } : {}),
  };
}

/** What of the list a call can stop: what is queued, if something else is asked for too. Null: nothing is to be stopped here. */
export function stoppedBy(query: ListEmailsQuery): StopEmailsBody | null {
  const { status, held: isHeld, scheduled: isScheduled, ...search } = query;
  return status === 'queued' && !isHeld && !isScheduled && Object.keys(search).length > 0 ? search : null;
}

/** The fields that narrow the list. */
export function EmailFilters(props: {
  state: State;
  change: (changes: Partial<Record<Name, string | null>>) => void;
  all: boolean;
}) {
  const { state, change, all } = props;
  const [, navigate] = useLocation();
  const search = (name: Name) => (value: string | null) => change({ [name]: value, page: null });
  const find = (text: string | null) => {
    const id = emailIdIn(text ?? '');
    if (id) navigate(`/emails/${id}`);
    else search('to')(text);
  };
  return (
    <>
      <SearchField label="Recipient, @domain or id" value={state.to} change={find} first width={210} />
      <SearchField label="Subject" value={state.q} change={search('q')} width={130} />
      <ChoiceField
        label="Status"
        all="Any status"
        choices={[
          ...statuses,
          ...(all ? [] : [{ value: scheduled, label: 'scheduled, for later' }]),
          { value: held, label: 'held, for a decision' },
        ]}
        value={state.held ? held : state.scheduled && !all ? scheduled : state.status}
        change={(value) =>
          change({
            status: value === held || value === scheduled ? null : value,
            held: value === held ? 'true' : null,
            scheduled: value === scheduled ? 'true' : null,
            page: null,
          })
        }
      />
      <ChoiceField label="Time" all="Any time" choices={times} value={state.time} change={search('time')} />
      <SearchField label="Tag" value={state.tag} change={search('tag')} width={86} />
      <SearchField label="Sender domain" value={state.domain} change={search('domain')} width={126} />
      <ChoiceField
        label="Type"
        all="Any type"
        choices={['transactional', 'marketing']}
        value={state.type}
        change={search('type')}
      />
      {state.key && <KeyField value={state.key} change={search('key')} />}
    </>
  );
}

/** Shown once a link has named a key: the other ones can be chosen then. */
function KeyField({ value, change }: { value: string; change: (value: string | null) => void }) {
  const { data } = useKeys();
  const keys = (data?.api_keys ?? []).map(({ id, name }) => ({ value: id, label: name }));
  // A key of another account is not in the list.
  const choices = keys.some((key) => key.value === value) ? keys : [{ value, label: value }, ...keys];
  return <ChoiceField label="API key" all="Any API key" choices={choices} value={value} change={change} />;
}
