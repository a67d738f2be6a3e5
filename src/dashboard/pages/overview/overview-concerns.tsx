import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import type { Bucket, Domain, Finding, Session, Webhook } from '../../../client/index.ts';
import { api, isStatus } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { Failed } from '../../parts/failure.tsx';
import { Panel } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { count, exact, percent, plural, spaced } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';
import type { Span } from '../../words/spans.ts';
import { type AllEmails, useAllAccounts } from './all-accounts.tsx';
import type { Concern } from './concern.ts';
import { type AccountFailures, useFailingAccounts } from './failing-accounts.ts';
import { failuresByClass } from './overview-failures.tsx';
import { ofRefusing, ofStopped, unreachedDestinations } from './unreached-destinations.ts';

/** Receivers begin to mind a tenth of failed mail, or complaints from one reader in a thousand. */
const worryingFailures = 0.1;
const worryingComplaints = 0.001;
/** With fewer emails than this a percentage says little. */
const fewest = 20;
/** When this part of a plan is left, there may not be enough until the day or the month is over. */
const scarce = 0.1;

/**
 * What needs somebody's attention, in words.
 *
 * @param props.time how far back the numbers go
 * @param props.hasOthers whether others send with this server, whom an operator looks after as well
 */
export function Concerns({ buckets, time, hasOthers }: { buckets: Bucket[]; time: Span; hasOthers: boolean }) {
  const { user, account, service } = useSession();
  const isAdmin = user.role === 'admin';
  const query = useQuery({
    queryKey: ['concerns', isAdmin, hasOthers],
    queryFn: () => findTroubles(isAdmin, hasOthers),
    refetchInterval: 30_000,
  });
  const { data } = query;
  // Less often: the query also reads through emails that wait for a pause to end.
  const held = useQuery({
    queryKey: ['held'],
    queryFn: () => api.emails.list({ held: 'true', limit: 1 }),
    refetchInterval: 60_000,
  });
  // Nothing above says so: what is there can be read from a database that can no longer be written to.
  const ready = useQuery({ queryKey: ['ready'], queryFn: isReady, refetchInterval: 10_000 });
  const machine = useQuery({
    queryKey: ['machine'],
    queryFn: () => api.admin.doctor.examine({ only: 'machine' }),
    enabled: isAdmin,
    refetchInterval: 300_000,
  });
  const all = useAllAccounts(time, hasOthers);
  const failing = useFailingAccounts(time, hasOthers);
  const asked = hasOthers ? [query, held, failing] : [query, held];
  const concerns = [
    ...(ready.data === false ? ofRefusal(isAdmin) : []),
    ...ofHold(service, isAdmin),
    ...ofMachine(machine.data?.findings ?? []),
    // During an upgrade a node of the previous release may answer, which does not say that.
    ...(account.left ? ofPlan(account, isAdmin) : []),
    ...ofHeld(held.data?.count ?? 0),
    ...(data ?? []),
    ...ofNumbers(buckets, time),
    ...ofOthers(all.data, failing.data, time),
  ].sort((a, b) => Number(b.urgent) - Number(a.urgent));
  return (
    <Panel title="What needs attention">
      <Failed query={asked.find(({ error }) => error) ?? query} />
      {asked.every((one) => one.data) && concerns.length === 0 && (
        <div className="body soft" style={{ fontSize: 13 }}>
          Nothing: domains are in order, and webhooks answer.
        </div>
      )}
      <ul className="concerns">
        {concerns.map((concern) => (
          <ConcernLine key={`${concern.href} ${concern.words}`} concern={concern} />
        ))}
      </ul>
    </Panel>
  );
}

function ConcernLine({ concern }: { concern: Concern }) {
  const { urgent, words, href, link, more } = concern;
  return (
    <li>
      <Status value={urgent ? 'now' : 'soon'} tone={urgent ? 'bad' : 'wait'} />
      <span className="wrap-anywhere">
        {inOwnLetters(words)}{' '}
        <Link href={href} className="link">
          {link}
        </Link>
        {more && (
          <>
            {' · '}
            <Link href={more.href} className="link">
              {more.link}
            </Link>
          </>
        )}
      </span>
    </li>
  );
}

/** What is wrong with the destinations, domains and webhooks that mail depends on. */
async function findTroubles(isAdmin: boolean, hasOthers: boolean): Promise<Concern[]> {
  const [{ domains }, { webhooks }, destinations, missing] = await Promise.all([
    api.domains.list(),
    api.webhooks.list(),
    isAdmin ? unreachedDestinations() : { stopped: [], refusing: [], otherRefusing: 0 },
    hasOthers ? api.admin.accounts.list({ webhooks: 'failing', limit: 1 }) : { count: 0 },
  ]);
  const own = ofWebhooks(webhooks);
  // Their own account is among them, and its webhooks are named.
  const others = missing.count - Number(own.length > 0);
  return [
    ...ofRefusing(destinations),
    ...ofStopped(destinations),
    ...ofDomains(domains),
    ...own,
    ...ofWebhooksOfOthers(others),
  ];
}

