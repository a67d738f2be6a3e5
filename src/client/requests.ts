// Made from the OpenAPI document by `npm run client-types`: what the operations take.

import type { EventType } from './types.ts';

/** One of the sets of fields that a request must have. */
type Given<Names extends string> = { [Name in Names]: NonNullable<unknown> };

/** One email. Without a template, `from`, `subject`, and `html` or `text` are required; with one, only what the template lacks. */
export type SendRequest = {
  /** The sender, on a verified domain: `a@b.c` or `Name <a@b.c>`. Required unless the template has one. */
  from?: string | null;
  /** The recipients: at most 100 in to, cc and bcc together. */ to: string | string[];
  /** Recipients of a copy. */ cc?: string | string[] | null;
  /** Recipients of a blind copy, whom the others do not see. */ bcc?: string | string[] | null;
  /** Where replies go. */ reply_to?: string | string[] | null;
  /** The subject line. Required unless the template has one. */ subject?: string | null;
  /** The body as HTML. Without a template, html or text is required. */ html?: string | null;
  /** The body as plain text. */ text?: string | null;
  /** Additional header fields by name, each of at most 2,000 characters (`References`: 10,000). Fields that the service writes itself are refused. */
  headers?: ({ /** The Message-IDs of the thread. */ References?: string } & Record<string, string>) | null;
  /** Labels to search the log by. */ tags?: string[] | null;
  /** At most 10 files, of at most 10 MB each and 20 MB together. */
  attachments?:
    | {
        /** The name that the recipient sees, without folders, of at most 255 bytes. */ filename: string;
        /** The bytes as base64, at most 10 MB. */ content: string;
        /** The MIME type; `multipart/` types are not allowed. Omitted: guessed from the file extension. */
        content_type?: string | null;
        /** Embeds the file in the html, which refers to it as `cid:<content_id>`. ASCII letters, digits and `. _ + = @ -`, unique within the email. */
        content_id?: string | null;
      }[]
    | null;
  /** When to send it, at most a year ahead. Omitted: now. */ scheduled_at?: string | null;
  /** Defaults to `transactional`. Nobody who unsubscribed gets a `marketing` email. Each of its recipients gets a copy of their own, with an unsubscribe link in its header and wherever a body contains `{{{UNSUBSCRIBE_URL}}}`. */
  type?: 'transactional' | 'marketing' | null;
  /** What to do if a server may have accepted the email but its reply never came: `retry` (the default) sends it again with the same Message-ID; `hold` holds it until you decide with `POST /api/v1/emails/:id/release`. */
  on_uncertain?: 'retry' | 'hold' | null;
  /** `opportunistic` (the default) encrypts if the server supports it; `required` waits rather than send unencrypted; `verified` also requires a valid certificate. The domain and the receiver may require more. */
  tls?: 'opportunistic' | 'required' | 'verified' | null;
  /** The published template to render; html and text must then be omitted. */
  template?: {
    /** The template's id. Required when `alias` is omitted. */ id?: string | null;
    /** The template's alias. Required when `id` is omitted. */ alias?: string | null;
    /** The values of its variables, by key. */ variables?: Record<string, string | number | null> | null;
  } | null;
} & (Given<'template'> | Given<'from' | 'subject' | 'html'> | Given<'from' | 'subject' | 'text'>);

export interface PageQuery {
  /** How many to return. A value above 100 counts as 100. */ limit?: number;
  /** How many to skip, newest first. */ offset?: number;
}

export interface SendEmailQuery {
  /** `true`: returns what would happen, and sends nothing. */ dry_run?: 'true' | 'false';
}

