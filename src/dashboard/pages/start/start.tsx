import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import type { ApiKey, Domain, ListedEmail } from '../../../client/index.ts';
import { useShownOnce } from '../../browser/interrupted.ts';
import { api, askAgain } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Icon } from '../../look/icons.tsx';
import { useAction } from '../../parts/action.tsx';
import { Command } from '../../parts/copy.tsx';
import { Failed, Failure, Waiting } from '../../parts/failure.tsx';
import { FirstEmail } from '../../parts/first-email.tsx';
import { Form, TextField } from '../../parts/form.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead, Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { ownAddress } from '../../words/commands.ts';
import { isForLater, plural, shownSubject, whatBecame } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import { useKeys } from '../keys/all-keys.ts';
import { chooseSender } from '../keys/first-sender.ts';
import { revokeIt } from '../keys/key-standing.ts';
import { SandboxMessageView } from '../sandbox/sandbox-message.tsx';

/** From nothing to a delivered email, in three steps that tick themselves off. */
export function Start() {
  const session = useSession();
  const { service } = session;
  const [newKey, setNewKey] = useState<string | null>(null);
  useShownOnce(newKey && 'the key', revokeIt);
  const domains = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list(), refetchInterval: 10_000 });
  const keys = useKeys();
  const latest = useQuery({
    queryKey: ['emails', 'latest'],
    queryFn: () => api.emails.list({ limit: 1 }),
    refetchInterval: ({ state }) => (state.data?.emails[0]?.status === 'queued' ? 1_000 : false),
  });
  const sent = useQuery({ queryKey: ['emails', 'sent'], queryFn: () => api.emails.list({ limit: 1, status: 'sent' }) });
  const error = domains.error ?? keys.error ?? latest.error;
  const retry = () => void askAgain();
  const head = (
    <PageHead title="Start" words="Three steps to your first delivered email. Each is ticked off automatically." />
  );
  if (!domains.data || !keys.data || !latest.data)
    return (
      <>
        {head}
        {error ? <Failure error={error} retry={retry} /> : <Waiting />}
      </>
    );
  // The key that was just created may send from any domain.
  const usable = newKey ? [] : keys.data.api_keys;
  const { domain: verified, key, lacking } = chooseSender(domains.data.domains, usable);
  const pending = domains.data.domains.find(({ status }) => status === 'pending');
  const email = latest.data.emails[0];
  return (
    <>
      {head}
      {error && <Failure error={error} retry={retry} isBelow />}
      <ol className="steps">
        <DomainStep verified={verified} pending={pending} />
        <KeyStep usable={key} lacking={lacking} newKey={newKey} show={setNewKey} />
        <Step number={3} title="A first email" done={(sent.data?.count ?? 0) > 0}>
          {email ? (
            <Latest email={email} count={latest.data.count} />
          ) : (
            <p>
              {verified
                ? `${key || newKey ? 'Paste' : 'Once you have a key that can send, paste'} this into a terminal or a file${newKey ? '' : ', with your key in it'}, or send one from here.`
                : 'Once a domain is verified, paste this.'}{' '}
              You will see at once what happens to it.
            </p>
          )}
          <FirstEmail from={verified?.domain} apiKey={newKey ?? undefined} />
          {verified && <SendOne from={verified.domain} />}
        </Step>
      </ol>
      {service.sandbox && <Received emailId={email?.id} />}
    </>
  );
}

function Step(props: { number: number; title: string; done: boolean; children: ReactNode }) {
  const { number, title, done, children } = props;
  return (
    <li className="step" data-done={done}>
      <span className="mark">{done ? <Icon name="check" size={14} /> : number}</span>
      <div>
        <h2 className="step-title">
          {title}{' '}
          {done && (
            <span className="dim" style={{ fontWeight: 400 }}>
              · done
            </span>
          )}
        </h2>
        {children}
      </div>
    </li>
  );
}

function DomainStep({ verified, pending }: { verified: Domain | undefined; pending: Domain | undefined }) {
  const { service } = useSession();
  return (
    <Step number={1} title="A sending domain" done={verified !== undefined}>
      {verified ? (
        <p>
          <b>{inOwnLetters(verified.domain)}</b> is verified: mail can be sent from any address there.
          {service.sandbox && verified.domain === 'example.test' && ' The sandbox created it for you.'}
        </p>
      ) : (
        <>
          <p>
            {pending
              ? `${inOwnLetters(pending.domain)} is waiting for its DNS records. Its page shows which of them are missing.`
              : 'Add a domain that you own, and publish three DNS records.'}
          </p>
          <Link href={pending ? `/domains/${pending.id}` : '/domains?new=1'} className="link">
            {pending ? 'Show the records' : 'Add a domain'} →
          </Link>
        </>
      )}
    </Step>
  );
}

