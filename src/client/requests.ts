// Made from the OpenAPI document by `npm run client-types`: what the operations take.

import type { EventType } from './types.ts';

/** One of the sets of fields that a request must have. */
type Given<Names extends string> = { [Name in Names]: NonNullable<unknown> };

/** One email. Without a template it has `from`, `subject`, and `html` or `text`; with one, what the template lacks. */
export type SendRequest = {
  /** The sender, on a verified domain: `a@b.c` or `Name <a@b.c>`. Required unless the template has one. */
  from?: string | null;
  /** Recipients; with cc and bcc, 100 at the most. */ to: string | string[];
  /** Recipients of a copy. */ cc?: string | string[] | null;
  /** Recipients of a copy whom the others do not see. */ bcc?: string | string[] | null;
  /** Where answers go. */ reply_to?: string | string[] | null;
  /** The subject line. Required unless the template has one. */ subject?: string | null;
  /** The body as HTML. Without a template, html or text is required. */ html?: string | null;
  /** The body as plain text. */ text?: string | null;
  /** More header fields, by name, of 2,000 characters each at the most, `References` of 10,000. Those that the service writes itself are refused. */
  headers?: ({ /** The thread that it belongs to. */ References?: string } & Record<string, string>) | null;
  /** Labels to find it by in the log. */ tags?: string[] | null;
  /** Files, 10 at the most, with 10 MB each and 20 MB together. */
  attachments?:
    | {
        /** The name that the recipient sees, without folders: 255 bytes at the most. */ filename: string;
        /** The bytes as base64, 10 MB at the most. */ content: string;
        /** The MIME type, none of `multipart/`. Omitted, it is guessed from the end of the filename. */
        content_type?: string | null;
        /** Shows it inside of the html, where `cid:` names it: ASCII letters, digits and `. _ + = @ -`. No two files have the same. */
        content_id?: string | null;
      }[]
    | null;
  /** When to send it, within a year; omitted, at once. */ scheduled_at?: string | null;
  /** `transactional` where it is omitted. Who unsubscribed gets no `marketing`, of which each recipient gets a copy: with a link to unsubscribe in its header, and wherever a body has `{{{UNSUBSCRIBE_URL}}}`. */
  type?: 'transactional' | 'marketing' | null;
  /** When a server may have taken it and its answer never came: `retry`, where it is omitted, sends it again, with the same Message-ID; `hold` waits until `POST /api/v1/emails/:id/release` says what to do. */
  on_uncertain?: 'retry' | 'hold' | null;
  /** `opportunistic`, where it is omitted, encrypts where it can; `required` waits rather than go in clear; `verified` waits for a valid certificate too. The domain may ask for more, and so may who receives it. */
  tls?: 'opportunistic' | 'required' | 'verified' | null;
  /** A published template to make it from; html and text are then omitted. */
  template?: {
    /** The template's id. Required when `alias` is omitted. */ id?: string | null;
    /** The template's alias. Required when `id` is omitted. */ alias?: string | null;
    /** The values of its variables, by key. */ variables?: Record<string, string | number | null> | null;
  } | null;
} & (Given<'template'> | Given<'from' | 'subject' | 'html'> | Given<'from' | 'subject' | 'text'>);

export interface SendEmailQuery {
  /** `true`: says what would happen, and sends nothing. */ dry_run?: 'true' | 'false';
}

export interface ListEmailsQuery extends PageQuery {
  /** The `next_cursor` of the page before: goes on behind it, and stays right while emails are added. */
  cursor?: string;
  /** The status it has now. */ status?: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** What it was sent as. */ type?: 'transactional' | 'marketing';
  /** A label that it carries. */ tag?: string;
  /** The sender's address, without a name. */ from?: string;
  /** The address of a recipient, be it in to, cc or bcc; `@example.com` is whoever has one at that domain. */
  to?: string;
  /** The sender's domain. */ domain?: string;
  /** Words that the subject has, all of them. */ q?: string;
  /** Only those that wait for somebody to decide: they may have arrived already, or processes ended with them. */
  held?: 'true';
  /** Accepted at this time or later. */ created_after?: string;
  /** Accepted before this time. */ created_before?: string;
  /** Only those that wait for the time of their `scheduled_at`. */ scheduled?: 'true';
}

export interface SendBatchBody {
  /** The emails, each as in a single send. */ emails: SendRequest[];
}

export interface RescheduleEmailBody {
  /** When to send it instead, within a year. */ scheduled_at: string;
}