export interface ListEmailsQuery extends PageQuery {
  /** The `next_cursor` of the previous page. Unlike `offset`, which it replaces, it stays correct while emails are added. */
  cursor?: string;
  /** Only emails with this status. */ status?: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** Only emails of this type. */ type?: 'transactional' | 'marketing';
  /** Only emails with this tag. */ tag?: string;
  /** Only emails from this address, whatever name is with it. */ from?: string;
  /** Only emails to this address, in to, cc or bcc; `@example.com` matches every address at that domain. */
  to?: string;
  /** Only emails from this sender domain. */ domain?: string;
  /** Only emails whose subject contains all of these words. */ q?: string;
  /** Only emails that this API key sent, over HTTP or by SMTP, such as one that has leaked. */
  api_key_id?: string;
  /** Only emails accepted at this time or later. */ created_after?: string;
  /** Only emails accepted before this time. */ created_before?: string;
  /** Only emails that are held until you release them, because they may have arrived already or because processes crashed on them. */
  held?: 'true';
  /** Only emails that wait for their `scheduled_at`. */ scheduled?: 'true';
}

export interface SendBatchBody {
  /** The emails, each as in a single send. */ emails: SendRequest[];
}

export interface RescheduleEmailBody {
  /** The new time to send it, at most a year ahead. */ scheduled_at: string;
}

export interface ReleaseEmailBody {
  /** `retry`: send it again now; `delivered` or `failed`: settle it with that status. */
  as: 'retry' | 'delivered' | 'failed';
}

export interface StopEmailsBody {
  /** Only emails of this type. */ type?: 'transactional' | 'marketing';
  /** Only emails with this tag. */ tag?: string;
  /** Only emails from this address, whatever name is with it. */ from?: string;
  /** Only emails to this address, in to, cc or bcc; `@example.com` matches every address at that domain. */
  to?: string;
  /** Only emails from this sender domain. */ domain?: string;
  /** Only emails whose subject contains all of these words. */ q?: string;
  /** Only emails that this API key sent, over HTTP or by SMTP, such as one that has leaked. */
  api_key_id?: string;
  /** Only emails accepted at this time or later. */ created_after?: string;
  /** Only emails accepted before this time. */ created_before?: string;
}

export interface ResendEmailBody {
  /** The recipients of the email to send it to again, such as those that failed. Omitted: all. */
  recipients?: string | string[];
}

export interface GetStatsQuery {
  /** The start of the range. Omitted: 30 days before `to`, or one day if `interval` is `hour`. */
  from?: string;
  /** The end of the range, at most 92 days after `from`, or 7 if `interval` is `hour`. Omitted: now. */
  to?: string;
  /** The length of each interval. Defaults to `day`. */ interval?: 'hour' | 'day';
  /** Counts separately by sender domain, tag, type, recipients' domain (`destination`), or the provider that runs its mail servers (`provider`). */
  group_by?: 'domain' | 'tag' | 'type' | 'destination' | 'provider';
}

export interface CreateTemplateBody {
  /** The name of the template. */ name: string;
  /** A name to use instead of the id when sending, unique within the account. */ alias?: string | null;
  /** The default sender, for emails without one. */ from?: string | null;
  /** The default subject, for emails without one. */ subject?: string | null;
  /** The default reply address, for emails without one. */ reply_to?: string | string[] | null;
  /** The body as HTML. `{{KEY}}` inserts a value escaped, `{{{KEY}}}` unescaped. */ html?: string | null;
  /** The body as plain text. `{{KEY}}` and `{{{KEY}}}` both insert a value unescaped. */ text?: string | null;
  /** Types and fallback values of variables. A placeholder need not be declared. */
  variables?:
    | {
        /** The name between the braces. */ key: string;
        /** The type of its values. */ type: 'string' | 'number';
        /** The value to use if the email has none. Omitted: a value is required. */
        fallback_value?: string | number | null;
      }[]
    | null;
}

export interface ListTemplatesQuery extends PageQuery {
  /** Only templates with this text in their name or alias; case does not matter. */ q?: string;
}

export type ChangeTemplateBody = Partial<CreateTemplateBody>;

export interface PublishTemplateBody {
  /** The `updated_at` that you last saw: the template is published only if nobody has changed it since. Omitted: the draft is published as it is. */
  updated_at?: string | null;
}

export interface RenderTemplateBody {
  /** The values of its variables, by key. */ variables?: Record<string, string | number | null> | null;
  /** The version to render. Defaults to `draft`. */ version?: 'draft' | 'published' | null;
}

