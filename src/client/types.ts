// Made from the OpenAPI document by `npm run client-types`: what is answered, and posted to endpoints.

/** What an endpoint can be called for. */
export type EventType =
  | 'email.queued'
  | 'email.delivered'
  | 'email.failed'
  | 'email.suppressed'
  | 'email.sent'
  | 'email.delayed'
  | 'email.uncertain'
  | 'email.bounced'
  | 'email.complained'
  | 'email.unsubscribed';

/** An email in the log. */
export interface Email {
  /** Its id. */ id: string;
  /** `queued`: at least one recipient is not settled; `sent`: delivered to all; `failed`: at least one failed for good; `suppressed`: a recipient is on the suppression list, and nobody got the email (if the address was added to the list while the email waited, the others got it); `canceled`: canceled before it was sent. */
  status: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** The sender. */ from: string;
  /** The first recipient. */ to: string;
  /** Recipients of a copy. */ cc: string[];
  /** Recipients of a blind copy. */ bcc: string[];
  /** Where replies go. */ reply_to: string[];
  /** The subject line. */ subject: string;
  /** Its labels. */ tags: string[];
  /** Its type. */ type: 'transactional' | 'marketing';
  /** When it was accepted. */ created_at: string;
  /** When it is to be sent; absent if it was not scheduled. */ scheduled_at?: string;
  /** When it was delivered to the last recipient; null unless all have it. */ sent_at: string | null;
  /** Why it failed or was suppressed; null otherwise. */ error: string | null;
}

/** What would happen to an email. Nothing was stored or sent. */
export interface DryRun {
  /** Nothing was stored or sent. */ dry_run: true;
  /** What would happen to the email. */ would: 'be_queued' | 'be_scheduled' | 'be_suppressed' | 'exceed_quota';
  /** The message as it would be sent. */
  message: {
    /** In bytes. */ size: number;
    /** The signed source; bytes that are not UTF-8 are U+FFFD. */ raw: string;
  };
  /** Where bounces would go. */ return_path: string;
  /** The addresses it would be sent from; null: the system chooses. */
  source: {
    /** The pool of sending addresses. */ pool: string;
    /** Its addresses. */ ips: string[];
    /** Which addresses are new, and why the pool of the domain is not used. */ notes: string[];
  } | null;
  /** Recipients on the suppression list. */
  suppressed: {
    /** The recipient. */ address: string;
    /** Why it is listed. */ reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  }[];
  /** Where it would go, for each domain. */
  destinations: {
    /** The recipients' domain. */ domain: string;
    /** The recipients at this domain. */ recipients: string[];
    /** The MX hosts, in the order in which they would be tried. */
    hosts: {
      /** The MX host. */ name: string;
      /** Its preference: lower is tried first. */ preference: number;
      /** Its IP addresses. */ addresses: string[];
      /** Why it cannot be used now; null when it can. */ problem: string | null;
    }[];
    /** Why mail for this domain could not be delivered now. */
    problem: {
      /** Trying later would not help. */ permanent: boolean;
      /** The reason. */ reason: string;
    } | null;
    /** How the connection would be secured. */
    tls: {
      /** The policy that applies. */ policy: 'opportunistic' | 'required' | 'verified' | 'mta-sts' | 'dane';
      /** Where the policy comes from; `default`: nothing is required. */ source: string;
      /** Notes about it. */ notes: string[];
    };
  }[];
  /** What a receiver would find when it checks SPF, DKIM and DMARC. */
  authentication: {
    /** The DKIM signature. */
    dkim: {
      /** The domain that would sign. */ domain: string;
      /** The selector of its key. */ selector: string;
      /** It is aligned with the domain in `from`. */ aligned: boolean;
      /** Why a receiver could not verify it with what DNS has now; null: it could. */ problem: string | null;
    };
    /** The return path. */
    spf: {
      /** The domain of the return path. */ domain: string;
      /** The result of SPF for each address. */
      results: {
        /** An address that we send from. */ ip: string;
        /** Such as `pass`. */ result: string;
      }[];
      /** It is aligned with the domain in `from`. */ aligned: boolean;
    };
    /** DMARC, for the domain in `from`. */
    dmarc: {
      /** The DMARC record of the sender's domain or, if it has none, of its organizational domain; null if there is none, or more than one. */
      record: string | null;
      /** DMARC would pass: DKIM or SPF does, and is aligned. */ would_pass: boolean;
    };
  };
}

