import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';

/** What waits in the database for all nodes together. */
export interface QueueDepth {
  /** Recipients by what they wait for. */
  recipients: Record<'due' | 'in_flight' | 'deferred' | 'scheduled' | 'held', number>;
  /** How long ago the first recipient became due that nobody has taken; 0: there is none. */
  oldestDueSeconds: number;
  deliveries: Record<'due' | 'in_flight' | 'waiting', number>;
  oldestDeliverySeconds: number;
  /** Nodes that are alive. */
  nodes: number;
}

/** What is looked up only when somebody asks. */
export interface Watched {
  /** Whether the database answers. */
  isUp(): Promise<boolean>;
  /** Null: not known. */
  depth(): Promise<QueueDepth | null>;
  connections(): { busy: number; idle: number; waiting: number };
}

/** One attempt, as far as it is counted. */
export interface MeasuredAttempt {
  /** One for each recipient and session. */
  results: { outcome: string; classification: string | null }[];
  durationMs: number;
  /** For each recipient that was reached: how long after it was due, in ms. */
  delays: number[];
}

/** The metrics of one process, as the process that prints them gets them. */
export type Measured = object[];

/** In seconds. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const attemptBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];
const delayBuckets = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400];

/**
 * What one process counts about itself, for Prometheus. Label values are our own names only: never an address, a domain or
 * text of anybody else.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #registers = [this.#registry];
  #providers: ReadonlySet<string> = new Set();

  readonly #requests = new Counter({
    name: 'sendwright_http_requests_total',
    help: 'HTTP requests by route and response status.',
    labelNames: ['method', 'route', 'status'],
    registers: this.#registers,
  });
  readonly #requestSeconds = new Histogram({
    name: 'sendwright_http_request_duration_seconds',
    help: 'Time from the head of a request to its response.',
    labelNames: ['method', 'route'],
    registers: this.#registers,
    buckets: requestBuckets,
  });
  readonly #attempts = new Counter({
    name: 'sendwright_delivery_attempts_total',
    help: 'Delivery attempts per recipient, by outcome; class is the reason for a failure.',
    labelNames: ['outcome', 'class', 'provider'],
    registers: this.#registers,
  });
  readonly #attemptSeconds = new Histogram({
    name: 'sendwright_delivery_attempt_duration_seconds',
    help: 'Duration of an attempt, from the MX look-up to the last reply.',
    labelNames: ['provider'],
    registers: this.#registers,
    buckets: attemptBuckets,
  });
  readonly #delaySeconds = new Histogram({
    name: 'sendwright_delivery_delay_seconds',
    help: 'Time from when a message was due until a server accepted it, per recipient.',
    labelNames: ['provider'],
    registers: this.#registers,
    buckets: delayBuckets,
  });
  readonly #calls = new Counter({
    name: 'sendwright_webhook_calls_total',
    help: 'Calls to webhook endpoints by outcome.',
    labelNames: ['outcome'],
    registers: this.#registers,
  });
  readonly #callSeconds = new Histogram({
    name: 'sendwright_webhook_call_duration_seconds',
    help: 'Duration of a call to a webhook endpoint.',
    registers: this.#registers,
    buckets: requestBuckets,
  });
  readonly #claimed = new Map<string, () => number>();
  /** Sets the gauges; the database is asked at most every few seconds. */
  #refresh: () => Promise<void> = async () => undefined;

  constructor() {
    const claimed = this.#claimed;
    new Gauge({
      name: 'sendwright_claims',
      help: 'Deliveries and webhook calls that this process has claimed.',
      labelNames: ['kind'],
      registers: this.#registers,
      collect() {
        for (const [kind, count] of claimed) this.set({ kind }, count());
      },
    });
  }

  /** Sets the names that may be in the label `provider`; mail for anybody else is `other`. */
  nameProviders(names: string[]): void {
    this.#providers = new Set(names);
  }

  /** @param route as the router has it; null: this path has none */
  requested(method: string, route: string | null, status: number, ms: number): void {
    const labels = { method: methods.has(method) ? method : 'other', route: route ?? 'none' };
    this.#requests.inc({ ...labels, status: String(status) });
    this.#requestSeconds.observe(labels, ms / 1_000);
  }

  /** @param site whose servers they are */
  attempted(site: string, { results, durationMs, delays }: MeasuredAttempt): void {
    const provider = this.#providers.has(site) ? site : 'other';
    for (const { outcome, classification } of results)
      this.#attempts.inc({ outcome, class: classification ?? 'none', provider });
    this.#attemptSeconds.observe({ provider }, durationMs / 1_000);
    for (const ms of delays) this.#delaySeconds.observe({ provider }, Math.max(0, ms) / 1_000);
  }

  called(outcome: 'succeeded' | 'pending' | 'failed', durationMs: number): void {
    this.#calls.inc({ outcome: outcome === 'pending' ? 'retried' : outcome });
    this.#callSeconds.observe(durationMs / 1_000);
  }

  /** @param claimed how many deliveries, or webhook calls, this process has in hand */
  watchClaims(kind: 'mail' | 'webhooks', claimed: () => number): void {
    this.#claimed.set(kind, claimed);
  }

  /** Sets what is read from the database and its pool when somebody asks. */
  watch({ isUp, depth, connections }: Watched): void {
    const gauges = new DatabaseGauges(this.#registers);
    this.#refresh = async () => {
      const [up, known] = await Promise.all([isUp(), depth()]);
      gauges.set(up, up ? known : null, connections());
    };
  }

  /** Adds processor, memory, event loop and the like of this process, measured from now on. */
  watchProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  async measure(): Promise<Measured> {
    await this.#refresh();
    return this.#registry.getMetricsAsJSON();
  }
}