export interface ListSuppressionsQuery extends PageQuery {
  /** Only addresses with this reason. */ reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Only addresses that contain this text; case does not matter. */ address?: string;
  /** Only the address that `address` is, and none that contains it. However long the list is, this is found at once. */
  exact?: 'true';
}

export interface AddSuppressionBody {
  /** The address to suppress; case does not matter. */ address: string;
  /** Defaults to `manual`. `unsubscribe` only stops marketing emails. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
}

export interface ImportSuppressionsBody {
  /** The addresses, each with the same fields as a single one. */
  suppressions: {
    /** The address to suppress; case does not matter. */ address: string;
    /** Defaults to `manual`. `unsubscribe` only stops marketing emails. */
    reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
  }[];
}

export interface EraseRecipientBody {
  /** The address whose data is erased; case does not matter. */ address: string;
  /** `keep` (the default): an address on the suppression list stays there, because nothing else stops mail to it; `remove`: its entry is removed too. */
  suppression?: 'keep' | 'remove' | null;
}

export interface ListErasuresQuery extends PageQuery {
  /** Only erasures of this address, matched by its hash. */ address?: string;
}

export interface ExportAccountQuery {
  /** `included` (the default): with the bytes of files as base64; `referenced`: without them. */
  attachments?: 'included' | 'referenced';
  /** `included` (the default), or `omitted`: they are most of an export, and say again what happened to emails. */
  webhook_deliveries?: 'included' | 'omitted';
}

export interface AddDomainBody extends ChangeDomainBody {
  /** The name, such as `shop.example.com`. A subdomain is a separate domain. */ domain: string;
}

export interface PartQuery {
  /** How many to return. A value above 100 counts as 100. Omitted: all. */ limit?: number;
  /** How many to skip, newest first. */ offset?: number;
}

export interface GetDomainQuery {
  /** Looks up the three records now, as `verify` does, and adds `checks`. Nothing changes. */ checks?: 'true';
}

export interface ChangeDomainBody {
  /** `opportunistic` encrypts if the server supports it; `required` waits rather than send unencrypted; `verified` also requires a valid certificate. */
  tls?: 'opportunistic' | 'required' | 'verified';
  /** The pool of addresses that its mail is sent from, one of those in `SENDING_IPS`; null: the pool for the type of the email. */
  pool?: string | null;
}

export interface RotateDkimBody {
  /** `rsa` replaces the signing key; `ed25519` signs in addition to it. Omitted: the algorithm of `private_key`, or `rsa`. */
  algorithm?: 'rsa' | 'ed25519';
  /** An existing private key to import, as PEM without a passphrase. Omitted: a new key is generated. */
  private_key?: string;
  /** The DKIM selector. Omitted: one that is not in use. */ selector?: string;
}

export interface CreateKeyBody {
  /** The name of the key. */ name: string;
  /** `send` allows every operation on emails and templates, and erasing recipients; `read` only reading. Defaults to `["send"]`. */
  scopes?: ('send' | 'read')[] | null;
  /** The domains of the account, verified or not, that the key may send from, and whose emails it may cancel, reschedule, stop and release; it always reads the whole log. Omitted or null: all domains of the account. An empty list is refused, so that a list that is empty by mistake does not allow all domains. */
  domains?: string[] | null;
  /** When the key expires. Omitted: never. */ expires_at?: string | null;
}

export interface CreateWebhookBody {
  /** An absolute http or https address. */ url: string;
  /** The events that it is called for. */ events: EventType[];
}

export interface ChangeWebhookBody extends Partial<CreateWebhookBody> {
  /** `enabled`: it is called, also after the server disabled it because it failed; `disabled`: it is no longer called. */
  status?: 'enabled' | 'disabled';
}

export interface ReplayWebhookBody {
  /** Deliveries made at this time or later. */ since: string;
  /** Deliveries made before this time. Omitted: now. */ until?: string | null;
}

export interface ListWebhookDeliveriesQuery extends PageQuery {
  /** Only deliveries to this endpoint. */ webhook_id?: string;
  /** Only deliveries about this email. */ email_id?: string;
  /** Only deliveries of this event. */ event?: EventType | 'webhook.test';
  /** Only deliveries with this status. */ status?: 'pending' | 'succeeded' | 'failed';
}