/** Every error has this shape. */
export interface ErrorBody {
  /** The error, for programs: one of a fixed set. */ error: string;
  /** The field and the reason, or what to do, for people. */ detail?: string;
}

/** An email in a list. */
export interface ListedEmail extends Email {
  /** What came back after delivery: each kind once; `returns` has the details. */
  returned: ('bounce' | 'delay' | 'complaint' | 'unsubscribe')[];
  /** How many recipients it has in to, cc and bcc. */ recipient_count: number;
  /** A recipient is held until you decide with `release`; `explain` says why. */ held: boolean;
}

/** An email with the status of each recipient. */
export interface EmailWithRecipients extends Email {
  /** The TLS that it requires; the domain and the receiver may require more. */
  tls: 'opportunistic' | 'required' | 'verified';
  /** What to do after an attempt that may have delivered it. */ on_uncertain: 'retry' | 'hold';
  /** The API key that sent it; null if a user did, who was logged in. */ api_key_id: string | null;
  /** Each recipient: first to, then cc and bcc. */ recipients: Recipient[];
  /** What came back later, oldest first. */ returns: Return[];
}

/** One recipient of an email. */
export interface Recipient {
  /** The address. */ address: string;
  /** Its field in the request. */ kind: 'to' | 'cc' | 'bcc';
  /** Its status; `deferred`: the server said "later". */
  status: 'queued' | 'deferred' | 'delivered' | 'failed' | 'suppressed' | 'canceled';
  /** How often it was tried. */ attempts: number;
  /** The last reply of the server, or our own last note. */ last_response: string | null;
  /** Why it is due but not tried, such as a limit, a back-off or a pause; or which step it is in. */
  waiting_for: string | null;
  /** When it is tried next; null once settled, while its destination is paused, and while it is held. */
  next_attempt_at: string | null;
}

/** What came back after delivery. The status of the email does not change. */
export interface Return {
  /** The recipient that it is about. */ recipient: string;
  /** `bounce`: a server gave up after it had accepted the email; `delay`: it still tries; `complaint`: the reader reported spam. */
  kind: 'bounce' | 'delay' | 'complaint' | 'unsubscribe';
  /** The class of a bounce or delay, such as `bad_mailbox`. */ classification: string | null;
  /** The enhanced code (RFC 3463), such as `5.1.1`. */ enhanced_code: string | null;
  /** The text of the report. */ diagnostic: string | null;
  /** When it arrived. */ received_at: string;
}

/** One SMTP attempt: one recipient at one MX host. */
export interface Attempt {
  /** Its id. */ id: string;
  /** When it began. */ at: string;
  /** The number of the attempt for this recipient, from 1. */ number: number;
  /** The recipient. */ recipient: string;
  /** The host that was tried; null if it failed before there was one. */ mx_host: string | null;
  /** Its IP address; null if none of several answered. */ remote_address: string | null;
  /** The address that we connected from. */ local_address: string | null;
  /** Such as `TLSv1.3`; null when it was not encrypted. */ tls_version: string | null;
  /** The cipher. */ tls_cipher: string | null;
  /** The TLS policy that applied, or that forbade the connection: `opportunistic`, `required`, `verified`, `mta-sts` or `dane`; `none`: not encrypted, or no connection. */
  verification: string;
  /** The SMTP command that decided it, or `dns`, `connect`, `local`. */ phase: string;
  /** The outcome; `bounced` is final. */ outcome: 'delivered' | 'deferred' | 'bounced';
  /** We sent the message but got no reply: the server may have it. */ uncertain: boolean;
  /** The code of the reply, such as 550. */ reply_code: number | null;
  /** The enhanced code (RFC 3463), such as `5.1.1`. */ enhanced_code: string | null;
  /** The server's full reply; null if no reply decided it. */ reply: string | null;
  /** What happened, in one sentence. */ reason: string;
  /** How long it took. */ duration_ms: number;
  /** The class of a failure, such as `bad_mailbox` or `rate`. */ classification: string | null;
  /** The SMTP conversation without the message itself; shared by all recipients of a session, and empty if there was none. */
  conversation: {
    /** Milliseconds since the start. */ ms: number;
    /** Who sent the line; `note`: something that we looked up, decided or observed. */
    by: 'us' | 'server' | 'note';
    /** The command, or a line of a reply. */ text: string;
  }[];
}

