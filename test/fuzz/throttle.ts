import fc from 'fast-check';
import type { Site } from '../../src/delivery/sites/providers.ts';
import { Throttle, type Ticket, type Verdict } from '../../src/delivery/sites/throttle.ts';
import type { Target } from './target.ts';
import { hold } from './texts.ts';

const backoffMs = 1_000;
const longestMs = 60_000;
/** How long after it took mail a site that cannot be reached need not be left alone. */
const upMs = 10_000;

/** The promises about one site, independent of the implementation. */
interface Model {
  now: number;
  running: Ticket[];
  /** When each attempt that was not canceled began. */
  begun: number[];
  /** No attempt may begin before this; the next one goes alone. */
  closedUntil: number;
  alone: boolean;
  judgedAt: number;
  /** When it last took mail. */
  fineAt: number;
}

class Real {
  readonly site: Site;
  readonly most: number;
  readonly share: number;
  readonly throttle: Throttle;
  now = 0;

  constructor(connections: number, perMinute: number | null, nodes: number) {
    this.site = { name: 'a.test', connections, perMinute, perConnection: null };
    this.most = Math.max(1, Math.floor(connections / nodes));
    this.share = perMinute === null ? Number.POSITIVE_INFINITY : perMinute / nodes;
    this.throttle = new Throttle({ backoffMs, longestMs, nodes: () => nodes, now: () => this.now });
  }
}

type Command = fc.Command<Model, Real>;

const command = (
  name: string,
  run: (model: Model, real: Real) => void,
  check = (_: Readonly<Model>) => true,
): Command => ({
  check,
  run(model, real) {
    run(model, real);
    neverStarved(model, real);
  },
  toString: () => name,
});

/** Begins as many as it may. */
const fill = (most: number) =>
  command(`begin up to ${most}`, (model, real) => {
    for (let n = 0; n < most && real.throttle.turn(real.site).when === 'now'; n += 1) {
      hold(model.now >= model.closedUntil, 'one began while the site was to be left alone');
      hold(
        !model.alone || model.running.every(({ startedAt }) => startedAt < model.closedUntil),
        'the first after that was not alone',
      );
      model.running.push(real.throttle.begin(real.site));
      model.begun.push(model.now);
      hold(model.running.length <= real.most, `${model.running.length} at once, but ${real.most} allowed`);
      const lately = model.begun.filter((at) => at > model.now - 60_000).length;
      hold(lately <= real.share + 1, `${lately} within a minute, but ${real.share} allowed`);
    }
  });

const end = (which: number, verdict: Verdict) =>
  command(
    `end ${which} as ${verdict}`,
    (model, real) => {
      const [ticket] = model.running.splice(which % model.running.length, 1);
      if (!ticket) return;
      real.throttle.end(ticket, verdict, null);
      if (verdict === 'fine') {
        model.closedUntil = Number.NEGATIVE_INFINITY;
        model.alone = false;
        model.fineAt = model.now;
      } else if (verdict !== 'nothing' && ticket.startedAt >= model.judgedAt) {
        const isUp = model.fineAt >= model.judgedAt && model.now - model.fineAt < upMs;
        model.judgedAt = model.now;
        if (verdict === 'unreachable' && !isUp) {
          model.closedUntil = model.now + backoffMs;
          model.alone = true;
        }
      }
    },
    (model) => model.running.length > 0,
  );

const takeBack = command(
  'cancel one',
  (model, real) => {
    const ticket = model.running.pop();
    if (!ticket) return;
    real.throttle.cancel(ticket);
    model.begun.pop();
  },
  // The last that began, at the same moment: like a caller that asks for more than there is to send.
  (model) =>
    model.running.length > 0 && model.running.at(-1)?.startedAt === model.now && model.begun.at(-1) === model.now,
);

const pass = (ms: number) =>
  command(`${ms} ms later`, (model, real) => {
    model.now += ms;
    real.now += ms;
  });

const forget = command('an operator gives it a chance', (model, real) => {
  real.throttle.forget(real.site.name);
  model.closedUntil = Number.NEGATIVE_INFINITY;
  model.alone = false;
  // It is asked to send more than the rate allows, and does.
  model.begun = [];
});

/** In any case: with nothing in progress there is a time, not far away, when the next one may go. */
function neverStarved(model: Model, real: Real): void {
  const states = real.throttle.states().find(({ site }) => site.name === real.site.name);
  hold((states?.running ?? 0) === model.running.length, 'it counts a different number in progress');
  const turn = real.throttle.turn(real.site);
  if (turn.when === 'after another') hold(model.running.length > 0, 'it waits for another, but there is none');
  if (turn.when !== 'later') return;
  const step = Number.isFinite(real.share) ? 60_000 / real.share : 0;
  hold(turn.at > model.now && turn.at <= model.now + longestMs + step * (real.most + 1), `it waits until ${turn.at}`);
}

const commands = fc.commands(
  [
    fc.integer({ min: 1, max: 40 }).map(fill),
    fc
      .tuple(fc.nat(40), fc.constantFrom<Verdict>('fine', 'fine', 'slower', 'unreachable', 'nothing'))
      .map((of) => end(...of)),
    fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 100_000 })).map(pass),
    fc.constant(takeBack),
    fc.constant(forget),
  ],
  { size: '+1' },
);

export const throttle: Target = {
  name: 'throttle',
  open: () => ({
    'a site never gets more at once, or per minute, than allowed, and is never forgotten': fc.property(
      fc.integer({ min: 1, max: 30 }),
      fc.option(fc.integer({ min: 1, max: 600 }), { nil: null }),
      fc.integer({ min: 1, max: 5 }),
      commands,
      (connections, perMinute, nodes, commands) => {
        const model: Model = {
          now: 0,
          running: [],
          begun: [],
          closedUntil: Number.NEGATIVE_INFINITY,
          alone: false,
          judgedAt: Number.NEGATIVE_INFINITY,
          fineAt: Number.NEGATIVE_INFINITY,
        };
        fc.modelRun(() => ({ model, real: new Real(connections, perMinute, nodes) }), commands);
        return true;
      },
    ),
  }),
};
