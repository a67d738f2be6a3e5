// Made from the OpenAPI document by `npm run client-types`: where operations are, what they take and answer.

import type {
  AddCreditBody,
  AddDomainBody,
  AddSuppressionBody,
  ChangeAccountBody,
  ChangeDomainBody,
  ChangePasswordBody,
  ChangeTemplateBody,
  ChangeWebhookBody,
  CreateAccountBody,
  CreateKeyBody,
  CreateTemplateBody,
  CreateWebhookBody,
  EraseRecipientBody,
  ExamineQuery,
  ExportAccountQuery,
  GetDomainQuery,
  GetStatsQuery,
  ImportSuppressionsBody,
  ListAccountsQuery,
  ListAllEmailsQuery,
  ListDestinationsQuery,
  ListEmailsQuery,
  ListErasuresQuery,
  ListSandboxMessagesQuery,
  ListSuppressionsQuery,
  ListTemplatesQuery,
  ListWebhookDeliveriesQuery,
  LogInBody,
  PartQuery,
  PublishTemplateBody,
  ReleaseEmailBody,
  RenderTemplateBody,
  ReplayWebhookBody,
  RescheduleEmailBody,
  ResendEmailBody,
  RotateDkimBody,
  SendBatchBody,
  SendEmailQuery,
  SendRequest,
  StopDestinationBody,
  StopEmailsBody,
} from './requests.ts';

import type {
  Account,
  AccountEmail,
  ApiKey,
  Attempt,
  Bucket,
  Checks,
  Destination,
  DKIMKey,
  DNSRecords,
  Domain,
  DryRun,
  Email,
  EmailContent,
  EmailWithRecipients,
  Erasure,
  Explanation,
  Finding,
  ListedAccount,
  ListedEmail,
  Login,
  RecommendedRecord,
  RenderedTemplate,
  SandboxMessage,
  SendingAddress,
  Session,
  Suppression,
  Template,
  TemplateSummary,
  Webhook,
  WebhookDelivery,
  WebhookDeliveryWithPayload,
} from './types.ts';