/** What waits in the database, and this process's connections to it. */
class DatabaseGauges {
  readonly #recipients: Gauge<string>;
  readonly #oldestRecipient: Gauge<string>;
  readonly #deliveries: Gauge<string>;
  readonly #oldestDelivery: Gauge<string>;
  readonly #nodes: Gauge<string>;
  readonly #connections: Gauge<string>;
  readonly #up: Gauge<string>;

  constructor(registers: Registry[]) {
    const gauge = (name: string, help: string, labelNames: string[] = []) =>
      new Gauge({ name: `sendwright_${name}`, help, labelNames, registers });
    this.#recipients = gauge('queue_recipients', 'Waiting recipients on all nodes, by what they wait for.', ['state']);
    this.#oldestRecipient = gauge('queue_oldest_due_seconds', 'Time since the oldest unclaimed recipient became due.');
    this.#deliveries = gauge('webhook_deliveries', 'Waiting webhook deliveries on all nodes, by what they wait for.', [
      'state',
    ]);
    this.#oldestDelivery = gauge(
      'webhook_oldest_due_seconds',
      'Time since the oldest unclaimed webhook delivery became due.',
    );
    this.#nodes = gauge('nodes', 'Processes that deliver mail or call webhooks, on all machines.');
    this.#connections = gauge(
      'database_connections',
      "Connections of this process's pool, by state; waiting: statements that wait for a connection.",
      ['state'],
    );
    this.#up = gauge(
      'database_up',
      'Whether the database answers: 1 or 0. While it is 0, the queue metrics are not known.',
    );
  }

  /** @param depth null: not known, as if the database does not answer: what it said last no longer holds */
  set(isUp: boolean, depth: QueueDepth | null, connections: ReturnType<Watched['connections']>): void {
    this.#up.set(isUp ? 1 : 0);
    setByState(this.#connections, connections);
    setByState(this.#recipients, depth?.recipients ?? {});
    setByState(this.#deliveries, depth?.deliveries ?? {});
    this.#oldestRecipient.set(depth?.oldestDueSeconds ?? Number.NaN);
    this.#oldestDelivery.set(depth?.oldestDeliverySeconds ?? Number.NaN);
    this.#nodes.set(depth?.nodes ?? Number.NaN);
  }
}

/** Forgets the states that are not among these. */
function setByState(gauge: Gauge<string>, counts: Record<string, number>): void {
  gauge.reset();
  for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count);
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS']);

/** The media type of what `exposition` writes. */
export const expositionType = Registry.PROMETHEUS_CONTENT_TYPE;

/** The metrics of a node's processes in the text format of Prometheus; each has the label `process`. */
export async function exposition(processes: { name: string; measured: Measured }[]): Promise<string> {
  const all = processes.map(({ name, measured }) =>
    measured.map((metric) => {
      const { values } = metric as { values: { value: number | null; labels: Record<string, string> }[] };
      // Counts of two processes are not one thing: the label keeps them apart, so nothing is ever added up.
      return {
        ...metric,
        aggregator: 'sum',
        values: values.map(({ value, labels, ...rest }) => ({
          ...rest,
          // NaN becomes null on the way from another process, and would be added up as 0.
          value: value ?? Number.NaN,
          labels: { ...labels, process: name },
        })),
      };
    }),
  );
  return Registry.aggregate(all).metrics();
}