/** The content of an email. */
export interface EmailContent {
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
  /** Header fields from the request. */
  headers: {
    /** Its name. */ name: string;
    /** Its value. */ value: string;
  }[];
  /** Its files. */
  attachments: {
    /** The name that the recipient sees. */ filename: string;
    /** The MIME type. */ content_type: string;
    /** Its name in `cid:` links in the html; null for a plain attachment. */ content_id: string | null;
    /** In bytes. */ size: number;
  }[];
}

/** Why a recipient has its status, and what happens next. */
export interface Explanation {
  /** The recipient. */ address: string;
  /** Its status. */ status: 'queued' | 'deferred' | 'delivered' | 'failed' | 'suppressed' | 'canceled';
  /** Why it has this status: `scheduled`, `in_queue`, `on_hold`, `being_delivered`, `held_back`, `uncertain`, `crashed`, `retrying`, `refused`, `given_up`, `suppressed` or `canceled`; null when delivered. */
  cause: string | null;
  /** The class of a failure. */ classification: string | null;
  /** The explanation in words. */ sentence: string;
  /** What you can do; null if there is nothing to do. */ advice: string | null;
  /** How often it was tried. */ attempts: number;
  /** The last attempt; null before the first. */
  last_attempt: {
    /** When. */ at: string;
    /** The MX host. */ mx_host: string | null;
    /** The SMTP command. */ phase: string;
    /** The reply. */ response: string;
    /** The server may have the message anyway. */ uncertain: boolean;
  } | null;
  /** How the connection will be secured; null once settled, after the first ten destinations, and if DNS does not answer within ten seconds. */
  tls: {
    /** The policy that applies. */ policy: 'opportunistic' | 'required' | 'verified' | 'mta-sts' | 'dane';
    /** Where the policy comes from; `default`: nothing is required. */ source: string;
    /** Notes about it. */ notes: string[];
  } | null;
  /** When it is tried next; null once settled, while its destination is paused, and while it is held. */
  next_attempt_at: string | null;
  /** When we give up if nothing changes; null once settled. */ gives_up_at: string | null;
}

/** What happened to the emails that were accepted in one hour or day. */
export interface Bucket {
  /** The start of the hour or day. */ start: string;
  /** The sender domain, tag, type, the recipients' domain, or the provider that runs its mail servers; null without `group_by`. */
  group: string | null;
  /** Emails that were accepted in this time, also those that were canceled later. */ accepted: number;
  /** Emails with a recipient on the suppression list; if the address was added to the list later, the other recipients may have got the email. */
  suppressed: number;
  /** Emails that led to a complaint, which put a recipient on the suppression list. */ complaints: number;
  /** Recipients that the email was delivered to. */ delivered: number;
  /** Recipients that are not settled. */ pending: number;
  /** Recipients that failed for good. */ failed: number;
  /** The failed recipients by the class of their last attempt: also of those that were given up or decided about, which are `other` without an attempt. */
  failed_by_class: Record<string, number>;
  /** Attempts that a server answered with "later". */ deferrals: number;
  /** The time from when an email was due until the recipient's server accepted it, from 1 s on to three digits; null if nothing was delivered. */
  latency_ms: {
    /** The median. */ p50: number;
    /** The 95th percentile. */ p95: number;
    /** The 99th percentile. */ p99: number;
  } | null;
}

/** A template with its draft's content. */
export interface Template extends TemplateSummary {
  /** The draft differs from the published version. */ has_unpublished_changes: boolean;
  /** The sender, unless the email has one. */ from: string | null;
  /** The subject, unless the email has one. */ subject: string | null;
  /** Where replies go. */ reply_to: string[];
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
  /** The declared variables. */
  variables: {
    /** The name between the braces. */ key: string;
    /** The type of its values. */ type: 'string' | 'number';
    /** The value to use if the email has none; null: a value is required. */
    fallback_value: string | number | null;
  }[];
}

/** A template in a list. */
export interface TemplateSummary {
  /** Its id. */ id: string;
  /** Its name. */ name: string;
  /** A name to use in place of the id. */ alias: string | null;
  /** You can send with a `published` template. */ status: 'draft' | 'published';
  /** When it was last published; null if it never was. */ published_at: string | null;
  /** When it was created. */ created_at: string;
  /** When it was last changed. */ updated_at: string;
}

/** The email that a template would produce. */
export interface RenderedTemplate {
  /** The subject. */ subject: string | null;
  /** The sender. */ from: string | null;
  /** Where replies go. */ reply_to: string[];
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
}

