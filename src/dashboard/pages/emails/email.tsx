import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useLocation, useParams } from 'wouter';
import type { Email, EmailWithRecipients, Explanation, Recipient } from '../../../client/index.ts';
import { copyText } from '../../browser/clipboard.ts';
import { api, CannotBeDone, isUnshown, whileThere } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { oncePerAnswer } from '../../data/unanswered.ts';
import { Confirmed, tell, useAction } from '../../parts/action.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Unshown, Waiting } from '../../parts/failure.tsx';
import { FirstFew } from '../../parts/first-few.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status, Tags } from '../../parts/status.tsx';
import { sameEmail, whyNoCall } from '../../words/commands.ts';
import { forPeople, isForLater, messageIdOf, plural, shownSubject, whatBecame } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { useKeys } from '../keys/all-keys.ts';
import { OnTheList } from '../suppressions/suppression-standing.tsx';
import { Attempts } from './email-attempts.tsx';
import { EmailContentPanel } from './email-content.tsx';
import { ChangeTime } from './email-time.tsx';
import { EmailWebhooks } from './email-webhooks.tsx';

/** One email: where it is and why, its attempts, its content, and its webhook calls. */
export function EmailPage() {
  const { id = '' } = useParams<{ id: string }>();
  const query = useQuery({
    queryKey: ['email', id],
    queryFn: async () => {
      const [{ email }, explained] = await Promise.all([api.emails.get(id), api.emails.explain(id)]);
      return { email, explained };
    },
    // A deferred attempt does not change the status, but should still appear.
    refetchInterval: whileThere((known) => known?.email.status === 'queued' && 2_000),
  });
  const { data } = query;
  const back = { href: '/emails', name: 'Emails' };
  if (isUnshown(query))
    return <Unshown kind="Email" name={data && shownSubject(data.email.subject)} back={back} query={query} />;
  if (!data) return <Waiting bars={7} />;
  const { email, explained } = data;
  const asked = explained.recipients.filter(({ status }) => mayBeListed.has(status)).slice(0, mostAsked);
  return (
    <>
      <PageHead
        title={headingOf(email)}
        back={back}
        words={
          <>
            <Status value={isForLater(email) ? 'scheduled' : email.status} />{' '}
            {explained.recipients.some(isHeld) && <Status value="held" />} &nbsp;
            {forPeople(explained.summary.replace(`${email.status}: `, ''))}
          </>
        }
        actions={<EmailActions email={email} held={explained.recipients.some(isHeld)} />}
      />
      <div className="columns">
        <div>
          <Panel title={`Recipients (${email.recipients.length})`}>
            <FirstFew
              lines={lackingFirst(explained.recipients).map((recipient) => (
                <RecipientLine key={recipient.address} recipient={recipient} listed={asked.includes(recipient)} />
              ))}
            />
          </Panel>
          {email.returns.length > 0 && <Returns email={email} />}
          <Attempts id={id} status={email.status} />
        </div>
        <div>
          <Facts email={email} source={explained.source?.ips ?? null} />
          <EmailContentPanel id={id} />
          <EmailWebhooks id={id} />
        </div>
      </div>
    </>
  );
}

/** A longer subject would fill the screen: it is one of the facts. */
const longestHeading = 200;

const isLong = ({ subject }: { subject: string }) => subject.trim().length > longestHeading;

const headingOf = (email: { subject: string }) =>
  isLong(email) ? `${[...email.subject.trim()].slice(0, longestHeading).join('')}…` : shownSubject(email.subject);

/** Those that do not have it come first: they are what somebody looks for among many. */
const lackingFirst = (recipients: Explanation[]) =>
  recipients.toSorted((a, b) => Number(a.status === 'delivered') - Number(b.status === 'delivered'));

const isHeld = ({ cause }: Explanation) => cause === 'uncertain' || cause === 'crashed';

