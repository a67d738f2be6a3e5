import { z } from 'zod';
import { uncertainPolicies } from '../../core/orders/uncertainty.ts';
import { tlsLevels } from '../../smtp/replies/tls-names.ts';
import { emailStatuses } from '../input/log-query.ts';
import { flag, id, integer, list, oneOf, time, total, words } from './schema.ts';

const recipientStatuses = ['queued', 'deferred', 'delivered', 'failed', 'suppressed', 'canceled'] as const;

const emailFields = {
  id: id('Its id.'),
  status: oneOf(
    emailStatuses,
    '`queued`: at least one recipient is not settled; `sent`: delivered to all; `failed`: at least one failed for good; `suppressed`: a recipient is on the suppression list, and nobody got the email (if the address was added to the list while the email waited, the others got it); `canceled`: canceled before it was sent.',
  ),
  from: words('The sender.'),
  to: words('The first recipient.'),
  cc: list(z.string(), 'Recipients of a copy.'),
  bcc: list(z.string(), 'Recipients of a blind copy.'),
  reply_to: list(z.string(), 'Where replies go.'),
  subject: words('The subject line.'),
  tags: list(z.string(), 'Its labels.'),
  type: oneOf(['transactional', 'marketing'], 'Its type.'),
  created_at: time('When it was accepted.'),
  scheduled_at: time('When it is to be sent; absent if it was not scheduled.').optional(),
  sent_at: time('When it was delivered to the last recipient; null unless all have it.').nullable(),
  error: words('Why it failed or was suppressed; null otherwise.').nullable(),
};

export const email = z.object(emailFields).meta({ id: 'Email', description: 'An email in the log.' });

const returnKinds = ['bounce', 'delay', 'complaint', 'unsubscribe'] as const;

const listedFields = {
  ...emailFields,
  returned: list(z.enum(returnKinds), 'What came back after delivery: each kind once; `returns` has the details.'),
  recipient_count: integer('How many recipients it has in to, cc and bcc.'),
  held: flag('A recipient is held until you decide with `release`; `explain` says why.'),
};

export const listedEmail = z.object(listedFields).meta({ id: 'ListedEmail', description: 'An email in a list.' });

export const accountEmail = z
  .object({ ...listedFields, account_id: id('The account that sent it.') })
  .meta({ id: 'AccountEmail', description: 'An email in the log of all accounts.' });

const whenNext = 'When it is tried next; null once settled, while its destination is paused, and while it is held.';

const recipient = z
  .object({
    address: words('The address.'),
    kind: oneOf(['to', 'cc', 'bcc'], 'Its field in the request.'),
    status: oneOf(recipientStatuses, 'Its status; `deferred`: the server said "later".'),
    attempts: integer('How often it was tried.'),
    last_response: words('The last reply of the server, or our own last note.').nullable(),
    waiting_for: words(
      'Why it is due but not tried, such as a limit, a back-off or a pause; or which step it is in.',
    ).nullable(),
    next_attempt_at: time(whenNext).nullable(),
  })
  .meta({ id: 'Recipient', description: 'One recipient of an email.' });

const returned = z
  .object({
    recipient: words('The recipient that it is about.'),
    kind: oneOf(
      returnKinds,
      '`bounce`: a server gave up after it had accepted the email; `delay`: it still tries; `complaint`: the reader reported spam.',
    ),
    classification: words('The class of a bounce or delay, such as `bad_mailbox`.').nullable(),
    enhanced_code: words('The enhanced code (RFC 3463), such as `5.1.1`.').nullable(),
    diagnostic: words('The text of the report.').nullable(),
    received_at: time('When it arrived.'),
  })
  .meta({ id: 'Return', description: 'What came back after delivery. The status of the email does not change.' });

export const emailWithRecipients = z
  .object({
    ...emailFields,
    tls: oneOf(tlsLevels, 'The TLS that it requires; the domain and the receiver may require more.'),
    on_uncertain: oneOf(uncertainPolicies, 'What to do after an attempt that may have delivered it.'),
    api_key_id: id('The API key that sent it; null if a user did, who was logged in.').nullable(),
    recipients: list(recipient, 'Each recipient: first to, then cc and bcc.'),
    returns: list(returned, 'What came back later, oldest first.'),
  })
  .meta({ id: 'EmailWithRecipients', description: 'An email with the status of each recipient.' });

export const content = z
  .object({
    html: words('The body as HTML.').nullable(),
    text: words('The body as plain text.').nullable(),
    headers: list(
      z.object({ name: words('Its name.'), value: words('Its value.') }),
      'Header fields from the request.',
    ),
    attachments: list(
      z.object({
        filename: words('The name that the recipient sees.'),
        content_type: words('The MIME type.'),
        content_id: words('Its name in `cid:` links in the html; null for a plain attachment.').nullable(),
        size: integer('In bytes.'),
      }),
      'Its files.',
    ),
  })
  .meta({ id: 'EmailContent', description: 'The content of an email.' });