/** An address that you do not send to. */
export interface Suppression {
  /** The address, in lower case. */ address: string;
  /** Why it is listed. `unsubscribe` stops only marketing mail, the others stop all mail. */
  reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** Whether its owner has unsubscribed, which a stronger reason may hide: removing the address leaves it on the list for that. */
  unsubscribed: boolean;
  /** The email that caused it; null if it was added by hand. */ email_id: string | null;
  /** When it was added. */ created_at: string;
}

/** The receipt for the erasure of one recipient's data. */
export interface Erasure {
  /** The id of the receipt. */ id: string;
  /** `done`: nothing is left, and the server no longer knows whose data it was. */ status: 'pending' | 'done';
  /** A keyed hash of the address, the same for each of its erasures in this account. */ address_hash: string;
  /** Whether to keep a suppression of the address. */ suppression: 'keep' | 'remove';
  /** How much has been erased so far. */
  counts: {
    /** Emails to the recipient: each keeps its id, times, status and figures. */ emails: number;
    /** Contents that were for the recipient alone, with their subjects. */ contents: number;
    /** Files that no other email uses. */ attachments: number;
    /** Entries in lists of recipients, which are now `erased-1` and the like. */ recipients: number;
    /** How many of these were canceled before they were sent to. */ canceled: number;
    /** Attempts, with their conversations. */ attempts: number;
    /** Bounces, complaints and the like, with their text. */ returns: number;
    /** Webhook deliveries: their payloads, and the responses of endpoints. */ webhook_deliveries: number;
    /** Responses stored for an `Idempotency-Key`. */ idempotency_keys: number;
    /** Messages in the sandbox's mailbox. */ sandbox_messages: number;
    /** Suppressions, if the request asked for it. */ suppressions: number;
  };
  /** When it was last requested. It covers the emails accepted until then. */ asked_at: string;
  /** When it was done; null until then. */ done_at: string | null;
}

/** A sending domain. */
export interface Domain {
  /** Its id. */ id: string;
  /** The domain, in lower case and as A-labels (`xn--`). */ domain: string;
  /** You can send from a `verified` domain. */ status: 'pending' | 'verified';
  /** The selector of its DKIM key. */ dkim_selector: string;
  /** When it was verified; null until then. */ verified_at: string | null;
  /** What the last daily check found missing; null if nothing. */ dns_warning: string | null;
  /** The TLS that all of its mail requires, at least. */ tls: 'opportunistic' | 'required' | 'verified';
  /** The pool of sending addresses for its mail; null: the pool for the type of the email. */
  pool: string | null;
  /** When it was added. */ created_at: string;
}

/** The records that must be published: proof of ownership, DKIM key, SPF policy. */
export interface DNSRecords {
  verification: DNSRecord;
  dkim: DNSRecord;
  spf: DNSRecord;
}

/** A DNS record to publish. */
export interface DNSRecord {
  /** The fully qualified name, without a dot at its end. */ name: string;
  /** Such as `TXT`. */ type: string;
  /** The value, without quotes. */ value: string;
}

/** A DKIM key in addition to the domain’s own. */
export interface DKIMKey {
  /** Its id. */ id: string;
  /** Its selector in DNS. */ selector: string;
  /** The algorithm that it signs with. */ algorithm: 'rsa' | 'ed25519';
  /** `pending`: signs as soon as its record is found; `active`: signs in addition to the domain’s own key; `retired`: no longer signs, but its record should stay until `remove_after`. */
  status: 'pending' | 'active' | 'retired';
  record: DNSRecord;
  /** What the last look-up of its record found wrong; null if nothing, or before the first. */
  problem: string | null;
  /** When it was created or imported. */ created_at: string;
  /** When it began to sign in addition to the domain’s own key. */ activated_at: string | null;
  /** When another key replaced it. */ retired_at: string | null;
  /** When you may remove its record from DNS. */ remove_after: string | null;
}

/** A DNS record that improves delivery, and that verification does not require. */
export interface RecommendedRecord extends DNSRecord {
  /** What it is for. */ purpose: string;
}

/** The result for each of the three records. */
export interface Checks {
  verification: Check;
  dkim: Check;
  spf: Check;
}