export const routes = {
  sendEmail: { method: 'POST', path: '/api/v1/emails', takesKey: true },
  listEmails: { method: 'GET', path: '/api/v1/emails' },
  sendBatch: { method: 'POST', path: '/api/v1/emails/batch', takesKey: true },
  rescheduleEmail: { method: 'PATCH', path: '/api/v1/emails/{id}' },
  cancelEmail: { method: 'DELETE', path: '/api/v1/emails/{id}' },
  getEmail: { method: 'GET', path: '/api/v1/emails/{id}' },
  releaseEmail: { method: 'POST', path: '/api/v1/emails/{id}/release' },
  stopEmail: { method: 'POST', path: '/api/v1/emails/{id}/stop' },
  stopEmails: { method: 'POST', path: '/api/v1/emails/stop' },
  resendEmail: { method: 'POST', path: '/api/v1/emails/{id}/resend', takesKey: true },
  listAttempts: { method: 'GET', path: '/api/v1/emails/{id}/attempts' },
  getEmailContent: { method: 'GET', path: '/api/v1/emails/{id}/content' },
  explainEmail: { method: 'GET', path: '/api/v1/emails/{id}/explain' },
  getStats: { method: 'GET', path: '/api/v1/stats' },
  createTemplate: { method: 'POST', path: '/api/v1/templates' },
  listTemplates: { method: 'GET', path: '/api/v1/templates' },
  getTemplate: { method: 'GET', path: '/api/v1/templates/{id}' },
  changeTemplate: { method: 'PATCH', path: '/api/v1/templates/{id}' },
  removeTemplate: { method: 'DELETE', path: '/api/v1/templates/{id}' },
  publishTemplate: { method: 'POST', path: '/api/v1/templates/{id}/publish' },
  renderTemplate: { method: 'POST', path: '/api/v1/templates/{id}/render' },
  listSuppressions: { method: 'GET', path: '/api/v1/suppressions' },
  addSuppression: { method: 'POST', path: '/api/v1/suppressions' },
  importSuppressions: { method: 'POST', path: '/api/v1/suppressions/import' },
  exportSuppressions: { method: 'GET', path: '/api/v1/suppressions/export', isText: true },
  removeSuppression: { method: 'DELETE', path: '/api/v1/suppressions/{address}' },
  eraseRecipient: { method: 'POST', path: '/api/v1/recipients/erase' },
  listErasures: { method: 'GET', path: '/api/v1/recipients/erasures' },
  getErasure: { method: 'GET', path: '/api/v1/recipients/erasures/{id}' },
  exportAccount: { method: 'GET', path: '/api/v1/account/export', isText: true },
  addDomain: { method: 'POST', path: '/api/v1/domains' },
  listDomains: { method: 'GET', path: '/api/v1/domains' },
  getDomain: { method: 'GET', path: '/api/v1/domains/{id}' },
  changeDomain: { method: 'PATCH', path: '/api/v1/domains/{id}' },
  removeDomain: { method: 'DELETE', path: '/api/v1/domains/{id}' },
  verifyDomain: { method: 'POST', path: '/api/v1/domains/{id}/verify' },
  rotateDkim: { method: 'POST', path: '/api/v1/domains/{id}/rotate-dkim' },
  removeDkimKey: { method: 'DELETE', path: '/api/v1/dkim-keys/{id}' },
  createKey: { method: 'POST', path: '/api/v1/keys' },
  listKeys: { method: 'GET', path: '/api/v1/keys' },
  revokeKey: { method: 'DELETE', path: '/api/v1/keys/{id}' },
  createWebhook: { method: 'POST', path: '/api/v1/webhooks' },
  listWebhooks: { method: 'GET', path: '/api/v1/webhooks' },
  getWebhook: { method: 'GET', path: '/api/v1/webhooks/{id}' },
  changeWebhook: { method: 'PATCH', path: '/api/v1/webhooks/{id}' },
  removeWebhook: { method: 'DELETE', path: '/api/v1/webhooks/{id}' },
  rotateWebhookSecret: { method: 'POST', path: '/api/v1/webhooks/{id}/rotate-secret' },
  testWebhook: { method: 'POST', path: '/api/v1/webhooks/{id}/test' },
  replayWebhook: { method: 'POST', path: '/api/v1/webhooks/{id}/replay' },
  listWebhookDeliveries: { method: 'GET', path: '/api/v1/webhook-deliveries' },
  getWebhookDelivery: { method: 'GET', path: '/api/v1/webhook-deliveries/{id}' },
  retryWebhookDelivery: { method: 'POST', path: '/api/v1/webhook-deliveries/{id}/retry' },
  createAccount: { method: 'POST', path: '/api/v1/admin/accounts' },
  listAccounts: { method: 'GET', path: '/api/v1/admin/accounts' },
  getAccount: { method: 'GET', path: '/api/v1/admin/accounts/{id}' },
  changeAccount: { method: 'PATCH', path: '/api/v1/admin/accounts/{id}' },
  addCredit: { method: 'POST', path: '/api/v1/admin/accounts/{id}/credits', takesKey: true },
  listAllEmails: { method: 'GET', path: '/api/v1/admin/emails' },
  examine: { method: 'GET', path: '/api/v1/admin/doctor' },
  listDestinations: { method: 'GET', path: '/api/v1/admin/destinations' },
  pauseDestination: { method: 'POST', path: '/api/v1/admin/destinations/{name}/pause' },
  resumeDestination: { method: 'POST', path: '/api/v1/admin/destinations/{name}/resume' },
  flushDestination: { method: 'POST', path: '/api/v1/admin/destinations/{name}/flush' },
  getWaitingForDomain: { method: 'GET', path: '/api/v1/admin/destinations/{name}/waiting' },
  stopDestination: { method: 'POST', path: '/api/v1/admin/destinations/{name}/stop' },
  listSandboxMessages: { method: 'GET', path: '/api/v1/sandbox/messages' },
  getSandboxMessage: { method: 'GET', path: '/api/v1/sandbox/messages/{id}' },
  logIn: { method: 'POST', path: '/api/v1/auth/login' },
  changePassword: { method: 'POST', path: '/api/v1/auth/password' },
  createSession: { method: 'POST', path: '/api/v1/session' },
  getSession: { method: 'GET', path: '/api/v1/session' },
  endSession: { method: 'DELETE', path: '/api/v1/session' },
  isAlive: { method: 'GET', path: '/healthz' },
  isReady: { method: 'GET', path: '/readyz' },
  getOpenApi: { method: 'GET', path: '/api/v1/openapi.json' },
  showReference: { method: 'GET', path: '/docs', isText: true },
  showWelcome: { method: 'GET', path: '/', isText: true },
  showUnsubscribe: { method: 'GET', path: '/unsubscribe/{token}', isText: true },
  unsubscribe: { method: 'POST', path: '/unsubscribe/{token}', isText: true },
} as const;

