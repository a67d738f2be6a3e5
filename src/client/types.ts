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
  /** `queued` until each recipient is settled; `sent`: delivered to all; `failed`: at least one failed for good; `suppressed`: a recipient is on the suppression list, so that nobody got it or, where the address came onto the list while it waited, all others; `canceled` before its time. */
  status: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled';
  /** The sender. */ from: string;
  /** The first recipient. */ to: string;
  /** Recipients of a copy. */ cc: string[];
  /** Recipients of a blind copy. */ bcc: string[];
  /** Where answers go. */ reply_to: string[];
  /** The subject line. */ subject: string;
  /** Its labels. */ tags: string[];
  /** What it was sent as. */ type: 'transactional' | 'marketing';
  /** When it was accepted. */ created_at: string;
  /** When it is to be sent, where the request said so. */ scheduled_at?: string;
  /** When the last recipient had it; null unless all have. */ sent_at: string | null;
  /** Why it failed; null when it did not. */ error: string | null;
}

/** What would happen to an email. Nothing was stored or sent. */
export interface DryRun {
  /** Nothing was stored or sent. */ dry_run: true;
  /** What would become of it. */ would: 'be_queued' | 'be_scheduled' | 'be_suppressed' | 'exceed_quota';
  /** The message as it would be sent. */
  message: {
    /** In bytes. */ size: number;
    /** The source, signed; what is not UTF-8 is U+FFFD. */ raw: string;
  };
  /** Where bounces would go. */ return_path: string;
  /** What it would leave from; null: what the system chooses. */
  source: {
    /** The pool of sending addresses. */ pool: string;
    /** Its addresses. */ ips: string[];
    /** Which of them are new, and why it is not the pool of the domain. */ notes: string[];
  } | null;
  /** Recipients on the suppression list. */
  suppressed: {
    /** The recipient. */ address: string;
    /** Why. */ reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  }[];
  /** Where it would go, by domain. */
  destinations: {
    /** The recipients' domain. */ domain: string;
    /** Those at this domain. */ recipients: string[];
    /** In the order in which they would be tried. */
    hosts: {
      /** The MX host. */ name: string;
      /** Its preference: lower is tried first. */ preference: number;
      /** Its IP addresses. */ addresses: string[];
      /** Why it cannot be used now; null when it can. */ problem: string | null;
    }[];
    /** Why mail for this domain could not be delivered now. */
    problem: {
      /** Trying later would not help. */ permanent: boolean;
      /** Why. */ reason: string;
    } | null;
    /** How the connection would be secured. */
    tls: {
      /** What is demanded. */ policy: 'opportunistic' | 'required' | 'verified' | 'mta-sts' | 'dane';
      /** By what; `default` where nobody asks for anything. */ source: string;
      /** What else there is to say about it. */ notes: string[];
    };
  }[];
  /** How a receiver would see it. */
  authentication: {
    /** The signature. */
    dkim: {
      /** The domain that would sign. */ domain: string;
      /** The selector of its key. */ selector: string;
      /** It belongs to the domain in `from`. */ aligned: boolean;
    };
    /** The return path. */
    spf: {
      /** The domain of the return path. */ domain: string;
      /** What SPF says. */
      results: {
        /** An address that we send from. */ ip: string;
        /** Such as `pass`. */ result: string;
      }[];
      /** It belongs to the domain in `from`. */ aligned: boolean;
    };
    /** The domain in `from`. */
    dmarc: {
      /** The policy of the sender's domain or, where it has none, of its organisation's; null when there is none, or more than one. */
      record: string | null;
      /** Whether a receiver would find the email genuine. */ would_pass: boolean;
    };
  };
}

/** Every error has this shape. */
export interface ErrorBody {
  /** Which error it is: one of few, for programs. */ error: string;
  /** The field and the reason, or what to do about it: for people. */ detail?: string;
}

/** An email in a list, with what came back for it. */
export interface ListedEmail extends Email {
  /** What came back after it had left, each kind once; its `returns` say more. */
  returned: ('bounce' | 'delay' | 'complaint' | 'unsubscribe')[];
  /** How many recipients it has, in to, cc and bcc. */ recipient_count: number;
  /** A recipient of it waits until somebody decides, with `release`; why, its explanation says. */
  held: boolean;
}

