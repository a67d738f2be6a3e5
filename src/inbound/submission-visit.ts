import type { SMTPServerAddress, SMTPServerDataStream, SMTPServerEnvelope, SMTPServerSession } from 'smtp-server';
import type { KeyHolder } from '../core/accounts/keys.ts';
import { addedDomains, senderDomains } from '../core/domains/sender-domains.ts';
import type { Acceptance } from '../core/emails/acceptance.ts';
import type { Accepted } from '../core/emails/emails.ts';
import type { Database } from '../db/client.ts';
import { isUnavailable } from '../db/errors.ts';
import { notVerified } from '../errors.ts';
import type { Logger } from '../log.ts';
import { AddressError, isAscii, type Mailbox, parseMailbox } from '../mail/address/address.ts';
import { readSubmission } from '../mail/submission/submission.ts';
import type { TokenBuckets } from '../pace/rate-limit.ts';
import { notNow, Refusal } from './refusal.ts';
import type { ContentRoom } from './submission-content.ts';
import type { SubmissionLogin } from './submission-login.ts';
import { badSender, refusalOf, tooManyOfAccount, tooManyRequests } from './submission-replies.ts';
import { type Submission, toSubmission } from './submission-request.ts';

/** Being this stale is safe: accepting checks the sender's domain again in its transaction. */
const freshMs = 1_000;

interface Tools {
  db: Database;
  acceptance: Acceptance;
  log: Logger;
  limiter: TokenBuckets;
  login: SubmissionLogin;
  room: ContentRoom;
  /** Whether this account may have one more connection. */
  mayStay: (accountId: string) => boolean;
}

/** The stored answer to an idempotent submission. */
interface Kept {
  emailId: string;
  status: string;
}

/** One client's connection, from its login on. Every method throws a Refusal if the client is to be refused. */
export class SubmissionVisit {
  /** Empty until the client has logged in. */
  accountId = '';
  /** The last login failed, and the client may not try again. */
  isOver = false;
  /** A message is being received or accepted. */
  busy = false;
  readonly #tools: Tools;
  readonly #session: SMTPServerSession;
  #key = '';
  #failedLogins = 0;
  /** The last verified domain, for messages that follow right after the first. */
  #verified = { accountId: '', domain: '', until: 0 };

  constructor(tools: Tools, session: SMTPServerSession) {
    this.#tools = tools;
    this.#session = session;
  }

  /** @returns the user name for the session: the key's id */
  async logIn(password: string | null | undefined): Promise<string> {
    const { keyId, accountId } = await this.#holderOf(password);
    if (!this.#tools.mayStay(accountId)) {
      this.isOver = true;
      throw tooManyOfAccount();
    }
    this.accountId = accountId;
    this.#key = password ?? '';
    return keyId;
  }

