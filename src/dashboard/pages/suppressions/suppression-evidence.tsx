import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api, isStatus } from '../../data/api.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Status } from '../../parts/status.tsx';
import { shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** What the server or the reader said that put an address on the list. */
export function Evidence({ emailId, address, close }: { emailId: string; address: string; close: () => void }) {
  const query = useQuery({
    queryKey: ['email', emailId, 'evidence'],
    queryFn: () => api.emails.get(emailId),
  });
  const { data, error } = query;
  const same = (other: string) => other.toLowerCase() === address.toLowerCase();
  const returns = data?.email.returns.filter(({ recipient }) => same(recipient)) ?? [];
  const recipient = data?.email.recipients.find((one) => same(one.address));
  return (
    <Dialog close={close} title={inOwnLetters(address)} size="lg">
      {error &&
        (isStatus(error, 404) ? (
          <p className="soft">The email behind this entry is no longer in the log.</p>
        ) : (
          <Failed query={query} />
        ))}
      {!data && !error && <Waiting />}
      {data && (
        <>
          {returns.map(({ kind, diagnostic, received_at: at, enhanced_code: code }) => (
            <div key={kind} style={{ marginBottom: 12 }}>
              <Status value={kind} /> {code} <Moment at={at} />
              {diagnostic && <div className="reply mono wrap-anywhere">{diagnostic}</div>}
            </div>
          ))}
          {returns.length === 0 && recipient?.last_response && (
            <div style={{ marginBottom: 12 }}>
              <Status value={recipient.status} /> the server answered:
              <div className="mono wrap-anywhere" style={{ marginTop: 6 }}>
                {recipient.last_response}
              </div>
            </div>
          )}
          <Link href={`/emails/${emailId}`} className="link" dir="auto">
            {shownSubject(data.email.subject)}
          </Link>{' '}
          <span className="dim">
            sent <Moment at={data.email.created_at} />
          </span>
        </>
      )}
    </Dialog>
  );
}