/** An email with where each of its recipients is. */
export interface EmailWithRecipients extends Email {
  /** What it asks of the connection; the domain and the receiver may ask for more. */
  tls: 'opportunistic' | 'required' | 'verified';
  /** What is done after an attempt that may have delivered it. */ on_uncertain: 'retry' | 'hold';
  /** Each recipient, to first, then cc and bcc. */ recipients: Recipient[];
  /** What came back later, oldest first. */ returns: Return[];
}

/** One recipient of an email. */
export interface Recipient {
  /** The address. */ address: string;
  /** Where in the request it stood. */ kind: 'to' | 'cc' | 'bcc';
  /** Where it is; `deferred`: the server said "later". */
  status: 'queued' | 'deferred' | 'delivered' | 'failed' | 'suppressed' | 'canceled';
  /** How often it was tried. */ attempts: number;
  /** What was said last, by the server or by us. */ last_response: string | null;
  /** Why it is not tried although it was due, as for a limit, a back-off or a pause; or what it is in the middle of. */
  waiting_for: string | null;
  /** When it is tried next; null once settled, while its destination is paused, and while it is held. */
  next_attempt_at: string | null;
}

/** What came back after an email had left; its status stays what it was. */
export interface Return {
  /** Whom it is about. */ recipient: string;
  /** `bounce`: a server that had taken it gave up; `delay`: it still tries; `complaint`: its reader calls it spam. */
  kind: 'bounce' | 'delay' | 'complaint' | 'unsubscribe';
  /** What a bounce or delay is about, such as `bad_mailbox`. */ classification: string | null;
  /** The enhanced code (RFC 3463), such as `5.1.1`. */ enhanced_code: string | null;
  /** What was said. */ diagnostic: string | null;
  /** When it came. */ received_at: string;
}

/** One SMTP attempt: one recipient at one MX host. */
export interface Attempt {
  /** Its id. */ id: string;
  /** When it began. */ at: string;
  /** Which attempt for this recipient, from 1. */ number: number;
  /** For whom. */ recipient: string;
  /** The host that was tried; null when it ended before there was one. */ mx_host: string | null;
  /** Its IP address; null when none of several answered. */ remote_address: string | null;
  /** The address that we called from. */ local_address: string | null;
  /** Such as `TLSv1.3`; null when it was not encrypted. */ tls_version: string | null;
  /** The cipher. */ tls_cipher: string | null;
  /** The TLS policy that held, or that forbade the connection: `opportunistic`, `required`, `verified`, `mta-sts` or `dane`; `none` in clear, or where there was no connection. */
  verification: string;
  /** The SMTP command at which it was decided, or `dns`, `connect`, `local`. */ phase: string;
  /** What it came to; `bounced` is for good. */ outcome: 'delivered' | 'deferred' | 'bounced';
  /** The message was written and no reply was read: the server may have it. */ uncertain: boolean;
  /** The code of the reply, such as 550. */ reply_code: number | null;
  /** The enhanced code (RFC 3463), such as `5.1.1`. */ enhanced_code: string | null;
  /** The server's full reply; null when none decided. */ reply: string | null;
  /** What happened, in one sentence. */ reason: string;
  /** How long it took. */ duration_ms: number;
  /** What a failure is about, such as `bad_mailbox` or `rate`. */ classification: string | null;
  /** What was said, without the message itself; shared by the recipients of one session, empty where there was none. */
  conversation: {
    /** Milliseconds after it began. */ ms: number;
    /** Who said it; `note`: what was looked up, decided or seen. */ by: 'us' | 'server' | 'note';
    /** The command, or a line of a reply. */ text: string;
  }[];
}

/** What an email says. */
export interface EmailContent {
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
  /** Header fields that the request brought along. */
  headers: {
    /** Its name. */ name: string;
    /** Its value. */ value: string;
  }[];
  /** Its files. */
  attachments: {
    /** The name that the recipient sees. */ filename: string;
    /** The MIME type. */ content_type: string;
    /** What `cid:` names it by in the html; null for a file beside it. */ content_id: string | null;
    /** In bytes. */ size: number;
  }[];
}