  async #holderOf(password: string | null | undefined): Promise<KeyHolder> {
    const { login } = this.#tools;
    try {
      return await login.holderOf(password);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.responseCode !== 535) throw new Refusal(454, '4.7.0', 'logins are not possible now, try again');
      this.#failedLogins += 1;
      this.isOver = !login.mayTryAgain(this.#failedLogins, this.#session.remoteAddress);
      throw error;
    }
  }

  /** The envelope sender must belong to the account too, or be empty. */
  async mailFrom(sender: SMTPServerAddress, envelope: SMTPServerEnvelope): Promise<void> {
    try {
      refuseParameters(sender, ['SIZE', 'BODY', 'SMTPUTF8', 'AUTH']);
      await this.#admit(sender.address, envelope);
    } catch (error) {
      // smtp-server keeps the parameters of a refused MAIL and would apply them to the next one.
      Object.assign(envelope, { requireTLS: false, smtpUtf8: false });
      throw error;
    }
  }

  async #admit(address: string, envelope: SMTPServerEnvelope): Promise<void> {
    const holder = await this.#tools.login.holderOf(this.#key);
    const { waitSeconds } = this.#tools.limiter.take(holder.keyId);
    if (waitSeconds > 0) throw tooManyRequests(waitSeconds, 'this API key sends too many messages a second');
    if (address === '') return;
    const { domain } = parseAddress(address, envelope, '5.1.7');
    await this.#demandOwn(holder, 'MAIL FROM', domain);
  }

  async recipient(recipient: SMTPServerAddress, envelope: SMTPServerEnvelope): Promise<void> {
    refuseParameters(recipient, []);
    parseAddress(recipient.address, envelope, '5.1.3');
  }

  /** @returns the text of the 250, when everything is committed: in Postfix's words, in which PHPMailer finds the id */
  async accept(stream: SMTPServerDataStream): Promise<string> {
    const { log, room } = this.#tools;
    const started = performance.now();
    this.busy = true;
    // Copied now: smtp-server empties the session's envelope when the client leaves or starts over.
    const { rcptTo } = this.#session.envelope;
    const recipients = rcptTo.map(({ address }) => parseMailbox(address));
    try {
      const { emailId, status } = await room.read(this.accountId, stream, (message) =>
        this.#submit(message, recipients),
      );
      log.info({ emailId, status, ms: Math.round(performance.now() - started) }, 'submission');
      return `2.0.0 Ok: queued as ${emailId}${status === 'suppressed' ? ' (suppressed)' : ''}`;
    } catch (error) {
      if (error instanceof Refusal) log.info({ reply: `${error.responseCode} ${error.message}` }, 'submission refused');
      throw error;
    } finally {
      this.busy = false;
    }
  }

  async #submit(message: Buffer, recipients: Mailbox[]): Promise<Kept> {
    let domain = '';
    try {
      const submitted = await readSubmission(message);
      domain = submitted.from.domain;
      const submission = toSubmission(submitted, recipients);
      const holder = await this.#tools.login.holderOf(this.#key);
      if (submitted.sender) await this.#demandOwn(holder, 'Sender', submitted.sender.domain);
      return await this.#store(holder, submission);
    } catch (error) {
      throw refusalOf(error, domain) ?? error;
    }
  }

  async #store(holder: KeyHolder, { request, idempotency }: Submission): Promise<Kept> {
    const call = { requests: [request], idempotency, respond: kept };
    return (await this.#tools.acceptance.answer(holder, call)).response as Kept;
  }

  async #demandOwn(holder: KeyHolder, field: string, domain: string): Promise<void> {
    if (!(await this.#isVerified(holder, domain))) {
      const added = await orNotNow(addedDomains(this.#tools.db, holder.accountId, [domain]));
      throw badSender(`${field}: ${notVerified(domain, added.has(domain))}`);
    }
    if (holder.domains.length > 0 && !holder.domains.includes(domain))
      throw badSender(`${field}: this API key may not send for ${domain}`);
  }

  async #isVerified({ accountId }: KeyHolder, domain: string): Promise<boolean> {
    const known = this.#verified;
    if (known.accountId === accountId && known.domain === domain && performance.now() < known.until) return true;
    const verified = (await orNotNow(senderDomains(this.#tools.db, accountId, [domain]))).has(domain);
    if (verified) this.#verified = { accountId, domain, until: performance.now() + freshMs };
    return verified;
  }
}

/** @throws Refusal 451 when the database is unavailable */
async function orNotNow<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw isUnavailable(error) ? notNow() : error;
  }
}

function kept([accepted]: Accepted[]): Kept {
  if (!accepted) throw new Error('Acceptance.answer gave nothing for a request');
  if ('refusal' in accepted) throw accepted.refusal;
  return { emailId: accepted.email.id, status: accepted.email.status };
}

/**
 * Ignored, a parameter would be a promise that is not kept: to hold the message, to report its delivery.
 *
 * @throws Refusal 555 for one that is not offered (RFC 5321 section 4.1.1.11)
 */
function refuseParameters({ args }: SMTPServerAddress, offered: string[]): void {
  const unknown = Object.keys(args).find((name) => !offered.includes(name));
  if (unknown !== undefined) throw new Refusal(555, '5.5.4', `${unknown.slice(0, 100)} is not offered`);
}

/** As strict as the REST API: the RCPT to the destination carries exactly the address checked here. */
function parseAddress(text: string, { smtpUtf8 }: SMTPServerEnvelope, enhanced: string): Mailbox {
  let mailbox: Mailbox;
  try {
    mailbox = parseMailbox(text);
  } catch (error) {
    if (error instanceof AddressError) throw new Refusal(553, enhanced, `${text.slice(0, 100)}: ${error.message}`);
    throw error;
  }
  if (!smtpUtf8 && !isAscii(mailbox.local)) throw new Refusal(553, '5.6.7', `${text.slice(0, 100)}: needs SMTPUTF8`);
  return mailbox;
}
