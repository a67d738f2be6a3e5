import { AllEmails, Emails } from './emails.ts';
import { Erasures, OwnAccount } from './privacy.ts';
import type { ChangePasswordBody } from './requests.ts';
import {
  Accounts,
  Destinations,
  Doctor,
  Domains,
  Keys,
  SandboxMessages,
  Service,
  Session,
  Stats,
  Suppressions,
  Templates,
  WebhookDeliveries,
  Webhooks,
} from './resources.ts';
import { type CallOptions, type ClientOptions, connect } from './transport.ts';
import type { Login } from './types.ts';

export { type Failure, SendwrightError } from './errors.ts';
export type { Operations } from './operations.ts';
export type * from './requests.ts';
export { readSuppressionsCsv, type SuppressionEntry } from './suppressions-csv.ts';
export type { CallOptions, ClientOptions, SendOptions } from './transport.ts';
export type * from './types.ts';
export { type ReceivedWebhook, verifyWebhook, type WebhookEvent } from './verify-webhook.ts';

/**
 * The client of Sendwright's HTTP API. Fields have the same names as in the API (`scheduled_at`, `next_cursor`) and answers are
 * returned unchanged, so that the reference of the service applies to this client too. Failures are a `SendwrightError`.
 */
export class Sendwright {
  readonly emails: Emails;
  readonly stats: Stats;
  readonly templates: Templates;
  readonly suppressions: Suppressions;
  readonly erasures: Erasures;
  readonly account: OwnAccount;
  readonly domains: Domains;
  readonly keys: Keys;
  readonly webhooks: Webhooks;
  readonly webhookDeliveries: WebhookDeliveries;
  readonly admin: {
    readonly accounts: Accounts;
    readonly emails: AllEmails;
    readonly destinations: Destinations;
    readonly doctor: Doctor;
  };
  readonly sandbox: SandboxMessages;
  readonly service: Service;
  readonly browser: Session;
  /** The session, if `login` made this client; otherwise null. */
  readonly session: Omit<Login, 'token'> | null;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions, session: Omit<Login, 'token'> | null = null) {
    const call = connect(options);
    this.#options = options;
    this.session = session;
    this.emails = new Emails(call);
    this.stats = new Stats(call);
    this.templates = new Templates(call);
    this.suppressions = new Suppressions(call);
    this.erasures = new Erasures(call);
    this.account = new OwnAccount(call);
    this.domains = new Domains(call);
    this.keys = new Keys(call);
    this.webhooks = new Webhooks(call);
    this.webhookDeliveries = new WebhookDeliveries(call);
    this.admin = {
      accounts: new Accounts(call),
      emails: new AllEmails(call),
      destinations: new Destinations(call),
      doctor: new Doctor(call),
    };
    this.sandbox = new SandboxMessages(call);
    this.service = new Service(call);
    this.browser = new Session(call);
  }

  /** The token, to make another client with. It is a getter, so that logging this object does not reveal it. */
  get token(): string | undefined {
    return this.#options.token;
  }

  /** Returns another client with a token that is valid for 12 hours. It keeps the API key of this one. */
  async login(email: string, password: string, options?: CallOptions): Promise<Sendwright> {
    const { token, ...session } = await connect(this.#options)('logIn', { body: { email, password } }, options);
    return new Sendwright({ ...this.#options, token }, session);
  }

  /** Ends every login, including this client's. Returns a client like this one with a new token. */
  async changePassword(body: ChangePasswordBody, options?: CallOptions): Promise<Sendwright> {
    const { token, expires_at } = await connect(this.#options)('changePassword', { body }, options);
    const session = this.session && { ...this.session, expires_at };
    return new Sendwright({ ...this.#options, ...(token === null ? {} : { token }) }, session);
  }
}