/** Why a recipient is where it is, and what happens next. */
export interface Explanation {
  /** The recipient. */ address: string;
  /** Where it is. */ status: 'queued' | 'deferred' | 'delivered' | 'failed' | 'suppressed' | 'canceled';
  /** What holds it there: `scheduled`, `in_queue`, `on_hold`, `being_delivered`, `held_back`, `uncertain`, `crashed`, `retrying`, `refused`, `given_up`, `suppressed` or `canceled`; null when delivered. */
  cause: string | null;
  /** What a failure is about. */ classification: string | null;
  /** All of it in words. */ sentence: string;
  /** What somebody can do; null when there is nothing to do. */ advice: string | null;
  /** How often it was tried. */ attempts: number;
  /** The last attempt; null before the first. */
  last_attempt: {
    /** When. */ at: string;
    /** Where. */ mx_host: string | null;
    /** At which SMTP command. */ phase: string;
    /** What was said. */ response: string;
    /** The server may have the message all the same. */ uncertain: boolean;
  } | null;
  /** How the connection will be secured; null once settled, and past ten destinations. */
  tls: {
    /** What is demanded. */ policy: 'opportunistic' | 'required' | 'verified' | 'mta-sts' | 'dane';
    /** By what; `default` where nobody asks for anything. */ source: string;
    /** What else there is to say about it. */ notes: string[];
  } | null;
  /** When it is tried next; null once settled, while its destination is paused, and while it is held. */
  next_attempt_at: string | null;
  /** When it is given up if nothing changes; null once settled. */ gives_up_at: string | null;
}

/** What became of the emails that were accepted in one hour or day. */
export interface Bucket {
  /** Where the stretch of time begins. */ start: string;
  /** The sender domain, tag, type, the recipients' domain or who runs its mail servers; null without a grouping. */
  group: string | null;
  /** Emails that were accepted in it. */ accepted: number;
  /** Emails of which a recipient is on the suppression list; others may have got it, where the address came onto it later. */
  suppressed: number;
  /** Emails that put a recipient onto the suppression list by a complaint. */ complaints: number;
  /** Recipients that were delivered to. */ delivered: number;
  /** Recipients that are not settled. */ pending: number;
  /** Recipients that failed for good. */ failed: number;
  /** The same by what the failure is about. */ failed_by_class: Record<string, number>;
  /** Attempts to which a server said "later". */ deferrals: number;
  /** From when an email was due until the recipient's server took it; null where nothing was delivered. */
  latency_ms: {
    /** Half of them took no longer. */ p50: number;
    /** 95 of 100. */ p95: number;
    /** 99 of 100. */ p99: number;
  } | null;
}

/** A template with its draft's content. */
export interface Template extends TemplateSummary {
  /** The draft says something else than what is published. */ has_unpublished_changes: boolean;
  /** The sender of emails that name none. */ from: string | null;
  /** The subject of emails that have none. */ subject: string | null;
  /** Where answers go. */ reply_to: string[];
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
  /** What is declared. */
  variables: {
    /** What stands between the braces. */ key: string;
    /** What its values must be. */ type: 'string' | 'number';
    /** What stands in where no value is given; null: one must be given. */
    fallback_value: string | number | null;
  }[];
}

/** A template in a list. */
export interface TemplateSummary {
  /** Its id. */ id: string;
  /** What people call it. */ name: string;
  /** The name to send with instead of the id. */ alias: string | null;
  /** Emails can be made from a `published` one. */ status: 'draft' | 'published';
  /** When it was last published; null before the first time. */ published_at: string | null;
  /** When it was created. */ created_at: string;
  /** When it was last changed. */ updated_at: string;
}

/** What an email would say. */
export interface RenderedTemplate {
  /** The subject. */ subject: string | null;
  /** The sender. */ from: string | null;
  /** Where answers go. */ reply_to: string[];
  /** The body as HTML. */ html: string | null;
  /** The body as plain text. */ text: string | null;
}

/** An address that is not sent to. */
export interface Suppression {
  /** The address, in lower case. */ address: string;
  /** Why. `unsubscribe` stops marketing only, the others all mail. */
  reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  /** The email that it came from; null when it was added by hand. */ email_id: string | null;
  /** Since when. */ created_at: string;
}