export interface CreateAccountBody {
  /** The name of the account. */ name: string;
  /** The email address of its first user, to log in with. */ email: string;
  /** The password of the first user, of at least 8 characters. Omitted: one is generated, and shown only in this response. */
  password?: string | null;
  /** The plan. Omitted: `DEFAULT_PLAN`, which is `free` unless the operator sets it. */
  plan?: 'free' | 'pro' | 'unlimited' | null;
}

export interface ListAccountsQuery extends PageQuery {
  /** Only accounts with this text in their name, or in the email address of a user; case does not matter. */
  q?: string;
  /** `failing`: only accounts with a webhook whose calls fail, or that the server disabled because they did. */
  webhooks?: 'failing';
  /** The order. `newest` (the default): the newest account first; `usage`: the one with the most emails accepted this month (UTC) first. */
  sort?: 'newest' | 'usage';
}

export interface ChangeAccountBody {
  /** The name of the account. */ name?: string;
  /** What it may send. `free`: 100 emails a day and 3,000 a month, from one domain; `pro`: 50,000 a month, and more for credit, from ten domains; `unlimited`: no limits. Days and months are in UTC. */
  plan?: 'free' | 'pro' | 'unlimited';
  /** `true`: its users cannot log in, it cannot send, and its queued emails fail permanently when they are due. */
  suspended?: boolean;
}

export interface AddCreditBody {
  /** The amount to add to the credit, with at most two decimal places. */ amount: number;
}

export interface ListAllEmailsQuery extends PageQuery {
  /** Only emails of this account. */ account_id?: string;
  /** The `next_cursor` of the previous page. Unlike `offset`, which it replaces, it stays correct while emails are added. */
  cursor?: string;
  /** Only emails with this status. */ status?: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** Only emails of this type. */ type?: 'transactional' | 'marketing';
  /** Only emails with this tag. */ tag?: string;
  /** Only emails from this address, whatever name is with it. */ from?: string;
  /** Only emails to this address, in to, cc or bcc; `@example.com` matches every address at that domain. */
  to?: string;
  /** Only emails from this sender domain. */ domain?: string;
  /** Only emails whose subject contains all of these words. */ q?: string;
  /** Only emails that this API key sent, over HTTP or by SMTP, such as one that has leaked. */
  api_key_id?: string;
  /** Only emails accepted at this time or later. */ created_after?: string;
  /** Only emails accepted before this time. */ created_before?: string;
  /** Only emails that are held until you release them, because they may have arrived already or because processes crashed on them. */
  held?: 'true';
}

export interface ExamineQuery {
  /** The MX host to test port 25 with. Omitted: that of a verified domain of this server. */ mx?: string;
  /** `machine`: only what can go wrong on the machine that answers while the service runs, and needs no other server: the clock, the disk, the rights in the database and the certificate of the SMTP ports. It takes a moment. */
  only?: 'machine';
}

export interface ListDestinationsQuery {
  /** Part of the name of the site, or of a domain that it receives mail for. */ q?: string;
  /** Only sites in this state. */ state?: 'paused' | 'backing_off' | 'slowed' | 'open';
  /** Only sites that refuse the mail of this server: the last that they accepted is 15 minutes or more before the last that they judged, and their last reply is a 5.7.x. Nothing waits for them, as each email fails at once: those with the most connections come first. */
  refusing?: 'true';
  /** How many to return. A value above 100 counts as 100. */ limit?: number;
  /** How many to skip, those with the most waiting mail first. */ offset?: number;
}

export interface StopDestinationBody {
  /** Why, for the owners of the emails, who see it in their log. Omitted: none. */ reason?: string;
}

export interface ListSandboxMessagesQuery extends PageQuery {
  /** Only messages with this text in a recipient or in the subject; case does not matter. */ q?: string;
}

export interface LogInBody {
  /** The email address of the user; case does not matter. */ email: string;
  /** The password. */ password: string;
}

export interface ChangePasswordBody {
  /** The current password. */ current_password: string;
  /** The new password: at least 8 characters, and not easy to guess. */ new_password: string;
}
