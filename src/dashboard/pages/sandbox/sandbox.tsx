import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'wouter';
import { pageOf, pageState, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Empty } from '../../parts/empty.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { ListSearch } from '../../parts/filters.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { Pager, PastEnd, rangeOf } from '../../parts/pager.tsx';
import { plural, shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { SandboxMessageView } from './sandbox-message.tsx';
import { UntilFirstEmail } from './until-first-email.tsx';

/** The mailbox that receives all mail while none leaves the machine. */
export function Sandbox() {
  const { id } = useParams<{ id?: string }>();
  const [state, change] = useAddressState(['q', 'page']);
  const page = pageOf(state.page);
  const wanted = { ...rangeOf(page), ...(state.q ? { q: state.q } : {}) };
  const query = useQuery({
    queryKey: ['sandbox', 'list', wanted],
    queryFn: () => api.sandbox.list(wanted),
    placeholderData: keepPreviousData,
    refetchInterval: 3_000,
  });
  const { data, error } = query;
  // Which message is shown changes nothing about the list.
  const search = new URLSearchParams(state).toString();
  const chosen = id ?? data?.messages[0]?.id;
  return (
    <>
      <PageHead
        title="Sandbox mailbox"
        words="Mail to any address arrives here through the real MTA; none leaves this machine. The latest 1,000 messages of all accounts are kept."
      />
      <Failed query={query} />
      {!data && !error && <Waiting />}
      {data && (data.count > 0 || state.q) && (
        <ListSearch
          label="Recipient or subject"
          value={state.q}
          change={(q) => change({ q, page: null })}
          found={plural(data.count, 'message')}
        />
      )}
      {data?.count === 0 && (
        <div className="table-box">
          {state.q ? (
            <Empty title="No message matches" words="Part of a recipient's address or of a subject finds it." />
          ) : (
            <UntilFirstEmail
              title="Nothing has arrived yet"
              words="Send to any address. bounced@, deferred@, full@, slow@ and others behave as their names say."
            />
          )}
        </div>
      )}
      {data && data.count > 0 && (
        <>
          {data.messages.length === 0 && !id ? (
            <div className="table-box">
              <PastEnd go={(to) => change(pageState(to))} />
            </div>
          ) : (
            <div className="split">
              <nav className="list" aria-label="Messages">
                {chosen && (
                  <a className="skip" href="#message">
                    Skip to the message
                  </a>
                )}
                {data.messages.map((message) => (
                  <Link
                    key={message.id}
                    href={`/sandbox/${message.id}${search && `?${search}`}`}
                    aria-current={message.id === chosen}
                    data-row
                  >
                    <div className="subject">
                      <b dir="auto">{shownSubject(message.subject)}</b>
                      <span className="dim">
                        <Moment at={message.received_at} />
                      </span>
                    </div>
                    <div className="to" title={message.rcpt_to.join(', ')}>
                      {inOwnLetters(message.rcpt_to.join(', '))}
                    </div>
                  </Link>
                ))}
              </nav>
              <div id="message" tabIndex={-1}>
                {chosen && <SandboxMessageView key={chosen} id={chosen} />}
              </div>
            </div>
          )}
          <Pager page={page} total={data.count} go={(to) => change(pageState(to))} />
        </>
      )}
    </>
  );
}