/** The receipt for the erasure of one recipient's data. */
export interface Erasure {
  /** Of the receipt. */ id: string;
  /** `done`: nothing is left, and nobody here knows any more whose it was. */ status: 'pending' | 'done';
  /** A keyed hash of the address, the same for each erasure of it in this account. */ address_hash: string;
  /** Whether a suppression of the address stays. */ suppression: 'keep' | 'remove';
  /** How much was erased so far. */
  counts: {
    /** Emails that they were a recipient of: each keeps its id, times, status and figures. */ emails: number;
    /** Contents that were for them alone, with their subjects. */ contents: number;
    /** Files that no other email has. */ attachments: number;
    /** Places among recipients, where `erased-1` and its like stand now. */ recipients: number;
    /** Of these, those that mail was still to be sent to. */ canceled: number;
    /** Attempts, with what was said in them. */ attempts: number;
    /** Bounces, complaints and the like, with their words. */ returns: number;
    /** Webhook deliveries: their payloads, and what endpoints answered. */ webhook_deliveries: number;
    /** Answers that were kept for an `Idempotency-Key`. */ idempotency_keys: number;
    /** Messages in the sandbox's mailbox. */ sandbox_messages: number;
    /** Suppressions, where that was asked for. */ suppressions: number;
  };
  /** When it was asked for. */ asked_at: string;
  /** When it was done; null: it is not. */ done_at: string | null;
}

/** A sending domain. */
export interface Domain {
  /** Its id. */ id: string;
  /** The name, in lower case and as A-labels. */ domain: string;
  /** Emails can be sent from a `verified` one. */ status: 'pending' | 'verified';
  /** Where its DKIM key is published. */ dkim_selector: string;
  /** When it was verified; null before. */ verified_at: string | null;
  /** What the last daily check found missing; null when nothing was. */ dns_warning: string | null;
  /** What all of its mail asks of the connection, at least. */ tls: 'opportunistic' | 'required' | 'verified';
  /** The pool of sending addresses that its mail leaves from; null: the one for that kind of mail. */
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
  /** What goes between the quotes. */ value: string;
}

/** A DKIM key beside the one that signs for the domain. */
export interface DKIMKey {
  /** Its id. */ id: string;
  /** Its place in DNS. */ selector: string;
  /** What it signs with. */ algorithm: 'rsa' | 'ed25519';
  /** `pending`: signs as soon as its record is seen; `active`: signs beside the domain’s own; `retired`: signs no more, and its record should stay until `remove_after`. */
  status: 'pending' | 'active' | 'retired';
  record: DNSRecord;
  /** What the last look-up of its record found wrong; null when nothing was, or before the first. */
  problem: string | null;
  /** When it was made or imported. */ created_at: string;
  /** Since when it signs beside the domain’s own. */ activated_at: string | null;
  /** When another took its place. */ retired_at: string | null;
  /** When its record may be removed from DNS. */ remove_after: string | null;
}

/** A DNS record that helps, and that verification does not ask for. */
export interface RecommendedRecord extends DNSRecord {
  /** What it is good for. */ purpose: string;
}

/** The look-up of each of the three records. */
export interface Checks {
  verification: Check;
  dkim: Check;
  spf: Check;
}

/** What a look-up of one record came to. */
export interface Check {
  /** It is right. */ ok: boolean;
  /** The name that was looked up. */ name: string;
  /** Such as `TXT`. */ type: string;
  /** The value to publish. */ expected: string;
  /** What is published there now. */ found: string[];
  /** What is wrong and what to do; null when nothing is. */ problem: string | null;
}

/** An error that reports each of the three records. */
export interface VerificationError {
  /** The error. */ error: 'dns verification failed';
  /** What is missing, and what to do about it. */ detail: string;
  /** Which of the three records are not right. */ missing: ('verification' | 'dkim' | 'spf')[];
  checks: Checks;
}

/** An API key, without the key itself. */
export interface ApiKey {
  /** Its id. */ id: string;
  /** What people call it. */ name: string;
  /** The first characters of the key. */ key_prefix: string;
  /** What it allows. */ scopes: ('send' | 'read')[];
  /** The sender domains that it may send from; empty: all of the account. */ domains: string[];
  /** From when on it is refused; null: never. */ expires_at: string | null;
  /** When it was created. */ created_at: string;
  /** When it was revoked; null: it was not. */ revoked_at: string | null;
}

/** An endpoint that is called for events. */
export interface Webhook {
  /** Its id. */ id: string;
  /** What is called. */ url: string;
  /** What it is called for. */ events: EventType[];
  /** A disabled one is not called, and what happens meanwhile is not kept for it. */
  status: 'enabled' | 'disabled';
  /** Why it was disabled; null when its owner did it. */ disabled_reason: string | null;
  /** Since when every call fails; null when they succeed. */ failing_since: string | null;
  /** When it was created. */ created_at: string;
}

