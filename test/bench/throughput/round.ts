import type { Load, Loaded, LoadNews, LoadOrder, Way } from './load.ts';
import { cpuSeconds, forgetPeaks, peakMemory } from './processes.ts';
import type { Recipe } from './recipe.ts';
import type { Collected, SinkNews, SinkOrder } from './sink.ts';
import type { Processes, System } from './system.ts';
import { Worker } from './worker.ts';

/** The sink, and what submits the messages. */
export interface Tools {
  sink: Worker<SinkOrder, SinkNews>;
  sinkPort: number;
  generator: Worker<LoadOrder, LoadNews>;
}

export interface RoundOptions {
  recipe: Recipe;
  how: Way;
  clients: number;
  perSession: number;
  oneByOne: boolean;
  /** How long the sink takes for each reply, in ms. */
  replyMs?: number;
}

/** The figures of one round; times in ms, rates per second. */
export interface Measured {
  messages: number;
  acceptedPerSecond: number;
  deliveredPerSecond: number;
  /** From a request to its 200 or 250. */
  acceptMs: Spread;
  /** From that to the sink's 250. */
  deliverMs: Spread;
  /** CPU-seconds per 1,000 messages, until everything was recorded. */
  cpu: { server: number; database: number; sink: number; generator: number; dns: number };
  peakMemory: number;
  connections: number;
  overTls: number;
}

export interface Spread {
  p50: number;
  p99: number;
}

const patienceMs = 60_000;
const perMessageMs = 40;

export async function startTools(): Promise<Tools> {
  const sink = new Worker<SinkOrder, SinkNews>('sink.ts');
  const generator = new Worker<LoadOrder, LoadNews>('generator.ts');
  const waiting = generator.hear((news) => ('waiting' in news ? true : undefined), patienceMs, 'the generator');
  const sinkPort = await sink.hear((news) => ('ready' in news ? news.ready.port : undefined), patienceMs, 'the sink');
  await waiting;
  return { sink, sinkPort, generator };
}

export function stopTools({ sink, generator }: Tools): void {
  sink.end();
  generator.end();
}

/**
 * Submits the messages of one round, waits until all of them have arrived and are recorded, and checks every one of
 * them.
 *
 * @throws Error if one is missing, came twice, was not signed, or is recorded with another outcome
 */
export async function runRound(system: System, tools: Tools, options: RoundOptions): Promise<Measured> {
  const { recipe, how, oneByOne, replyMs = 0 } = options;
  const { sink, generator } = tools;
  const withinMs = patienceMs + perMessageMs * recipe.count;
  const keepEvery = Math.max(1, Math.floor(recipe.count / 10));
  const load: Load = { ...options, target: system.target(recipe, how) };

  sink.tell({ begin: { round: recipe.round, count: recipe.count, keepEvery, replyMs } });
  await sink.hear((news) => ('begun' in news ? true : undefined), patienceMs, 'the sink');
  generator.tell({ prepare: load });
  await generator.hear(
    expecting((news) => ('prepared' in news ? true : undefined)),
    withinMs,
    'preparing',
  );

  const arrived = sink.hear(
    (news) => ('arrived' in news && news.arrived === recipe.count ? true : undefined),
    withinMs,
    `the arrival of ${recipe.count} messages`,
  );
  const done = generator.hear(
    expecting((news) => ('done' in news ? news.done : undefined)),
    withinMs,
    'handing in',
  );
  const pacing = oneByOne ? pace(tools) : () => {};
  const before = usage(system, tools);
  forgetPeaks(system.server.roots, system.server.except);
  generator.tell({ go: true });
  const [loaded] = await Promise.all([done, arrived]).finally(pacing);
  await system.settle();
  const after = usage(system, tools);
  const peak = peakMemory(system.server.roots, system.server.except);

  sink.tell({ collect: true });
  const collected = await sink.hear(
    (news) => ('collected' in news ? news.collected : undefined),
    patienceMs,
    'the sink',
  );
  await examine(system, recipe, collected);
  const per = (key: keyof typeof before) => ((after[key] - before[key]) / recipe.count) * 1_000;
  return {
    ...timesOf(loaded, collected.arrivedAt),
    messages: recipe.count,
    cpu: {
      server: per('server'),
      database: per('database'),
      sink: per('sink'),
      generator: per('generator'),
      dns: per('dns'),
    },
    peakMemory: peak,
    connections: collected.connections,
    overTls: collected.overTls,
  };
}

