import { isAscii as isAsciiBytes } from 'node:buffer';
import type { Clock } from '../../clock.ts';
import type { Unanswered } from '../../core/nodes/unanswered.ts';
import { objections, objectionTo } from '../../core/outgoing/objection.ts';
import type { OutgoingEmail } from '../../core/outgoing/outgoing.ts';
import { isPersonal } from '../../core/outgoing/outgoing-message.ts';
import type { Claim } from '../../core/recipients/recipients.ts';
import type { Logger } from '../../log.ts';
import { createReturnPath } from '../../mail/links/token.ts';
import type { Metrics } from '../../process/metrics.ts';
import { patient } from '../../smtp/connections/deadlines.ts';
import type { SiteLimits } from '../../smtp/connections/site-connections.ts';
import { type Delivery, deliver, type RecipientResult, type Session, type Transport } from '../../smtp/deliver.ts';
import { type Failure, failed, localFailure } from '../../smtp/replies/result.ts';
import { slowDown } from '../../smtp/rules/classify.ts';
import type { Lease } from '../claims/lease.ts';
import type { MessageBuilder } from '../message/message.ts';
import { type AttemptRecord, isSuppressed, type RetryRules, record } from '../outcome/attempt-record.ts';
import { finalResult, isBeforeMail } from '../outcome/outcome.ts';
import type { RetryPolicy } from '../outcome/schedule.ts';
import type { Ending } from '../outcome/winding-down.ts';
import type { Source } from '../pools/source-addresses.ts';
import type { Journal } from './journal.ts';

/** How many tries have the usual deadlines. Mail that is left then may be for a server that is always slow. */
const hastyTries = 2;

/** What all attempts share. */
export interface AttemptTools {
  transport: Transport;
  messages: MessageBuilder;
  lease: Lease;
  /** The clock by which times are set; see `DatabaseClock`. */
  clock: Clock;
  journal: Journal;
  /** Notes emails that must be held if nobody knows whether they arrived. */
  unanswered: Pick<Unanswered, 'note'>;
  policy: RetryPolicy;
  returnPath: { key: Buffer; host: string };
  log: Logger;
  metrics: Metrics;
}

/** How an attempt is made. */
interface How {
  /** The site that takes the mail, and what it may have at once now. */
  site: SiteLimits;
  /** The limits in force, as a sentence for the record. */
  remark: string | null;
  /** What it leaves from; null: the system chooses. */
  source: Source | null;
  /** The node's shutdown. What it cuts short is due again at once, and the attempt does not count. */
  ending: Ending;
  /** Called for each message sent; one attempt can send several. */
  onMessage?: () => void;
}

/** How often an email that cannot be built is tried: the defect may be fixed, or affect one node only. */
const triesForDefects = 5;

/**
 * Tries once to deliver an email to the recipients of one destination.
 *
 * @returns the record to store; does not throw
 */
export async function attempt(
  tools: AttemptTools,
  claim: Claim,
  email: OutgoingEmail | undefined,
  how: How,
): Promise<AttemptRecord> {
  const delivery = await tryDelivery(tools, claim, email, how);
  return record(tools, claim, delivery, email, how.ending);
}

async function tryDelivery(
  tools: AttemptTools,
  claim: Claim,
  email: OutgoingEmail | undefined,
  how: How,
): Promise<Delivery> {
  const all = addressesOf(claim.recipients);
  const signing = email?.signing;
  const objection = objectionTo(email);
  if (!email || !signing || objection !== null) return refused(all, objection ?? objections.domain, tools.clock.now());
  const suppressed = all.filter((address) => isSuppressed(email, address));
  const sessions = suppressed.length > 0 ? refused(suppressed, nowSuppressed, tools.clock.now()).sessions : [];
  const recipients = claim.recipients.filter(({ address }) => !suppressed.includes(address));
  if (recipients.length === 0) return { sessions };
  const personal = isPersonal(email);
  const copies = personal ? recipients.map((recipient) => [recipient]) : [recipients];
  for (const [index, readers] of copies.entries()) {
    const made = await deliverCopy(tools, claim, { email, signing, readers, personal }, how).catch((error: Error) =>
      notBuilt(tools, claim, readers, error),
    );
    sessions.push(...made.sessions);
    const rest = copies.slice(index + 1).flat();
    if (rest.length > 0 && how.ending.begun) {
      sessions.push(...unasked(addressesOf(rest), stopped, tools.clock.now()).sessions);
      break;
    }
    const result = rest[0] && readers[0] && finalResult(made, readers[0].address);
    if (!result || !isAboutAll(result, made)) continue;
    // The next copy would only get the same answer.
    sessions.at(-1)?.results.push(...rest.map(({ address }) => ({ ...result, recipient: address })));
    break;
  }
  return { sessions };
}

const addressesOf = (recipients: Claim['recipients']) => recipients.map(({ address }) => address);

const nowSuppressed = 'the address came onto the suppression list';