/** A delivery with its body. */
export interface WebhookDeliveryWithPayload extends WebhookDelivery {
  /** The body as it is sent. */ payload: Record<string, unknown>;
}

/** One event for one endpoint, with every call that was made for it. */
export interface WebhookDelivery {
  /** Its id, as `X-Service-Webhook-Id` has it. */ id: string;
  /** The endpoint. */ webhook_id: string;
  /** The event. */ event: EventType | 'webhook.test';
  /** The email that it is about; null for a test. */ email_id: string | null;
  /** `pending` until it succeeded, or is given up. */ status: 'pending' | 'succeeded' | 'failed';
  /** Why it ended without another attempt. */ error: string | null;
  /** The last 20, oldest first. */
  attempts: {
    /** When. */ at: string;
    /** The status of the answer; null when there was none. */ response_status: number | null;
    /** What it said, cut. */ response_body: string | null;
    /** Why there was no answer. */ error: string | null;
    /** How long it took. */ duration_ms: number;
  }[];
  /** When it is tried next; null once it is over. */ next_attempt_at: string | null;
  /** When the event happened. */ created_at: string;
}

/** An account: one customer of the server. */
export interface Account {
  /** Its id. */ id: string;
  /** What people call it. */ name: string;
  /** What it may send. */ plan: 'free' | 'pro' | 'unlimited';
  /** What emails past the month’s number are paid from on the plan `pro`, at 0.50 each, with two decimal places. Other plans do not use it. */
  credit: string;
  /** What counts for the plan, by days and months of UTC. The plan `unlimited` counts nothing. */
  usage: {
    /** Emails accepted today; null: they are not counted. */ day: number | null;
    /** Emails accepted this month; null: they are not counted. */ month: number | null;
  };
  /** For how many days the plan keeps what, from when an email was due. What waits is kept. */
  retention: {
    /** The log of its emails, at the least: weeks go as a whole. */ log_days: number;
    /** Their content. */ content_days: number;
  };
  /** Since when it may not log in or send; null: it may. */ suspended_at: string | null;
  /** When it was created. */ created_at: string;
}

/** An email in the log of all accounts. */
export interface AccountEmail extends ListedEmail {
  /** The account that sent it. */ account_id: string;
}

/** What one look at the installation came to. */
export interface Finding {
  /** What was looked at. */
  check:
    | 'delivery_mode'
    | 'outbound_port_25'
    | 'mail_hostname'
    | 'reverse_dns'
    | 'blocklist'
    | 'return_path'
    | 'domain'
    | 'dmarc'
    | 'clock'
    | 'disk_space'
    | 'database_durability'
    | 'base_url';
  /** Of what: an address, a domain, a host. */ subject: string;
  /** `problem`: there is something to do; `unknown`: nobody could say. */ health: 'ok' | 'problem' | 'unknown';
  /** What was found. */ found: string;
  /** What to do about it; null where there is nothing to do. */ advice: string | null;
}

/** How the server stands with whoever takes the mail of some domains. */
export interface Destination {
  /** Whose servers these are: a provider such as `Google`, the domain of the MX host, or the destination itself. Its destinations are limited together. */
  site: string;
  /** Domains whose mail it takes: up to fifty that were sent to lately. */ destinations: string[];
  /** How mail goes just now: `paused` by an operator; `backing_off`: nothing is tried until `backoff_until`; `slowed`: with fewer connections than it may have, for `reason`; else `open`. */
  state: 'paused' | 'backing_off' | 'slowed' | 'open';
  /** Recipients that are due or being delivered. */ queued: number;
  /** Recipients that wait for another attempt, or for the site. */ deferred: number;
  /** When the first of those is tried. */ next_attempt_at: string | null;
  /** Attempts under way. */ in_flight: number;
  /** Connections that it may have now, on all nodes; it follows what the site bears. */ connections: number;
  /** And at the most. */ most_connections: number;
  /** Messages a minute; null: no limit. */ per_minute: number | null;
  /** Why it may have fewer connections, or none. */ reason: string | null;
  /** Until when nothing is tried; null: it is. */ backoff_until: string | null;
  /** What it said last. */ last_reply: string | null;
  /** When it last took or judged a message. */ last_success_at: string | null;
  /** What most of the mail waits for that has not used up an attempt; null: none does. */
  waiting_for: string | null;
  /** Since when an operator has paused it; null: it is not. */ paused_at: string | null;
}