/** The result of looking up one record. */
export interface Check {
  /** The record is correct. */ ok: boolean;
  /** The name that was looked up. */ name: string;
  /** Such as `TXT`. */ type: string;
  /** The value to publish. */ expected: string;
  /** What is published there now. */ found: string[];
  /** What is wrong and what to do; null if nothing. */ problem: string | null;
}

/** An error that reports each of the three records. */
export interface VerificationError {
  /** The error. */ error: 'dns verification failed';
  /** What is missing, and what to do. */ detail: string;
  /** Which of the three records are missing or wrong. */ missing: ('verification' | 'dkim' | 'spf')[];
  checks: Checks;
}

/** An API key, without the key itself. */
export interface ApiKey {
  /** Its id. */ id: string;
  /** Its name. */ name: string;
  /** The first characters of the key. */ key_prefix: string;
  /** What it allows. */ scopes: ('send' | 'read')[];
  /** The domains that it may send from; empty: all domains of the account. */ domains: string[];
  /** When it expires; null: never. What it scheduled before is still sent. */ expires_at: string | null;
  /** When it was created. */ created_at: string;
  /** When it was revoked; null: it is not revoked. */ revoked_at: string | null;
}

/** An endpoint that is called for events. */
export interface Webhook {
  /** Its id. */ id: string;
  /** The URL that is called. */ url: string;
  /** The events that it is called for. */ events: EventType[];
  /** A `disabled` endpoint is not called, and events are not kept for it. */ status: 'enabled' | 'disabled';
  /** Why the server disabled it; null if it did not. */ disabled_reason: string | null;
  /** When calls began to fail; null if they succeed. */ failing_since: string | null;
  /** When it was created. */ created_at: string;
}

/** A delivery with its body. */
export interface WebhookDeliveryWithPayload {
  /** Its id, as in `X-Service-Webhook-Id`. */ id: string;
  /** The endpoint. */ webhook_id: string;
  /** The event. */ event: EventType | 'webhook.test';
  /** The email that it is about; null for a test. */ email_id: string | null;
  /** `pending` until it succeeds or is given up. */ status: 'pending' | 'succeeded' | 'failed';
  /** Why it was not retried. */ error: string | null;
  /** The last 20, oldest first. */
  attempts: {
    /** When it began. */ at: string;
    /** The HTTP status of the response; null if there was none. */ response_status: number | null;
    /** The start of its body. */ response_body: string | null;
    /** Why there was no response. */ error: string | null;
    /** How long it took. */ duration_ms: number;
  }[];
  /** When it is tried next; null once it has succeeded or failed. */ next_attempt_at: string | null;
  /** When the event happened. */ created_at: string;
  /** The body as it is sent. */ payload: Record<string, unknown>;
}

/** One event for one endpoint, with its calls. */
export interface WebhookDelivery {
  /** Its id, as in `X-Service-Webhook-Id`. */ id: string;
  /** The endpoint. */ webhook_id: string;
  /** The event. */ event: EventType | 'webhook.test';
  /** The email that it is about; null for a test. */ email_id: string | null;
  /** `pending` until it succeeds or is given up. */ status: 'pending' | 'succeeded' | 'failed';
  /** Why it was not retried. */ error: string | null;
  /** The last 20, oldest first. */
  attempts: {
    /** When it began. */ at: string;
    /** The HTTP status of the response; null if there was none. */ response_status: number | null;
    /** The start of its body. */ response_body: string | null;
    /** Why there was no response. */ error: string | null;
    /** How long it took. */ duration_ms: number;
  }[];
  /** When it is tried next; null once it has succeeded or failed. */ next_attempt_at: string | null;
  /** When the event happened. */ created_at: string;
  /** The first recipient that the event is about, or of the email; null for a test. */
  recipient: string | null;
  /** The subject of the email; null for a test. */ subject: string | null;
}

/** An account: one customer of the server. */
export interface Account {
  /** Its id. */ id: string;
  /** Its name. */ name: string;
  /** Its plan. */ plan: 'free' | 'pro' | 'unlimited';
  /** The balance, with two decimal places. On the plan `pro`, each email above the monthly limit takes 0.50 from it. Other plans do not use it. */
  credit: string;
  /** Usage that counts towards the plan, by days and months in UTC. The plan `unlimited` counts nothing. */
  usage: {
    /** Emails accepted today; null: not counted. */ day: number | null;
    /** Emails accepted this month; null: not counted. */ month: number | null;
  };
  /** How long the plan keeps data, in days from when an email was due. Waiting emails are always kept. */
  retention: {
    /** Days that the log is kept, at least: whole weeks are deleted at a time. */ log_days: number;
    /** Days that the content of emails is kept; of a canceled one, from when it was canceled. */
    content_days: number;
  };
  /** When it was suspended: its users cannot log in or send; null: it is not suspended. */
  suspended_at: string | null;
  /** When it was created. */ created_at: string;
}