/** Whether the server can store mail. Any answer but this one says nothing about that. */
async function isReady(): Promise<boolean> {
  try {
    await api.service.isReady();
    return true;
  } catch (error) {
    if (isStatus(error, 503)) return false;
    throw error;
  }
}

function ofRefusal(isAdmin: boolean): Concern[] {
  if (!isAdmin) {
    const words = 'Mail is refused for now, with a 503 or 451, as the server cannot store it. Its operators see why.';
    return [{ urgent: true, words, href: '/emails', link: 'Show what was accepted' }];
  }
  const words =
    'Mail is refused with a 503 or 451: the database has no disk space left, cannot be written to, or does not answer. The log says which.';
  return [{ urgent: true, words, href: '/doctor', link: 'Check the server' }];
}

function ofHold({ on_hold_since: since, delivers }: Session['service'], isAdmin: boolean): Concern[] {
  // A node of the previous release does not say who delivers.
  if (since === null && delivers !== false) return [];
  const waiting = isAdmin ? '/emails?status=queued&accounts=all' : '/emails?status=queued';
  const seen = { href: waiting, link: 'Show what waits' };
  if (since === null) {
    const remedy = isAdmin ? ': start one whose ROLES have mta' : ', which its operators have to start';
    return [{ urgent: true, words: `Nothing is sent: no process that delivers mail is running${remedy}.`, ...seen }];
  }
  const words = `Nothing has been sent since ${exact(new Date(since))}: the service is on hold${isAdmin ? '' : ' until its operators end it'}.`;
  return [{ urgent: true, words, ...seen }];
}

/** What ends in refused mail or failed connections if nobody acts: with these, soon. */
const pressing: Finding['check'][] = ['disk_space', 'smtp_certificate'];

function ofMachine(findings: Finding[]): Concern[] {
  return findings.flatMap(({ check, subject, health, found, advice }): Concern[] => {
    if (health !== 'problem') return [];
    const words = `The server's ${spaced(check)}, ${subject}: ${found}${advice ? ` ${advice}` : ''}`;
    return [{ urgent: pressing.includes(check), words, href: '/doctor', link: 'Check the server' }];
  });
}

/** Its own mail is refused when the plan is used up: the month's part or, for a shorter time, the day's. */
function ofPlan({ name, plan, usage, left }: Session['account'], isAdmin: boolean): Concern[] {
  const short = (
    [
      ['month', 'this month', 'the next month'],
      ['day', 'today', 'tomorrow'],
    ] as const
  ).flatMap(([span, when, until]) => {
    const [sent, rest] = [usage[span] ?? 0, left[span]];
    return rest === null || rest > scarce * (sent + rest) ? [] : [{ sent, rest, when, until }];
  });
  const worst = short.find(({ rest }) => rest === 0) ?? short[0];
  if (!worst) return [];
  const { sent, rest, when, until } = worst;
  const change = isAdmin
    ? { href: `/accounts?q=${encodeURIComponent(name)}`, link: 'Change the plan' }
    : { href: '/emails?time=30d', link: 'Show what was sent' };
  const whom = isAdmin ? '' : ' The operators of the server can change it.';
  const words =
    rest === 0
      ? `Your emails are refused until ${until} (UTC): the ${count(sent)} of ${when} use up the plan ${plan}.${whom}`
      : `The plan ${plan} allows ${plural(rest, 'more email')} ${when} (UTC), after ${count(sent)}.${whom}`;
  return [{ urgent: rest === 0, words, ...change }];
}

function ofHeld(count: number): Concern[] {
  if (count === 0) return [];
  const words = `${plural(count, 'email')} ${count === 1 ? 'waits' : 'wait'} for your decision: send again, or mark as delivered or failed.`;
  return [{ urgent: true, words, href: '/emails?held=true', link: count === 1 ? 'Show it' : 'Show them' }];
}

/** Of so many each is named. More of them would hide the rest, and the numbers below: they are counted. */
const mostNamed = 5;

const namedOrCounted = (named: Concern[], counted: (many: number) => Concern): Concern[] =>
  named.length > mostNamed ? [counted(named.length)] : named;