/**
 * @param props.usable a key that can send
 * @param props.lacking why no key can; null: there is one, or there is none at all
 * @param props.newKey the one that was just created, whole
 */
function KeyStep(props: {
  usable: ApiKey | undefined;
  lacking: string | null;
  newKey: string | null;
  show: (newKey: string) => void;
}) {
  const { usable, lacking, newKey, show } = props;
  const create = useAction(
    () => api.keys.create({ name: 'first key' }),
    null,
    ({ key }) => show(key),
  );
  return (
    <Step number={2} title="An API key" done={newKey !== null || usable !== undefined}>
      {newKey ? (
        <>
          <p>Keep it now: it is shown only once.</p>
          <Command text={newKey} what="the key" />
        </>
      ) : (
        <>
          <p>
            {usable
              ? `“${usable.name}” (${usable.key_prefix}…) can be used. The whole key was shown when it was created.`
              : [lacking, 'Programs need a key to send. It is shown once.'].filter(Boolean).join(' ')}
          </p>
          <Button
            variant={usable ? 'default' : 'filled'}
            loading={create.isPending}
            onClick={() => create.mutate(undefined)}
          >
            {usable ? 'Create another one' : 'Create a key'}
          </Button>
        </>
      )}
    </Step>
  );
}

function Latest({ email, count }: { email: ListedEmail; count: number }) {
  return (
    <p>
      The latest of {plural(count, 'email')}: <Status value={isForLater(email) ? 'scheduled' : email.status} />{' '}
      <Link href={`/emails/${email.id}`} className="link" dir="auto">
        {shownSubject(email.subject)}
      </Link>{' '}
      to <span title={email.to}>{inOwnLetters(email.to)}</span>, <Moment at={email.created_at} />
    </p>
  );
}

function SendOne({ from }: { from: string }) {
  const session = useSession();
  const { sandbox, on_hold_since: hold } = session.service;
  const send = useAction(
    (to: string) =>
      api.emails.send({
        from: `Sendwright <hello@${from}>`,
        to,
        subject: 'Your first email',
        html: '<p>It works: this came from <b>your own server</b>.</p>',
        text: 'It works: this came from your own server.',
      }),
    ({ email }) => whatBecame(email, hold !== null),
  );
  const submit = (fields: FormData) => {
    const to = String(fields.get('to')).trim();
    if (to) send.mutate(to);
  };
  return (
    <Form action={send} submit={submit}>
      <Group gap="xs" mt="sm" align="flex-start">
        <TextField
          name="to"
          aria-label="Send to"
          placeholder="you@example.com"
          defaultValue={ownAddress(session) ?? ''}
          w={240}
        />
        <Button type="submit" loading={send.isPending}>
          Send a test email
        </Button>
        {sandbox && (
          <span className="dim" style={{ fontSize: 12.5, paddingTop: 6 }}>
            Try bounced@, deferred@ or complained@anywhere.test, too.
          </span>
        )}
      </Group>
    </Form>
  );
}

/** The latest message in the sandbox's mailbox. */
function Received({ emailId }: { emailId: string | undefined }) {
  const messages = useQuery({
    queryKey: ['sandbox', 'latest', emailId],
    queryFn: () => api.sandbox.list({ limit: 1 }),
    refetchInterval: ({ state }) => (emailId && state.data?.count === 0 ? 1_000 : false),
  });
  const message = messages.data?.messages[0];
  return (
    <Panel
      title="Latest message in the sandbox mailbox"
      actions={
        <Link href="/sandbox" className="link" style={{ fontSize: 13 }}>
          All messages →
        </Link>
      }
    >
      <Failed query={messages} />
      {message ? (
        <SandboxMessageView id={message.id} />
      ) : (
        <div className="empty">
          <h2 className="empty-title">Nothing yet</h2>
          <p>Mail to any address arrives here through the real MTA, and none leaves this machine.</p>
        </div>
      )}
    </Panel>
  );
}
