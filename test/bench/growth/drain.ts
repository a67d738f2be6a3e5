import type pg from 'pg';
import type { Recipe } from '../throughput/recipe.ts';
import type { Tools } from '../throughput/round.ts';
import type { Sendwright } from '../throughput/sendwright.ts';
import { addQueued } from './fill.ts';
import { type Seen, seenSince } from './watching.ts';

const parts = 10;
const startWithinMs = 60_000;

export interface Drained {
  emails: number;
  /** Delivered per second: overall, and of each tenth, the first one first. */
  perSecond: number;
  perSecondOfTenth: number[];
  seen: Seen;
}

/**
 * Delivers a backlog of one account, and checks each message that arrives.
 *
 * @throws Error if one is missing or comes twice
 */
export async function drain(
  app: Sendwright,
  db: pg.Client,
  { sink }: Tools,
  recipe: Recipe,
  { probe, withinMs, tell }: { probe: string; withinMs: number; tell: (line: string) => void },
): Promise<Drained> {
  const { round, count } = recipe;
  sink.tell({ begin: { round, count, keepEvery: count } });
  await sink.hear((news) => ('begun' in news ? true : undefined), startWithinMs, 'the sink');
  await addQueued(db, recipe, tell);
  const began = Date.now();
  const reached: number[] = [];
  let told = began;
  const off = sink.on((news) => {
    if (!('arrived' in news) || news.arrived === 0) return;
    while (reached.length < parts && news.arrived >= (count / parts) * (reached.length + 1)) reached.push(Date.now());
    if (Date.now() - told < 30_000) return;
    told = Date.now();
    const left = ((told - began) / Math.max(1, news.arrived)) * (count - news.arrived);
    tell(`  ${news.arrived} of ${count} went out, ${Math.ceil(left / 60_000)} min left`);
  });
  const all = `the arrival of ${count} messages`;
  await sink
    .hear((news) => ('arrived' in news && news.arrived === count ? true : undefined), withinMs, all)
    .finally(off);
  const ended = reached.at(-1) ?? Date.now();
  const seen = seenSince(probe, began, ended);
  await app.settle();
  sink.tell({ collect: true });
  const collected = await sink.hear(
    (news) => ('collected' in news ? news.collected : undefined),
    startWithinMs,
    'the sink',
  );
  if (collected.again > 0) throw new Error(`${collected.again} messages of the backlog arrived more than once`);
  const from = [began, ...reached];
  return {
    emails: count,
    perSecond: (count / (ended - began)) * 1_000,
    perSecondOfTenth: reached.map((at, index) => (count / parts / (at - (from[index] ?? at))) * 1_000),
    seen,
  };
}