/** An account in the list of all. */
export interface ListedAccount extends Account {
  /** How many users it has. */ user_count: number;
  /** What it sends, by days and months in UTC: all emails in its log, whether or not its plan counts them. */
  accepted: {
    /** Emails accepted today. */ day: number;
    /** Emails accepted this month. */ month: number;
  };
  /** How many of its webhooks do not get their events: calls to them fail, or the server disabled them because they did. */
  failing_webhooks: number;
}

/** An email in the log of all accounts. */
export interface AccountEmail extends ListedEmail {
  /** The account that sent it. */ account_id: string;
}

/** The result of one check of the installation. */
export interface Finding {
  /** The check. */
  check:
    | 'delivery_mode'
    | 'outbound_port_25'
    | 'mail_hostname'
    | 'reverse_dns'
    | 'blocklist'
    | 'return_path'
    | 'dane_resolver'
    | 'domain'
    | 'dmarc'
    | 'clock'
    | 'disk_space'
    | 'database_durability'
    | 'database_rights'
    | 'base_url'
    | 'smtp_certificate';
  /** The address, domain or host that was checked. */ subject: string;
  /** `problem`: you need to act; `unknown`: the check could not be made; `note`: something is unfinished, but mail goes out without it. */
  health: 'ok' | 'problem' | 'unknown' | 'note';
  /** What was found. */ found: string;
  /** What to do about it; null if there is nothing to do. */ advice: string | null;
}

/** The state of delivery to the servers that receive mail for some domains. */
export interface Destination {
  /** Who runs the servers: a provider such as `Google`, the domain of the MX host, or the destination itself. The limits apply to all of its destinations together. */
  site: string;
  /** Domains that it receives mail for: up to fifty that were sent to recently. */ destinations: string[];
  /** The state of delivery: `paused`: by an operator; `backing_off`: nothing is tried until `backoff_until`; `slowed`: fewer connections than the maximum, for `reason`; otherwise `open`. */
  state: 'paused' | 'backing_off' | 'slowed' | 'open';
  /** Recipients that are due or being delivered. */ queued: number;
  /** Recipients that wait for another attempt, or for the site. */ deferred: number;
  /** When the next of those is due. */ next_attempt_at: string | null;
  /** Attempts in progress. */ in_flight: number;
  /** Connections allowed now, on all nodes; adapted to what the site accepts. */ connections: number;
  /** The maximum number of connections. */ most_connections: number;
  /** Messages a minute; null: no limit. */ per_minute: number | null;
  /** Why fewer connections are allowed, or none. */ reason: string | null;
  /** When the back-off ends; null: there is none. */ backoff_until: string | null;
  /** Its last reply. */ last_reply: string | null;
  /** When it last accepted or judged a message, as the running nodes have seen within the hour; null: not since then. */
  last_success_at: string | null;
  /** When it last accepted a message, to within a minute, which is kept for 30 days; null: not within these. */
  last_delivered_at: string | null;
  /** What most of the waiting mail waits for, other than a retry; null: nothing. It begins with `held: ` if that mail is held until its owner decides. */
  waiting_for: string | null;
  /** When an operator paused it; null: it is not paused. */ paused_at: string | null;
}

/** An IP address that mail is sent from. */
export interface SendingAddress {
  /** The address. */ ip: string;
  /** The pool that it belongs to. */ pool: string;
  /** Its progress in the warm-up plan; null: it is not new, or the plan is over. */
  warm_up: {
    /** The day of the plan, from 1; 0: it has not begun. */ day: number;
    /** Messages that it may send today (UTC), on all nodes. */ cap: number;
    /** Messages that it has sent today or is sending now. */ sent_today: number;
    /** When its first day begins. */ begins_at: string;
    /** When the cap ends. */ ends_at: string;
  } | null;
}

