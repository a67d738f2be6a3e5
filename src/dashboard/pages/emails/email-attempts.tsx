import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Attempt, Email } from '../../../client/index.ts';
import { usePrinting } from '../../browser/printing.ts';
import { api } from '../../data/api.ts';
import { Copy } from '../../parts/copy.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { FirstFew } from '../../parts/first-few.tsx';
import { Moment } from '../../parts/moment.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { Unfold } from '../../parts/unfold.tsx';
import { duration, exact } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** Every attempt, latest first, with its conversation. */
export function Attempts({ id, status }: { id: string; status: Email['status'] }) {
  const query = useQuery({
    queryKey: ['email', id, 'attempts'],
    queryFn: () => api.emails.attempts(id),
    refetchInterval: status === 'queued' ? 2_000 : false,
  });
  const { data, error } = query;
  const attempts = data?.attempts.toReversed();
  const printing = usePrinting();
  return (
    <Panel title={attempts ? `Attempts (${attempts.length})` : 'Attempts'}>
      <Failed query={query} />
      {!attempts && !error && (
        <div className="body">
          <Waiting />
        </div>
      )}
      {attempts?.length === 0 && (
        <div className="body dim" style={{ fontSize: 13 }}>
          {status === 'queued' ? 'None yet: the email is waiting.' : 'None: there was nothing to try.'}
        </div>
      )}
      <FirstFew
        lines={(attempts ?? []).map((attempt, index) => (
          <AttemptLine key={attempt.id} attempt={attempt} open={index === 0} printing={printing} />
        ))}
      />
    </Panel>
  );
}

function AttemptLine({ attempt, open, printing }: { attempt: Attempt; open: boolean; printing: boolean }) {
  const [shown, setShown] = useState(open);
  const { outcome, number, recipient, tls_version: tls } = attempt;
  const where = hostOf(attempt);
  const how = tls ? `${tls}${attempt.verification === 'none' ? '' : `, ${attempt.verification}`}` : 'in clear';
  return (
    <div className="attempt">
      <div className="line">
        <Status value={attempt.uncertain ? 'uncertain' : outcome} {...(attempt.uncertain ? { tone: 'wait' } : {})} />
        <span className="wrap-anywhere" title={recipient}>
          #{number} {inOwnLetters(recipient)}
        </span>
        <span className="dim moment" title={exact(new Date(attempt.at))}>
          <Moment at={attempt.at} /> · {duration(attempt.duration_ms)}
        </span>
      </div>
      <div className="dim" style={{ fontSize: 12.5, marginTop: 3 }}>
        {where ? `${where} · ${how}` : `ended ${attempt.phase === 'local' ? 'on this server' : `at ${attempt.phase}`}`}
        {attempt.tls_cipher && <span title={attempt.tls_cipher}> ({attempt.tls_cipher})</span>}
        {attempt.classification && ` · ${attempt.classification.replaceAll('_', ' ')}`}
      </div>
      <div className="reply">{attempt.reply ?? attempt.reason}</div>
      {attempt.conversation.length > 0 && (
        <div className="line" style={{ marginTop: 6 }}>
          <Unfold open={shown} set={setShown} words={shown ? 'Hide the conversation' : 'Show the conversation'} />
          {shown && (
            <>
              <Copy text={asText(attempt)} what="the conversation" />
              <span className="dim moment">{exact(new Date(attempt.at))}</span>
            </>
          )}
        </div>
      )}
      {(shown || printing) && attempt.conversation.length > 0 && <Conversation lines={attempt.conversation} />}
    </div>
  );
}

const marks = { us: '›', server: '‹', note: '·' };

const hostOf = ({ mx_host: host, remote_address: address }: Attempt) =>
  [host, address && `[${address}]`].filter(Boolean).join(' ');

/** The attempt for somebody who cannot see this page, such as the postmaster of the other side. */
function asText(attempt: Attempt): string {
  const { at, recipient, conversation } = attempt;
  const head = [at, recipient, hostOf(attempt)].filter(Boolean).join(', ');
  return [head, ...conversation.map(({ ms, by, text }) => `${ms} ms ${marks[by]} ${text}`)].join('\n');
}

function Conversation({ lines }: { lines: Attempt['conversation'] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className="conversation" tabIndex={0} aria-label="The SMTP conversation">
      <ol>
        {lines.map(({ ms, by, text }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a conversation only grows
          <li key={index} data-by={by}>
            <span className="ms">{ms} ms</span>
            <span aria-hidden="true">{marks[by]}</span>
            <span>{text}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