export interface ReleaseEmailBody {
  /** `retry`: send it again, now; `delivered` or `failed`: take it for that. */
  as: 'retry' | 'delivered' | 'failed';
}

export interface ResendEmailBody {
  /** Only these of its recipients, such as those that it failed for. Omitted: all. */
  recipients?: string | string[];
}

export interface GetStatsQuery {
  /** From when on. Omitted: 30 days before `to`, or one by hours. */ from?: string;
  /** Until when. Omitted: now. From `from`, 92 days at the most, or 7 by hours. */ to?: string;
  /** `day` where it is omitted. */ interval?: 'hour' | 'day';
  /** Counts each sender domain, tag, type, recipients' domain (`destination`), or who runs its mail servers (`provider`) by itself. */
  group_by?: 'domain' | 'tag' | 'type' | 'destination' | 'provider';
}

export interface CreateTemplateBody {
  /** What people call it. */ name: string;
  /** A name to send with instead of the id, unique in the account. */ alias?: string | null;
  /** The sender of emails that name none. */ from?: string | null;
  /** The subject of emails that have none. */ subject?: string | null;
  /** Where answers go, for emails that do not say. */ reply_to?: string | string[] | null;
  /** The body as HTML. `{{KEY}}` inserts a value escaped, `{{{KEY}}}` as it is. */ html?: string | null;
  /** The body as plain text. `{{{KEY}}}` and `{{KEY}}` insert a value as it is. */ text?: string | null;
  /** Types and fallbacks. A placeholder needs no declaration. */
  variables?:
    | {
        /** What stands between the braces. */ key: string;
        /** What its values must be. */ type: 'string' | 'number';
        /** What stands in where no value is given; omitted, one must be given. */
        fallback_value?: string | number | null;
      }[]
    | null;
}

export interface PageQuery {
  /** How many to answer with. Above 100 it is taken as 100. */ limit?: number;
  /** How many to leave out, from the newest on. */ offset?: number;
}

export type ChangeTemplateBody = Partial<CreateTemplateBody>;

export interface PublishTemplateBody {
  /** The template's `updated_at` as you saw it: it is published only if nobody has changed it since. Omitted: whatever the draft says. */
  updated_at?: string | null;
}

export interface RenderTemplateBody {
  /** The values of its variables, by key. */ variables?: Record<string, string | number | null> | null;
  /** Which to render; `draft` where it is omitted. */ version?: 'draft' | 'published' | null;
}

export interface ListSuppressionsQuery extends PageQuery {
  /** Only those with this reason. */ reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Only addresses that have this in them, in any case. */ address?: string;
}

export interface AddSuppressionBody {
  /** The address that is not to be sent to, in any case. */ address: string;
  /** `manual` where it is omitted. `unsubscribe` stops marketing only. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
}

export interface ImportSuppressionsBody {
  /** The addresses, each as for a single one. */
  suppressions: {
    /** The address that is not to be sent to, in any case. */ address: string;
    /** `manual` where it is omitted. `unsubscribe` stops marketing only. */
    reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual' | null;
  }[];
}

export interface EraseRecipientBody {
  /** Whose data goes, in any case. */ address: string;
  /** `keep`, also where it is omitted: an address that is on the suppression list stays there, as nothing else keeps mail from it; `remove`: it goes as well. */
  suppression?: 'keep' | 'remove' | null;
}

export interface ListErasuresQuery extends PageQuery {
  /** Only those of this address, by its hash. */ address?: string;
}

export interface ExportAccountQuery {
  /** `included`, also where it is omitted: with the bytes of files as base64; `referenced`: without. */
  attachments?: 'included' | 'referenced';
}

export interface AddDomainBody extends ChangeDomainBody {
  /** The name, such as `shop.example.com`. A subdomain is a domain of its own. */ domain: string;
}

export interface PartQuery {
  /** How many to answer with; omitted, all. Above 100 it is taken as 100. */ limit?: number;
  /** How many to leave out, from the newest on. */ offset?: number;
}

export interface ChangeDomainBody {
  /** `opportunistic` encrypts where it can; `required` waits rather than go in clear; `verified` waits for a valid certificate too. */
  tls?: 'opportunistic' | 'required' | 'verified';
  /** The pool of sending addresses that its mail leaves from, one of those in `SENDING_IPS`; null: the one for that kind of mail. */
  pool?: string | null;
}

