import t from 'tap';
import { type Logger, silentLog } from '../../src/log.ts';
import { keep, Lifetime } from '../../src/process/stops.ts';

t.test('an end that takes too long is not waited for, and leaves no step out', async (t) => {
  const warnings: string[] = [];
  const log = Object.assign(Object.create(silentLog) as Logger, { warn: (what: string) => warnings.push(what) });
  const life = new Lifetime(log, 20);
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
  await life.end();
  t.same(begun, ['third', 'second', 'first']);
  t.same(warnings, ['stopping takes too long: what has not ended is left as it is']);
  t.throws(() => life.goOn(), /ended during its start/);
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