/** An address that mail leaves from. */
export interface SendingAddress {
  /** The address. */ ip: string;
  /** The pool that it belongs to. */ pool: string;
  /** Where it stands in its plan; null: it is not new, or its plan is over. */
  warm_up: {
    /** The first is 1; 0: it has not begun. */ day: number;
    /** Messages that may leave from it today (UTC), on all nodes. */ cap: number;
    /** Those that have left, or are leaving. */ sent_today: number;
    /** When its first day begins. */ begins_at: string;
    /** From when it has no cap. */ ends_at: string;
  } | null;
}

/** A message in the sandbox's mailbox. */
export interface SandboxMessage {
  /** Its id. */ id: string;
  /** The email that it was; null for one that is not from here. */ email_id: string | null;
  /** When it arrived. */ received_at: string;
  /** The return path. */ mail_from: string;
  /** For whom it arrived. */ rcpt_to: string[];
  /** The address in its header. */ from: string;
  /** Its subject. */ subject: string;
  /** How the connection was secured; null when it was not. */ tls_version: string | null;
  /** The verdict on each signature. */
  dkim: {
    /** Who signed. */ domain: string;
    /** With which key. */ selector: string;
    /** Such as `pass`. */ result: string;
    /** More about it. */ info: string;
  }[];
  /** In bytes. */ size: number;
  /** The source; what is not UTF-8 is U+FFFD. */ raw: string;
  /** The source was cut: the single message has all of it. */ raw_truncated: boolean;
}

/** A login with its token. */
export interface Login {
  /** For `Authorization: Bearer`. */ token: string;
  /** How it is sent. */ token_type: 'Bearer';
  /** Until when it is good, unless the password changes. */ expires_at: string;
  /** Who logged in. */
  user: {
    /** The user. */ id: string;
    /** What the user logs in with. */ email: string;
    /** An `admin` operates the server. */ role: 'admin' | 'member';
  };
  /** Whose account it is. */
  account: {
    /** The account. */ id: string;
    /** Its name. */ name: string;
    /** What it may send. */ plan: 'free' | 'pro' | 'unlimited';
  };
}

/** A login that a browser keeps. */
export interface Session {
  /** Until when, unless it is ended or the password changes. */ expires_at: string;
  /** Who logged in. */
  user: {
    /** The user. */ id: string;
    /** What the user logs in with. */ email: string;
    /** An `admin` operates the server. */ role: 'admin' | 'member';
  };
  /** Whose account it is. */
  account: {
    /** The account. */ id: string;
    /** Its name. */ name: string;
    /** What it may send. */ plan: 'free' | 'pro' | 'unlimited';
  };
  /** What is logged in to. */
  service: {
    /** How clients reach the service. */ base_url: string;
    /** No mail leaves the machine. */ sandbox: boolean;
    /** Since when mail is accepted, and nothing sent, until an operator decides what becomes of it; null: it is sent. */
    on_hold_since: string | null;
  };
}

/** What is posted to an endpoint. */
export interface EmailEvent {
  /** The event. */ type: EventType;
  /** When it happened. */ created_at: string;
  /** The email. */
  data: {
    /** The email. */ email_id: string;
    /** Its sender. */ from: string;
    /** Its recipients. */ to: string[];
    /** Its subject. */ subject: string;
    /** Its status then; `delivered` for `email.delivered`. */
    status: 'queued' | 'sent' | 'failed' | 'suppressed' | 'canceled' | 'delivered';
    /** When it was accepted. */ created_at: string;
    /** Its labels; absent where it has none. */ tags?: string[];
    /** Whom it is about; absent where it was just accepted, or suppressed in place of that. */
    recipients?: {
      /** The recipient. */ address: string;
      /** Where it is; `bounced`, `complained` or `unsubscribed` for what came later. */ status: string;
      /** What its server said. */ response: string | null;
    }[];
  };
}

/** What `POST /api/v1/webhooks/:id/test` posts to an endpoint. */
export interface WebhookTest {
  /** The event. */ type: 'webhook.test';
  /** When the call was asked for. */ created_at: string;
  /** The endpoint. */
  data: {
    /** The endpoint. */ webhook_id: string;
    /** What it is. */ message: string;
  };
}