/** Submits messages, whatever becomes of them. CPU-seconds are the generator's per 1,000. */
export async function handIn({ generator }: Tools, load: Load): Promise<{ perSecond: number; cpu: number }> {
  const withinMs = patienceMs + perMessageMs * load.recipe.count;
  generator.tell({ prepare: load });
  await generator.hear(
    expecting((news) => ('prepared' in news ? true : undefined)),
    withinMs,
    'preparing',
  );
  const before = cpuSeconds([generator.pid]);
  const done = generator.hear(
    expecting((news) => ('done' in news ? news.done : undefined)),
    withinMs,
    'handing in',
  );
  generator.tell({ go: true });
  const loaded = await done;
  const { count } = load.recipe;
  const cpu = ((cpuSeconds([generator.pid]) - before) / count) * 1_000;
  return { perSecond: (count / (max(loaded.acceptedAt) - min(loaded.askedAt))) * 1_000, cpu };
}

/** An error of the generator ends the wait for anything else. */
function expecting<T>(pick: (news: LoadNews) => T | undefined): (news: LoadNews) => T | undefined {
  return (news) => {
    if ('failed' in news) throw new Error(`submitting failed: ${news.failed}`);
    return pick(news);
  };
}

/** Releases the next message once the last one is at the sink and its follow-up work is done. */
function pace({ sink, generator }: Tools): () => void {
  let arrived = 0;
  let sent = 0;
  const goOn = () => {
    if (arrived === sent && sent > 0) setTimeout(() => generator.tell({ next: true }), 30);
  };
  const offs = [
    sink.on((news) => {
      if (!('arrived' in news) || news.arrived === arrived) return;
      arrived = news.arrived;
      goOn();
    }),
    generator.on((news) => {
      if (!('sent' in news) || news.sent === sent) return;
      sent = news.sent;
      goOn();
    }),
  ];
  return () => {
    for (const off of offs) off();
  };
}

function usage(system: System, { sink, generator }: Tools) {
  const of = (processes: Processes | null) => (processes ? cpuSeconds(processes.roots, processes.except) : 0);
  const { user, system: kernel } = process.cpuUsage();
  return {
    server: of(system.server),
    database: of(system.database),
    sink: cpuSeconds([sink.pid]),
    generator: cpuSeconds([generator.pid]),
    // This process answers the server's DNS queries, and does little else meanwhile.
    dns: (user + kernel) / 1e6,
  };
}

export async function examine(system: Pick<System, 'audit'>, recipe: Recipe, collected: Collected): Promise<void> {
  const missing = collected.arrivedAt.reduce((sum, time) => sum + (time === 0 ? 1 : 0), 0);
  if (missing > 0) throw new Error(`${missing} of ${recipe.count} messages did not arrive`);
  if (collected.again > 0) throw new Error(`${collected.again} messages arrived more than once`);
  if (collected.strange > 0) throw new Error(`${collected.strange} messages arrived that do not belong to this round`);
  if (recipe.tls !== collected.overTls > 0 || (recipe.tls && collected.overTls < recipe.count)) {
    throw new Error(`${collected.overTls} of ${recipe.count} messages came over TLS`);
  }
  await system.audit(recipe, collected.kept);
}

function timesOf({ askedAt, acceptedAt }: Loaded, arrivedAt: Float64Array) {
  const first = min(askedAt);
  const perSecond = (ends: Float64Array) => (ends.length / (max(ends) - first)) * 1_000;
  return {
    acceptedPerSecond: perSecond(acceptedAt),
    deliveredPerSecond: perSecond(arrivedAt),
    acceptMs: spreadOf(acceptedAt.map((at, index) => at - (askedAt[index] ?? 0))),
    deliverMs: spreadOf(arrivedAt.map((at, index) => at - (acceptedAt[index] ?? 0))),
  };
}

const min = (values: Float64Array) => values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
const max = (values: Float64Array) => values.reduce((most, value) => Math.max(most, value), 0);

function spreadOf(values: Float64Array): Spread {
  const sorted = values.toSorted();
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