function EmailActions({ email, held }: { email: EmailWithRecipients; held: boolean }) {
  const { service } = useSession();
  const release = useAction((as: 'retry' | 'delivered' | 'failed') => api.emails.release(email.id, { as }), 'Decided.');
  const copy = useAction(async () => {
    const content = await api.emails.content(email.id);
    const lack = whyNoCall(email, content);
    if (lack) throw new CannotBeDone(lack);
    const to = email.recipients.filter(({ kind }) => kind === 'to').map(({ address }) => address);
    await copyText(sameEmail(service.base_url, to, email, content));
    tell('Copied as curl: put your key into it.');
  }, null);
  return (
    <Group gap={6} wrap="nowrap">
      {held && (
        <>
          <Button variant="default" loading={release.isPending} onClick={() => release.mutate('retry')}>
            Send again
          </Button>
          <Button variant="default" loading={release.isPending} onClick={() => release.mutate('delivered')}>
            It arrived
          </Button>
          <Button variant="default" loading={release.isPending} onClick={() => release.mutate('failed')}>
            It did not
          </Button>
        </>
      )}
      {isForLater(email) && (
        <>
          <ChangeTime id={email.id} at={email.scheduled_at ?? ''} />
          <Confirmed
            name="Cancel"
            words="It is not sent, and stays in the log as canceled."
            act={() => api.emails.cancel(email.id)}
            done="Canceled."
          />
        </>
      )}
      {email.status === 'queued' && !isForLater(email) && !held && (
        <Confirmed
          name="Give up"
          words="Recipients that still wait fail for good, and are not tried again. What is being sent or about to be is not stopped."
          act={() => api.emails.stop(email.id)}
          done={({ stopped }) => `${plural(stopped, 'recipient is', 'recipients are')} given up.`}
        />
      )}
      <Button variant="default" loading={copy.isPending} onClick={() => copy.mutate(undefined)}>
        Copy as curl
      </Button>
      <Resend email={email} />
    </Group>
  );
}

/** Asks first if somebody would get it twice; if some recipients did not get it, offers to send it to those alone. */
function Resend({ email }: { email: EmailWithRecipients }) {
  const { service } = useSession();
  const [, navigate] = useLocation();
  const act = () => oncePerAnswer(`resend ${email.id}`, (options) => api.emails.resend(email.id, options));
  const missed = email.recipients.filter((recipient) => hasNone(email, recipient)).map(({ address }) => address);
  const done = ({ email: again }: { email: Email }) => whatBecame(again, service.on_hold_since !== null);
  const then = ({ email: again }: { email: Email }) => navigate(`/emails/${again.id}`);
  const resend = useAction(act, done, then);
  const twice = email.recipients
    .filter(({ status, address }) => mayHaveIt.has(status) && !missed.includes(address))
    .map(({ address }) => address);
  if (twice.length === 0)
    return (
      <Button variant="default" loading={resend.isPending} onClick={() => resend.mutate(undefined)}>
        Resend
      </Button>
    );
  const less = missed.length > 0 ? toMissed(email.id, missed) : undefined;
  return <Confirmed name={less ? 'Resend to all' : 'Resend'} words={twiceIn(twice)} {...{ act, done, then, less }} />;
}

const mayHaveIt = new Set(['delivered', 'queued', 'deferred']);

/** True if the recipient did not get it: it failed, was suppressed, or bounced later. */
const hasNone = ({ returns }: EmailWithRecipients, { status, address }: Recipient) =>
  status === 'failed' ||
  status === 'suppressed' ||
  returns.some(({ kind, recipient }) => kind === 'bounce' && recipient === address);

const toMissed = (id: string, recipients: string[]) => ({
  name: recipients.length === 1 ? 'Only to the one that failed' : `Only to the ${recipients.length} that failed`,
  act: () =>
    oncePerAnswer(`resend ${id} to ${recipients.join()}`, (options) =>
      api.emails.resend(id, { recipients, ...options }),
    ),
});

const twiceIn = ([first, ...others]: string[]) =>
  `Another email with the same content goes to all of its recipients: ${inOwnLetters(first ?? '')}${others.length > 0 ? ` and ${others.length} more` : ''} would have it twice.`;

const mayBeListed = new Set(['suppressed', 'failed']);
/** How many recipients may be looked up in the suppression list, with one query each. */
const mostAsked = 5;

