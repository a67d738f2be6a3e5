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
 * Sendwright over HTTP. Fields are named as on the wire (`scheduled_at`, `next_cursor`), and answers are what the service
 * answers, so that its reference is this client's as well. What fails is a `SendwrightError`.
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
  /** Who logged in, where `login` made this client. */
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

  /** What another client can be made with; a getter, so that no log of this object has it. */
  get token(): string | undefined {
    return this.#options.token;
  }

  /** Another client, with a token that is good for 12 hours. An API key that this one has it has too. */
  async login(email: string, password: string, options?: CallOptions): Promise<Sendwright> {
    const { token, ...session } = await connect(this.#options)('logIn', { body: { email, password } }, options);
    return new Sendwright({ ...this.#options, token }, session);
  }

  /** Ends every login, this client's too: what comes back is this client with a new token. */
  async changePassword(body: ChangePasswordBody, options?: CallOptions): Promise<Sendwright> {
    const { token, expires_at } = await connect(this.#options)('changePassword', { body }, options);
    const session = this.session && { ...this.session, expires_at };
    return new Sendwright({ ...this.#options, ...(token === null ? {} : { token }) }, session);
  }
}