/** The record of an email whose time was over before its pool had room for it. */
export function withoutRoom(rules: RetryRules, claim: Claim, email: OutgoingEmail, reason: string): AttemptRecord {
  const waited = unasked(addressesOf(claim.recipients), localFailure(reason, 'sender'), rules.clock.now());
  return record(rules, claim, waited, email, null);
}

/**
 * True if any other recipient of the destination would have met the same result. Before the transaction each would have, unless a
 * host deferred this one's MAIL or DATA and no other host was reached: it may still take the next one. In the transaction only a
 * deferral that asks us for less mail is about all; the class `rate` alone is not enough, as it includes a single mailbox that
 * gets too much.
 */
function isAboutAll({ outcome, phase, reply }: RecipientResult, { sessions }: Delivery): boolean {
  if (isBeforeMail(phase))
    return outcome !== 'delivered' && !sessions.some(({ results }) => results.some(isDeferredByHost));
  return outcome === 'deferred' && reply !== null && slowDown(phase, reply) !== null;
}

const isDeferredByHost = ({ phase, reply }: RecipientResult) =>
  (phase === 'mail' || phase === 'data') && reply !== null && reply.code !== 421;

/** One copy of an email, sent in one transaction to all its readers. */
interface Copy {
  email: OutgoingEmail;
  signing: NonNullable<OutgoingEmail['signing']>;
  readers: Claim['recipients'];
  /** It is made for one reader. */
  personal: boolean;
}

/** The result of a copy that could not be built or handed over because of a defect of ours; other copies keep theirs. */
function notBuilt({ log, clock }: AttemptTools, { emailId }: Claim, readers: Copy['readers'], error: Error): Delivery {
  log.error({ emailId, error: error.stack }, 'an email could not be built or handed to the transport');
  const tries = Math.max(...readers.map(({ attempts }) => attempts)) + 1;
  const failure = localFailure('the message could not be built; the log of the server says why', 'sender');
  return unasked(addressesOf(readers), { ...failure, permanent: tries >= triesForDefects }, clock.now());
}

async function deliverCopy(
  tools: AttemptTools,
  claim: Claim,
  copy: Copy,
  { site, remark, source, ending, onMessage }: How,
): Promise<Delivery> {
  const { email, signing, readers, personal } = copy;
  const recipients = addressesOf(readers);
  const [reader] = readers;
  const position = reader?.position ?? 0;
  const named = { position, alone: readers.length === 1 };
  const { transport } = tools;
  const isHasty = readers.every(({ attempts }) => attempts < hastyTries);
  const mayGoOn = () => tools.lease.valid() && tools.lease.nodeId === claim.nodeId && !ending.late;
  let isNoted = false;
  return tools.messages.with(email, signing, (personal && reader) || null, (message) =>
    deliver(isHasty ? transport : { ...transport, deadlines: patient(transport.deadlines) }, {
      destination: claim.destination,
      envelope: {
        from: createReturnPath(tools.returnPath.key, email.id, tools.returnPath.host, named),
        recipients,
        // A non-ASCII header is UTF-8 in the message, whoever this copy is for.
        smtpUtf8: !isAsciiHeader(message[0]),
      },
      message,
      tls: email.tls,
      beforeDot: async (accepted, session) => {
        isNoted = false;
        if (!mayGoOn() || !(await noteIfHeld(tools, claim, email, accepted))) return false;
        await tools.journal.dot(claim, accepted, session);
        isNoted = true;
        if (!mayGoOn()) return false;
        onMessage?.();
        return true;
      },
      // Otherwise the claim's last note is of an earlier dot, which has its answer.
      afterDot: (results) => isNoted && tools.journal.answer(claim, results),
      site,
      sendingIps: source?.addresses,
      remarks: [remark, source?.note ?? null].filter((text) => text !== null),
      signal: ending.signal,
    }),
  );
}

/** @returns false if the final dot must not be written, as no other node would know of it */
async function noteIfHeld(
  { unanswered, log }: AttemptTools,
  claim: Claim,
  email: OutgoingEmail,
  accepted: string[],
): Promise<boolean> {
  if (email.onUncertain !== 'hold') return true;
  return unanswered.note(claim, accepted).catch((error: Error) => {
    const fields = { emailId: email.id, error: error.message };
    log.warn(fields, 'an email is not sent now: it could not be noted that it may have arrived');
    return false;
  });
}

function isAsciiHeader(message: Buffer): boolean {
  const end = message.indexOf('\r\n\r\n');
  return isAsciiBytes(end === -1 ? message : message.subarray(0, end));
}

const refused = (recipients: string[], reason: string, at: Date): Delivery =>
  unasked(recipients, { ...localFailure(reason, 'sender'), permanent: true }, at);

const stopped = localFailure('This server stopped before it was the turn of this recipient.', 'other');

/** A delivery that was decided without asking any server. */
export function unasked(recipients: string[], failure: Failure, startedAt: Date): Delivery {
  const session: Session = {
    startedAt,
    durationMs: 0,
    host: null,
    remoteAddress: null,
    localAddress: null,
    tls: null,
    verification: 'none',
    reused: false,
    conversation: [],
    results: recipients.map((recipient) => failed(recipient, failure)),
  };
  return { sessions: [session] };
}