/** A message in the sandbox's mailbox. */
export interface SandboxMessage {
  /** Its id. */ id: string;
  /** The email that it came from; null if this server did not send it. */ email_id: string | null;
  /** When it arrived. */ received_at: string;
  /** The return path. */ mail_from: string;
  /** The recipients in the envelope. */ rcpt_to: string[];
  /** The address in its `From` header. */ from: string;
  /** Its subject. */ subject: string;
  /** The TLS version of the connection; null if it was not encrypted. */ tls_version: string | null;
  /** The verdict on each signature. */
  dkim: {
    /** The domain that signed. */ domain: string;
    /** The selector of its key. */ selector: string;
    /** Such as `pass`. */ result: string;
    /** More about it. */ info: string;
  }[];
  /** In bytes. */ size: number;
  /** The source; bytes that are not UTF-8 are U+FFFD. */ raw: string;
  /** The source is cut; get the single message for all of it. */ raw_truncated: boolean;
}

/** A login with its token. */
export interface Login {
  /** The token for `Authorization: Bearer`. */ token: string;
  /** The scheme to send it with. */ token_type: 'Bearer';
  /** When it expires, unless the password is changed earlier. */ expires_at: string;
  /** The user who logged in. */
  user: {
    /** The user. */ id: string;
    /** The email address that the user logs in with. */ email: string;
    /** An `admin` operates the server. */ role: 'admin' | 'member';
  };
  /** The account of the user. */
  account: {
    /** The account. */ id: string;
    /** Its name. */ name: string;
    /** Its plan. */ plan: 'free' | 'pro' | 'unlimited';
  };
}

/** A login that a browser keeps. */
export interface Session {
  /** When it expires, unless it is ended or the password is changed earlier. */ expires_at: string;
  /** The user who logged in. */
  user: {
    /** The user. */ id: string;
    /** The email address that the user logs in with. */ email: string;
    /** An `admin` operates the server. */ role: 'admin' | 'member';
  };
  /** The account of the user, and what its plan still allows. */
  account: {
    /** The account. */ id: string;
    /** Its name. */ name: string;
    /** Its plan. */ plan: 'free' | 'pro' | 'unlimited';
    /** What counts towards the plan, by days and months in UTC. */
    usage: {
      /** Emails accepted today; null: not counted. */ day: number | null;
      /** Emails accepted this month; null: not counted. */ month: number | null;
    };
    /** How many more emails the plan allows. */
    left: {
      /** Today; null: the plan has no limit for a day. */ day: number | null;
      /** This month, with the credit; null: the plan has no limit for a month. */ month: number | null;
    };
  };
  /** The service. */
  service: {
    /** The base URL that clients use. */ base_url: string;
    /** Where programs hand in mail by SMTP, with an API key as the password; null: the node that answers takes none. */
    submission: {
      /** The host. */ host: string;
      /** The port for STARTTLS; null: it is not open. */ starttls_port: number | null;
      /** The port for TLS from the start; null: it is not open. */ tls_port: number | null;
      /** Its certificate is one that programs do not trust by themselves. */ self_signed: boolean;
    } | null;
    /** No mail leaves the machine. */ sandbox: boolean;
    /** When the service was put on hold: mail is accepted but not sent until an operator releases it; null: it is not on hold. */
    on_hold_since: string | null;
    /** A process that delivers mail is running. */ delivers: boolean;
  };
}

/** The body of a call to an endpoint. */
export interface EmailEvent {
  /** The event. */ type: EventType;
  /** When it happened. */ created_at: string;
  /** The email. */
  data: {
    /** The email. */ email_id: string;
    /** Its sender. */ from: string;
    /** Its recipients. */ to: string[];
    /** Its subject. */ subject: string;
    /** Its status at that time; `delivered` for `email.delivered`. */
    status: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled' | 'delivered';
    /** When it was accepted. */ created_at: string;
    /** Its tags; absent if it has none. */ tags?: string[];
    /** The recipients that the event is about; absent in `email.queued`, which is about all of them. */
    recipients?: {
      /** The recipient. */ address: string;
      /** Its status; `bounced`, `complained` or `unsubscribed` if that happened after delivery. */ status: string;
      /** The last reply for the recipient, or why nothing was sent to it. */ response: string | null;
    }[];
  };
}

/** What `POST /api/v1/webhooks/:id/test` posts to an endpoint. */
export interface WebhookTest {
  /** The event. */ type: 'webhook.test';
  /** When the call was requested. */ created_at: string;
  /** The endpoint. */
  data: {
    /** The endpoint. */ webhook_id: string;
    /** What the call is for. */ message: string;
  };
}