export interface Operations {
  /** Send an email */
  sendEmail: { query: SendEmailQuery; body: SendRequest; answer: { email: Email } | DryRun };
  /** List emails */
  listEmails: {
    query: ListEmailsQuery;
    answer: {
      /** The page. */ emails: ListedEmail[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
      /** False if more may match than `count` says: a search for a recipient, for held or scheduled emails, or by more than one of tag, sender and domain counts up to 10,000; a search by words or by the recipients’ domain, up to 1,000. */
      count_exact: boolean;
      /** The `cursor` of the next page; null on the last. A search by the recipients’ domain looks at 100,000 emails at a time, so a page may be short or empty although another follows. */
      next_cursor: string | null;
    };
  };
  /** Send many emails */
  sendBatch: {
    body: SendBatchBody;
    answer: {
      /** The emails that were accepted, in the order of the request. */ emails: Email[];
      /** How many emails the request had. */ count: number;
      /** The emails that were refused. */
      errors: {
        /** The index of the email in the request, from 0. */ index: number;
        /** The error, as for a single email. */ error: string;
        /** The reason. */ detail?: string;
      }[];
    };
  };
  /** Move a scheduled email */
  rescheduleEmail: { body: RescheduleEmailBody; answer: { email: Email } };
  /** Cancel a scheduled email */
  cancelEmail: { answer: { email: Email } };
  /** Get an email */
  getEmail: { answer: { email: EmailWithRecipients } };
  /** Release a held email */
  releaseEmail: {
    body: ReleaseEmailBody;
    answer: {
      email: Email;
      /** How many recipients were held. */ released: number;
    };
  };
  /** Give up a waiting email */
  stopEmail: {
    answer: {
      email: Email;
      /** How many recipients were given up. */ stopped: number;
      /** How many a node had in hand; the next call finds those that it gives back. */ in_hand: number;
    };
  };
  /** Stop all waiting emails that match */
  stopEmails: {
    body: StopEmailsBody;
    answer: {
      /** How many recipients were given up. */ stopped: number;
      /** How many emails were canceled that waited for their scheduled time. */ canceled: number;
      /** Recipients that a node has in hand: their message is on its way, or waits there for its turn. */
      in_hand: number;
      /** Recipients that are held until you decide with `release`. */ held: number;
      /** There were too many for one call; repeat it. */ rest_waits: boolean;
    };
  };
  /** Send an email again */
  resendEmail: { body: ResendEmailBody; answer: { email: Email } };
  /** List delivery attempts */
  listAttempts: { answer: { /** Oldest first. */ attempts: Attempt[] } };
  /** Get the content of an email */
  getEmailContent: { answer: EmailContent };
  /** Explain an email */
  explainEmail: {
    answer: {
      email: Email;
      /** The email in one sentence. */ summary: string;
      /** The addresses it is sent from; null once settled, or if the system chooses. */
      source: {
        /** The pool of sending addresses. */ pool: string;
        /** Its addresses. */ ips: string[];
        /** Which addresses are new, and why the pool of the domain is not used. */ notes: string[];
      } | null;
      /** Each recipient. */ recipients: Explanation[];
    };
  };
  /** Get statistics */
  getStats: {
    query: GetStatsQuery;
    answer: {
      /** The start of the range. */ from: string;
      /** The end of the range; if you omitted it, when the counts were made. */ to: string;
      /** The length of each interval. */ interval: 'hour' | 'day';
      /** The grouping; null: none. */ group_by: 'domain' | 'tag' | 'type' | 'destination' | 'provider' | null;
      /** How many groups have emails in the range. Of more than 1,000, only those with the most emails are listed. Null without `group_by`. */
      group_count: number | null;
      /** One for each hour or day and group. */ buckets: Bucket[];
    };
  };
  /** Create a template */
  createTemplate: { body: CreateTemplateBody; answer: { template: Template } };
  /** List templates */
  listTemplates: {
    query: ListTemplatesQuery;
    answer: {
      /** The page. */ templates: TemplateSummary[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
    };
  };
  /** Get a template */
  getTemplate: { answer: { template: Template } };
  /** Change a template */
  changeTemplate: { body: ChangeTemplateBody; answer: { template: Template } };
  /** Remove a template */
  removeTemplate: { answer: { /** What was done, in words. */ message: string } };
  /** Publish a template */
  publishTemplate: { body: PublishTemplateBody; answer: { template: Template } };
  /** Render a template */
  renderTemplate: { body: RenderTemplateBody; answer: RenderedTemplate };
  /** List suppressions */
  listSuppressions: {
    query: ListSuppressionsQuery;
    answer: {
      /** The page. */ suppressions: Suppression[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
      /** False if more match than `count` says, which is at most 100,000, or 10,000 with `address`. The `X-Total-Count` of an export is the exact number of the whole list. */
      count_exact: boolean;
    };
  };
  /** Suppress an address */
  addSuppression: { body: AddSuppressionBody; answer: { suppression: Suppression } };
  /** Suppress many addresses */
  importSuppressions: {
    body: ImportSuppressionsBody;
    answer: {
      /** What was done, in words. */ message: string;
      /** How many different addresses the request had. */ count: number;
    };
  };
  /** Export the list as CSV */
  exportSuppressions: { answer: string };
  /** Remove an address from the list */
  removeSuppression: { answer: { /** What was done, in words. */ message: string } };
  /** Erase a recipient's data */
  eraseRecipient: { body: EraseRecipientBody; answer: { erasure: Erasure } };
  /** List erasures */
  listErasures: {
    query: ListErasuresQuery;
    answer: {
      /** The page. */ erasures: Erasure[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
    };
  };
  /** Get an erasure */
  getErasure: { answer: { erasure: Erasure } };
  /** Export all data of the account */
  exportAccount: { query: ExportAccountQuery; answer: string };
  /** Add a domain */
  addDomain: {
    body: AddDomainBody;
    answer: {
      domain: Domain;
      dns_records: DNSRecords;
      /** Pending, additional and retired keys, newest first. */ dkim_keys: DKIMKey[];
      /** Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one. */
      recommended_records: RecommendedRecord[];
    };
  };
  /** List domains */
  listDomains: { query: PartQuery; answer: { /** Newest first. */ domains: Domain[] } };
  /** Get a domain */
  getDomain: {
    query: GetDomainQuery;
    answer: {
      domain: Domain;
      dns_records: DNSRecords;
      /** Pending, additional and retired keys, newest first. */ dkim_keys: DKIMKey[];
      /** Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one. */
      recommended_records: RecommendedRecord[];
      checks?: Checks;
    };
  };
  /** Change a domain */
  changeDomain: {
    body: ChangeDomainBody;
    answer: {
      domain: Domain;
      dns_records: DNSRecords;
      /** Pending, additional and retired keys, newest first. */ dkim_keys: DKIMKey[];
      /** Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one. */
      recommended_records: RecommendedRecord[];
    };
  };
  /** Remove a domain */
  removeDomain: { answer: { /** What was done, in words. */ message: string } };
  /** Verify a domain */
  verifyDomain: {
    answer: {
      domain: Domain;
      dns_records: DNSRecords;
      /** Pending, additional and retired keys, newest first. */ dkim_keys: DKIMKey[];
      /** Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one. */
      recommended_records: RecommendedRecord[];
      checks: Checks;
    };
  };
  /** Change the DKIM key, or add an Ed25519 one */
  rotateDkim: {
    body: RotateDkimBody;
    answer: {
      domain: Domain;
      dns_records: DNSRecords;
      /** Pending, additional and retired keys, newest first. */ dkim_keys: DKIMKey[];
      /** Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one. */
      recommended_records: RecommendedRecord[];
    };
  };
  /** Remove a DKIM key */
  removeDkimKey: { answer: { /** What was done, in words. */ message: string } };
  /** Create an API key */
  createKey: {
    body: CreateKeyBody;
    answer: {
      /** The whole key. It cannot be shown again, because only its hash is stored. */ key: string;
      api_key: ApiKey;
      /** A reminder to store it. */ warning: string;
    };
  };
  /** List API keys */
  listKeys: { query: PartQuery; answer: { /** Newest first. */ api_keys: ApiKey[] } };
  /** Revoke an API key */
  revokeKey: { answer: { api_key: ApiKey } };
  /** Create an endpoint */
  createWebhook: {
    body: CreateWebhookBody;
    answer: {
      webhook: Webhook;
      /** The secret that signs the calls. It is shown only once. */ secret: string;
    };
  };
  /** List endpoints */
  listWebhooks: { query: PartQuery; answer: { /** Newest first. */ webhooks: Webhook[] } };
  /** Get an endpoint */
  getWebhook: { answer: { webhook: Webhook } };
  /** Change an endpoint */
  changeWebhook: { body: ChangeWebhookBody; answer: { webhook: Webhook } };
  /** Remove an endpoint */
  removeWebhook: { answer: { /** What was done, in words. */ message: string } };
  /** Rotate the secret */
  rotateWebhookSecret: {
    answer: {
      webhook: Webhook;
      /** The secret that signs the calls. It is shown only once. */ secret: string;
      /** When the previous secret stops signing. */ previous_secret_valid_until: string | null;
    };
  };
  /** Call an endpoint now */
  testWebhook: { answer: { delivery: WebhookDeliveryWithPayload } };
  /** Send a time range again */
  replayWebhook: {
    body: ReplayWebhookBody;
    answer: {
      /** How many deliveries are sent again. */ count: number;
      /** The `since` of the next call if there are more; null if not. */ next_since: string | null;
    };
  };
  /** List deliveries */
  listWebhookDeliveries: {
    query: ListWebhookDeliveriesQuery;
    answer: {
      /** The page. */ deliveries: WebhookDelivery[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
      /** False if more match than `count` says, which is at most 10,000. Those of one email are all counted. */
      count_exact: boolean;
    };
  };
  /** Get a delivery */
  getWebhookDelivery: { answer: { delivery: WebhookDeliveryWithPayload } };
  /** Send a delivery again */
  retryWebhookDelivery: { answer: { delivery: WebhookDeliveryWithPayload } };
  /** Create an account */
  createAccount: {
    body: CreateAccountBody;
    answer: {
      account: Account;
      /** Its first user. */
      user: {
        /** The email address to log in with. */ email: string;
        /** The generated password; absent if the request had one. */ password?: string;
      };
    };
  };
  /** List accounts */
  listAccounts: {
    query: ListAccountsQuery;
    answer: {
      /** The page. */ accounts: ListedAccount[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
    };
  };
  /** Get an account */
  getAccount: { answer: { account: Account } };
  /** Change an account */
  changeAccount: { body: ChangeAccountBody; answer: { account: Account } };
  /** Top up the credit */
  addCredit: { body: AddCreditBody; answer: { account: Account } };
  /** List the emails of all accounts */
  listAllEmails: {
    query: ListAllEmailsQuery;
    answer: {
      /** The page. */ emails: AccountEmail[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
      /** False if more may match than `count` says: a search for a recipient, for held or scheduled emails, or by more than one of tag, sender and domain counts up to 10,000; a search by words or by the recipients’ domain, up to 1,000. */
      count_exact: boolean;
      /** The `cursor` of the next page; null on the last. A search by the recipients’ domain looks at 100,000 emails at a time, so a page may be short or empty although another follows. */
      next_cursor: string | null;
    };
  };
  /** Check everything that mail depends on */
  examine: {
    query: ExamineQuery;
    answer: {
      /** No finding is a `problem` or `unknown`. */ well: boolean;
      /** When the checks were made. */ checked_at: string;
      /** Each with what to do about it. */ findings: Finding[];
    };
  };
  /** List destinations */
  listDestinations: {
    query: ListDestinationsQuery;
    answer: {
      /** The sites. */ destinations: Destination[];
      /** How many sites match. */ count: number;
      /** The sending addresses, by pool; empty if the system chooses the address. */
      sending_ips: SendingAddress[];
    };
  };
  /** Pause a destination */
  pauseDestination: { answer: { destination: Destination } };
  /** Resume a destination */
  resumeDestination: {
    answer: {
      destination: Destination;
      /** There were too many for one call; the delivering nodes continue with the rest. */ rest_follows: boolean;
    };
  };
  /** Flush a destination */
  flushDestination: {
    answer: {
      destination: Destination;
      /** How many recipients became due. */ flushed: number;
      /** There were too many for one call; the delivering nodes continue with the rest. */ rest_follows: boolean;
    };
  };
  /** Count what waits for a domain */
  getWaitingForDomain: {
    answer: {
      /** The domain, as it is stored. */ domain: string;
      /** Recipients that would be given up. */ waiting: number;
      /** Recipients that a node has in hand: their message is on its way, or waits there for its turn. */
      in_hand: number;
      /** Recipients that are held until the owner of the email decides. */ held: number;
    };
  };
  /** Give up what waits for a domain */
  stopDestination: {
    body: StopDestinationBody;
    answer: {
      /** The domain, as it is stored. */ domain: string;
      /** How many recipients were given up. */ stopped: number;
      /** Recipients that a node has in hand: their message is on its way, or waits there for its turn. */
      in_hand: number;
      /** Recipients that are held until the owner of the email decides. */ held: number;
      /** There were too many for one call; repeat it. */ rest_waits: boolean;
    };
  };
  /** List sandbox messages */
  listSandboxMessages: {
    query: ListSandboxMessagesQuery;
    answer: {
      /** The page. */ messages: SandboxMessage[];
      /** How many match in all, regardless of `limit` and `offset`. */ count: number;
    };
  };
  /** Get a sandbox message */
  getSandboxMessage: { answer: { message: SandboxMessage } };
  /** Log in */
  logIn: { body: LogInBody; answer: Login };
  /** Change the password */
  changePassword: {
    body: ChangePasswordBody;
    answer: {
      /** The scheme to send it with. */ token_type: 'Bearer';
      /** When it expires, unless the password is changed earlier. */ expires_at: string;
      /** The new token; null if it is in a cookie. */ token: string | null;
    };
  };
  /** Log in with a browser */
  createSession: { body: LogInBody; answer: Session };
  /** Who is logged in? */
  getSession: { answer: Session };
  /** Log out */
  endSession: { answer: { /** What was done, in words. */ message: string } };
  /** Is it alive? */
  isAlive: { answer: { /** The status. */ status: 'ok' } };
  /** Is it ready? */
  isReady: { answer: { /** The status. */ status: 'ready' } };
  /** This reference, for programs */
  getOpenApi: { answer: { /** The version of OpenAPI. */ openapi: string } & Record<string, unknown> };
  /** This reference, for people */
  showReference: { answer: string };
  /** The dashboard */
  showWelcome: { answer: string };
  /** Show the unsubscribe page */
  showUnsubscribe: { answer: string };
  /** Unsubscribe */
  unsubscribe: { answer: string };
}