export const attempt = z
  .object({
    id: id('Its id.'),
    at: time('When it began.'),
    number: integer('The number of the attempt for this recipient, from 1.'),
    recipient: words('The recipient.'),
    mx_host: words('The host that was tried; null if it failed before there was one.').nullable(),
    remote_address: words('Its IP address; null if none of several answered.').nullable(),
    local_address: words('The address that we connected from.').nullable(),
    tls_version: words('Such as `TLSv1.3`; null when it was not encrypted.').nullable(),
    tls_cipher: words('The cipher.').nullable(),
    verification: words(
      'The TLS policy that applied, or that forbade the connection: `opportunistic`, `required`, `verified`, `mta-sts` or `dane`; `none`: not encrypted, or no connection.',
    ),
    phase: words('The SMTP command that decided it, or `dns`, `connect`, `local`.'),
    outcome: oneOf(['delivered', 'deferred', 'bounced'], 'The outcome; `bounced` is final.'),
    uncertain: flag('We sent the message but got no reply: the server may have it.'),
    reply_code: integer('The code of the reply, such as 550.').nullable(),
    enhanced_code: words('The enhanced code (RFC 3463), such as `5.1.1`.').nullable(),
    reply: words("The server's full reply; null if no reply decided it.").nullable(),
    reason: words('What happened, in one sentence.'),
    duration_ms: integer('How long it took.'),
    classification: words('The class of a failure, such as `bad_mailbox` or `rate`.').nullable(),
    conversation: list(
      z.object({
        ms: integer('Milliseconds since the start.'),
        by: oneOf(
          ['us', 'server', 'note'],
          'Who sent the line; `note`: something that we looked up, decided or observed.',
        ),
        text: words('The command, or a line of a reply.'),
      }),
      'The SMTP conversation without the message itself; shared by all recipients of a session, and empty if there was none.',
    ),
  })
  .meta({ id: 'Attempt', description: 'One SMTP attempt: one recipient at one MX host.' });

/** What holds for a destination. */
export const tlsOutlook = z.object({
  policy: oneOf([...tlsLevels, 'mta-sts', 'dane'], 'The policy that applies.'),
  source: words('Where the policy comes from; `default`: nothing is required.'),
  notes: list(z.string(), 'Notes about it.'),
});

export const source = z.object({
  pool: words('The pool of sending addresses.'),
  ips: list(z.string(), 'Its addresses.'),
  notes: list(z.string(), 'Which addresses are new, and why the pool of the domain is not used.'),
});

export const explanation = z
  .object({
    address: words('The recipient.'),
    status: oneOf(recipientStatuses, 'Its status.'),
    cause: words(
      'Why it has this status: `scheduled`, `in_queue`, `on_hold`, `being_delivered`, `held_back`, `uncertain`, `crashed`, `retrying`, `refused`, `given_up`, `suppressed` or `canceled`; null when delivered.',
    ).nullable(),
    classification: words('The class of a failure.').nullable(),
    sentence: words('The explanation in words.'),
    advice: words('What you can do; null if there is nothing to do.').nullable(),
    attempts: integer('How often it was tried.'),
    last_attempt: z
      .object({
        at: time('When.'),
        mx_host: words('The MX host.').nullable(),
        phase: words('The SMTP command.'),
        response: words('The reply.'),
        uncertain: flag('The server may have the message anyway.'),
      })
      .nullable()
      .describe('The last attempt; null before the first.'),
    tls: tlsOutlook
      .nullable()
      .describe(
        'How the connection will be secured; null once settled, after the first ten destinations, and if DNS does not answer within ten seconds.',
      ),
    next_attempt_at: time(whenNext).nullable(),
    gives_up_at: time('When we give up if nothing changes; null once settled.').nullable(),
  })
  .meta({ id: 'Explanation', description: 'Why a recipient has its status, and what happens next.' });

/** What a page of a log has beside its emails. */
export const besideEmails = {
  count: total,
  count_exact: flag(
    'False if more may match than `count` says: a search for a recipient, for held or scheduled emails, or by more than one of tag, sender and domain counts up to 10,000; a search by words or by the recipients’ domain, up to 1,000.',
  ),
  next_cursor: id(
    'The `cursor` of the next page; null on the last. A search by the recipients’ domain looks at 100,000 emails at a time, so a page may be short or empty although another follows.',
  ).nullable(),
};
