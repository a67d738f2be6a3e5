import t from 'tap';
import { type Logger, silentLog } from '../../src/log.ts';
import { keep, Lifetime, type Stops, stopAll } from '../../src/process/stops.ts';

t.test('what was begun last ends first, and what it stands on waits for that', async (t) => {
  const said: string[] = [];
  const step = (name: string) => async () => {
    said.push(`${name} ends`);
    await new Promise((resume) => setImmediate(resume));
    said.push(`${name} has ended`);
  };
  const stops: Stops = [step('the database'), step('the node')];
  await stopAll(stops);
  const inOrder = ['the node ends', 'the node has ended', 'the database ends', 'the database has ended'];
  t.strictSame(said.splice(0), inOrder);

  const warnings: unknown[] = [];
  const log = Object.assign(Object.create(silentLog) as Logger, { warn: (...line: unknown[]) => warnings.push(line) });
  const life = new Lifetime(log, 60_000);
  life.stops.push(...stops, () => Promise.reject(new Error('no goodbye')));
  await life.end();
  t.strictSame(said.splice(0), inOrder, 'also after one that failed');
  t.strictSame(warnings, [[{ error: 'no goodbye' }, 'a component did not stop cleanly']]);

  stops.push(() => Promise.reject(new Error('no goodbye')));
  await t.rejects(stopAll(stops), /no goodbye/);
  t.strictSame(said, [], 'the caller hears of the first error, and the rest is left as it is');
});

t.test('an end that takes too long is not waited for, and leaves no step out', async (t) => {
  const warnings: string[] = [];
  const log = Object.assign(Object.create(silentLog) as Logger, { warn: (what: string) => warnings.push(what) });
  const life = new Lifetime(log, 20);
  t.equal(life.leftMs, 20);
  const begun: string[] = [];
  const step = (name: string, ends: Promise<void>) =>
    life.stops.push(() => {
      begun.push(name);
      return ends;
    });
  const never = new Promise<void>(() => undefined);
  step('first', never);
  step('second', never);
  step('third', Promise.resolve());
  life.goOn();
  const began = performance.now();
  await life.end();
  const took = performance.now() - began;
  // Its time does not depend on how long the process has run before.
  t.ok(took < 2 * began, `${took} ms`);
  t.same(begun, ['third', 'second', 'first']);
  t.same(warnings, ['stopping takes too long: what has not ended is left as it is']);
  t.throws(() => life.goOn(), /ended during its start/);
  // A timer may end a fraction of a millisecond early.
  t.ok(life.leftMs < 2, `${life.leftMs} ms`);
});

t.test('each step can read how much time those before it have left', async (t) => {
  const life = new Lifetime(silentLog, 60_000);
  const left: number[] = [];
  for (const _ of [1, 2])
    life.stops.push(async () => {
      left.push(life.leftMs);
      await new Promise((resolve) => setTimeout(resolve, 20));
    });
  await life.end();
  const [first = 0, second = 0] = left;
  t.ok(first > 59_000 && first <= 60_000, `${first} ms`);
  t.ok(second <= first - 19, `${second} ms after ${first}`);
});

t.test('what is only beginning is ended once it has begun', async (t) => {
  const life = new Lifetime(silentLog, 60_000);
  const beginning = Promise.withResolvers<string>();
  const said: string[] = [];
  const kept = keep(life.stops, beginning.promise, async (begun) => void said.push(`${begun} ended`));
  const failed = keep(life.stops, Promise.reject(new Error('no')), async () => void said.push('ended all the same'));
  await t.rejects(failed, /no/);
  const ended = life.end();
  life.stops.push(async () => void said.push('added meanwhile'));
  beginning.resolve('one');
  t.equal(await kept, 'one');
  await ended;
  t.same(said.sort(), ['added meanwhile', 'one ended']);
});
