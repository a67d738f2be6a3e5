import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'wouter';
import { pageOf, pageState, useAddressState } from '../../browser/address-state.ts';
import { api } from '../../data/api.ts';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { Pager, PastEnd, rangeOf } from '../../parts/pager.tsx';
import { shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { SandboxMessageView } from './sandbox-message.tsx';
import { UntilFirstEmail } from './until-first-email.tsx';

/** The mailbox that receives all mail while none leaves the machine. */
export function Sandbox() {
  const { id } = useParams<{ id?: string }>();
  const [state, change] = useAddressState(['page']);
  const page = pageOf(state.page);
  const query = useQuery({
    queryKey: ['sandbox', 'list', page],
    queryFn: () => api.sandbox.list(rangeOf(page)),
    refetchInterval: 3_000,
  });
  const { data, error } = query;
  const search = page === 1 ? '' : `?page=${page}`;
  const chosen = id ?? data?.messages[0]?.id;
  return (
    <>
      <PageHead
        title="Sandbox mailbox"
        words="Mail to any address arrives here through the real MTA; none leaves this machine. The latest 1,000 messages of all accounts are kept."
      />
      <Failed query={query} />
      {!data && !error && <Waiting />}
      {data?.count === 0 && (
        <div className="table-box">
          <UntilFirstEmail
            title="Nothing has arrived yet"
            words="Send to any address. bounced@, deferred@, full@, slow@ and others behave as their names say."
          />
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
                {data.messages.map((message) => (
                  <Link
                    key={message.id}
                    href={`/sandbox/${message.id}${search}`}
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
              <div>{chosen && <SandboxMessageView key={chosen} id={chosen} />}</div>
            </div>
          )}
          <Pager page={page} total={data.count} go={(to) => change(pageState(to))} />
        </>
      )}
    </>
  );
}