function ofDomains(domains: Domain[]): Concern[] {
  const seen = (id: string) => ({ href: `/domains/${id}`, link: 'Show its records' });
  const warned = domains.flatMap(({ id, domain, status, dns_warning: warning }): Concern[] =>
    status === 'pending' || !warning
      ? []
      : [{ urgent: true, words: `${domain}: ${warning}.`.replace(/\.\.$/, '.'), ...seen(id) }],
  );
  const pending = domains
    .filter(({ status }) => status === 'pending')
    .map(({ id, domain }): Concern => {
      return { urgent: false, words: `${domain} cannot send yet: its DNS records are not verified.`, ...seen(id) };
    });
  return [
    ...namedOrCounted(warned, (many) => {
      const words = `${count(many)} verified domains have a DNS warning.`;
      return { urgent: true, words, href: '/domains?status=warning', link: 'Show them' };
    }),
    ...namedOrCounted(pending, (many) => {
      const words = `${count(many)} domains cannot send yet: their DNS records are not verified.`;
      return { urgent: false, words, href: '/domains?status=pending', link: 'Show them' };
    }),
  ];
}

function ofWebhooks(webhooks: Webhook[]): Concern[] {
  const seen = (id: string) => ({ href: `/webhooks/${id}`, link: 'Show its calls' });
  const off = webhooks.flatMap(({ id, url, status, disabled_reason: reason }): Concern[] =>
    status === 'disabled' && reason
      ? [{ urgent: true, words: `The webhook at ${new URL(url).host} is off: ${reason}.`, ...seen(id) }]
      : [],
  );
  const failing = webhooks.flatMap(({ id, url, status, failing_since: since }): Concern[] => {
    if (status !== 'enabled' || !since) return [];
    const words = `Calls to ${new URL(url).host} have failed since ${exact(new Date(since))}.`;
    return [{ urgent: false, words, ...seen(id) }];
  });
  return [
    ...namedOrCounted(off, (many) => {
      const words = `${count(many)} webhooks are off because their calls failed.`;
      return { urgent: true, words, href: '/webhooks?status=disabled', link: 'Show them' };
    }),
    ...namedOrCounted(failing, (many) => {
      const words = `Calls to ${count(many)} webhooks fail.`;
      return { urgent: false, words, href: '/webhooks?status=failing', link: 'Show them' };
    }),
  ];
}

function ofWebhooksOfOthers(accounts: number): Concern[] {
  if (accounts <= 0) return [];
  const whose = accounts === 1 ? 'Another account has' : `${plural(accounts, 'other account')} have`;
  const words = `${whose} webhooks that fail, or were disabled because they did.`;
  return [{ urgent: false, words, href: '/accounts?webhooks=failing', link: 'Show whose' }];
}

const isWorrying = ({ sent, failed }: { sent: number; failed: number }) =>
  sent + failed >= fewest && failed / (sent + failed) > worryingFailures;

/** Names the accounts whose mail fails; if it is that of many, says so. */
function ofOthers(all: AllEmails | undefined, accounts: AccountFailures[] | undefined, time: Span): Concern[] {
  if (!all || !accounts) return [];
  const shareOf = ({ sent, failed }: { sent: number; failed: number }) => percent(failed, sent + failed);
  const seen = (id: string) => `/emails?accounts=${id}&status=failed&time=${time}`;
  const named = accounts.filter(isWorrying).map(
    (one): Concern => ({
      urgent: true,
      words: `${shareOf(one)} of the emails of the account ${one.name} failed.`,
      href: seen(one.id),
      link: 'Show them',
      more: { href: `/accounts?q=${encodeURIComponent(one.name)}`, link: 'Show the account' },
    }),
  );
  if (named.length > 0 || !isWorrying(all)) return named;
  const words = `${shareOf(all)} of the emails of all accounts failed.`;
  return [{ urgent: true, words, href: seen('all'), link: 'Show whose' }];
}

function ofNumbers(buckets: Bucket[], time: Span): Concern[] {
  const sum = (read: (bucket: Bucket) => number) => buckets.reduce((total, bucket) => total + read(bucket), 0);
  const [accepted, delivered, failed] = [
    sum((one) => one.accepted),
    sum((one) => one.delivered),
    sum((one) => one.failed),
  ];
  const complaints = sum((one) => one.complaints);
  const settled = delivered + failed;
  const concerns: Concern[] = [];
  if (settled >= fewest && failed / settled > worryingFailures) {
    const [first] = failuresByClass(buckets);
    concerns.push({
      urgent: true,
      words: `${percent(failed, settled)} of recipients failed for good${first ? `, most often for “${spaced(first[0])}”` : ''}.`,
      href: `/emails?status=failed&time=${time}`,
      link: 'Show them',
    });
  }
  if (accepted >= fewest && complaints / accepted > worryingComplaints)
    concerns.push({
      urgent: true,
      words: `${plural(complaints, 'reader')} reported your mail as spam, ${percent(complaints, accepted)} of all.`,
      href: '/suppressions?reason=complaint',
      link: 'Show who',
    });
  return concerns;
}