export interface RotateDkimBody {
  /** `rsa` takes the place of the key that signs, `ed25519` signs beside it. Without it that of `private_key`, else `rsa`. */
  algorithm?: 'rsa' | 'ed25519';
  /** A key that signs elsewhere already, as PEM without a password; without it one is made. */
  private_key?: string;
  /** Its place in DNS; without it one that is not in use. */ selector?: string;
}

export interface CreateKeyBody {
  /** What people call it. */ name: string;
  /** `send` allows everything with emails and templates, `read` only looking. Omitted: `["send"]`. */
  scopes?: ('send' | 'read')[] | null;
  /** The sender domains of the account, verified or not, that it may send from, and cancel and move mail of; it reads the whole log. Omitted or null: all of the account. An empty list is refused, also that of a key as it is listed: one that came out empty is not to mean all. */
  domains?: string[] | null;
  /** From when on it is refused. Omitted: never. */ expires_at?: string | null;
}

export interface CreateWebhookBody {
  /** An absolute http or https address. */ url: string;
  /** What it is called for. */ events: EventType[];
}

export interface ChangeWebhookBody extends Partial<CreateWebhookBody> {
  /** `enabled` also after it was disabled for failing; `disabled`: it is not called any more. */
  status?: 'enabled' | 'disabled';
}

export interface ReplayWebhookBody {
  /** Deliveries made at this time or later. */ since: string;
  /** Deliveries made before this time. Omitted: now. */ until?: string | null;
}

export interface ListWebhookDeliveriesQuery extends PageQuery {
  /** Only those for this endpoint. */ webhook_id?: string;
  /** Only those about this email. */ email_id?: string;
  /** Only those of this event. */ event?: EventType | 'webhook.test';
  /** Only those that stand so. */ status?: 'pending' | 'succeeded' | 'failed';
}

export interface CreateAccountBody {
  /** What people call it. */ name: string;
  /** The address that its first user logs in with. */ email: string;
  /** The first user's, 8 characters or more. Omitted: one is made, and shown in this answer only. */
  password?: string | null;
  /** Omitted: `DEFAULT_PLAN`, which is `free` where the operator says nothing else. */
  plan?: 'free' | 'pro' | 'unlimited' | null;
}

export interface ChangeAccountBody {
  /** What people call it. */ name?: string;
  /** What it may send: `free` 100 emails a day and 3,000 a month from one domain, `pro` 50,000 a month from ten and more for credit, `unlimited` what it likes. Days and months are those of UTC. */
  plan?: 'free' | 'pro' | 'unlimited';
  /** `true`: nobody of it may log in or send, and what it has queued fails for good as it comes due. */
  suspended?: boolean;
}

export interface AddCreditBody {
  /** What is added to the credit, with two decimal places at the most. */ amount: number;
}

export interface ListAllEmailsQuery extends PageQuery {
  /** Only those of this account. */ account_id?: string;
  /** The `next_cursor` of the page before: goes on behind it, and stays right while emails are added. */
  cursor?: string;
  /** The status it has now. */ status?: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** What it was sent as. */ type?: 'transactional' | 'marketing';
  /** A label that it carries. */ tag?: string;
  /** The sender's address, without a name. */ from?: string;
  /** The address of a recipient, be it in to, cc or bcc; `@example.com` is whoever has one at that domain. */
  to?: string;
  /** The sender's domain. */ domain?: string;
  /** Words that the subject has, all of them. */ q?: string;
  /** Only those that wait for somebody to decide: they may have arrived already, or processes ended with them. */
  held?: 'true';
  /** Accepted at this time or later. */ created_after?: string;
  /** Accepted before this time. */ created_before?: string;
}

export interface ExamineQuery {
  /** An MX host whose port 25 may be tried. Omitted: that of a verified domain of this server. */ mx?: string;
}

export interface ListDestinationsQuery {
  /** A part of the name of the site, or of a domain whose mail it takes. */ q?: string;
  /** Only those of which this is the state. */ state?: 'paused' | 'backing_off' | 'slowed' | 'open';
  /** How many to answer with. Above 100 it is taken as 100. */ limit?: number;
  /** How many to leave out, from those with most waiting on. */ offset?: number;
}

export interface LogInBody {
  /** In any case. */ email: string;
  /** As it is. */ password: string;
}

export interface ChangePasswordBody {
  /** The one until now. */ current_password: string;
  /** At least 8 characters, and none of the passwords that are tried first. */ new_password: string;
}