/** @param props.listed whether to show the address's entry in the suppression list */
function RecipientLine({ recipient, listed }: { recipient: Explanation; listed: boolean }) {
  const { user } = useSession();
  const { address, status, sentence, advice, next_attempt_at: next, gives_up_at: end } = recipient;
  return (
    <div className="recipient">
      <div className="line">
        <b className="wrap-anywhere" style={{ fontWeight: 550 }} title={address}>
          {inOwnLetters(address)}
        </b>
        <Status value={status} />
        {recipient.classification && status !== 'suppressed' && (
          <span className="tag">{recipient.classification.replaceAll('_', ' ')}</span>
        )}
        {next && (
          <span className="dim">
            next try <Moment at={next} ahead="try" />
          </span>
        )}
        {end && (
          <span className="dim">
            {next && '· '}given up <Moment at={end} ahead />
          </span>
        )}
      </div>
      <p>{forPeople(sentence)}</p>
      {advice && (
        <p className="dim">
          {forPeople(advice)}{' '}
          {user.role === 'admin' && advice.includes('/admin/destinations') && (
            <Link
              href={`/destinations?q=${encodeURIComponent(address.slice(address.lastIndexOf('@') + 1))}`}
              className="link"
            >
              Show the destination
            </Link>
          )}
        </p>
      )}
      {listed && <OnTheList address={address} />}
      {recipient.tls && recipient.tls.notes.length > 0 && <p className="dim">TLS: {recipient.tls.notes.join(' ')}</p>}
    </div>
  );
}

function Returns({ email }: { email: EmailWithRecipients }) {
  return (
    <Panel title="What came back">
      {email.returns.map(({ recipient, kind, classification, diagnostic, received_at: at }) => (
        <div className="recipient" key={`${recipient} ${kind}`}>
          <div className="line">
            <Status value={kind} />
            <span className="wrap-anywhere" title={recipient}>
              {inOwnLetters(recipient)}
            </span>
            {classification && <span className="tag">{classification.replaceAll('_', ' ')}</span>}
            <span className="dim" style={{ marginLeft: 'auto' }}>
              <Moment at={at} />
            </span>
          </div>
          {diagnostic && <p className="mono">{diagnostic}</p>}
        </div>
      ))}
    </Panel>
  );
}

function Facts({ email, source }: { email: EmailWithRecipients; source: string[] | null }) {
  const copies = [...email.cc, ...email.bcc];
  return (
    <Panel title="Facts">
      <dl className="facts body">
        {isLong(email) && (
          <>
            <dt>Subject</dt>
            <dd dir="auto">{email.subject}</dd>
          </>
        )}
        <dt>From</dt>
        <dd title={email.from}>{inOwnLetters(email.from)}</dd>
        {copies.length > 0 && (
          <>
            <dt>Copies</dt>
            <dd title={copies.join(', ')}>{inOwnLetters(copies.join(', '))}</dd>
          </>
        )}
        {email.reply_to.length > 0 && (
          <>
            <dt>Reply to</dt>
            <dd title={email.reply_to.join(', ')}>{inOwnLetters(email.reply_to.join(', '))}</dd>
          </>
        )}
        <dt>Type</dt>
        <dd>
          {email.type} {email.tags.length > 0 && <Tags tags={email.tags} />}
        </dd>
        <dt>Accepted</dt>
        <dd>
          <Moment at={email.created_at} exactly />
        </dd>
        {email.scheduled_at && (
          <>
            <dt>Scheduled</dt>
            <dd>
              <Moment at={email.scheduled_at} ahead exactly />
            </dd>
          </>
        )}
        {email.sent_at && (
          <>
            <dt>Delivered</dt>
            <dd>
              <Moment at={email.sent_at} exactly />
            </dd>
          </>
        )}
        {source && source.length > 0 && (
          <>
            <dt>Sent from</dt>
            <dd className="mono">{source.join(', ')}</dd>
          </>
        )}
        <dt>TLS</dt>
        <dd>{email.tls}</dd>
        {email.api_key_id && <SentWith keyId={email.api_key_id} />}
        <dt>Id</dt>
        <dd className="mono">
          {email.id} <Copy text={email.id} what="the id" />
        </dd>
        <dt>Message-ID</dt>
        <dd className="mono">
          {messageIdOf(email)} <Copy text={messageIdOf(email)} what="the Message-ID" />
        </dd>
      </dl>
    </Panel>
  );
}

/** The API key, with a link to all that was sent with it. */
function SentWith({ keyId }: { keyId: string }) {
  const { data } = useKeys();
  const name = data?.api_keys.find(({ id }) => id === keyId)?.name ?? keyId;
  return (
    <>
      <dt>API key</dt>
      <dd>
        <Link href={`/emails?key=${keyId}`} className="link wrap-anywhere" dir="auto">
          {name}
        </Link>
      </dd>
    </>
  );
}
