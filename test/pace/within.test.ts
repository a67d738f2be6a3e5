import t from 'tap';
import { within } from '../../src/pace/within.ts';

t.test('gives what the work gives, also an error', async (t) => {
  t.equal(await within(60_000, Promise.resolve('made'), 'late'), 'made');
  await t.rejects(within(60_000, Promise.reject(new Error('no')), 'late'), { message: 'no' });
});

t.test('waits no longer, and leaves no timer behind', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  // Something has to keep the process alive meanwhile.
  const alive = setInterval(() => undefined, 1_000);
  t.equal(await within(10, new Promise(() => undefined), 'late'), 'late');
  await within(60_000, Promise.resolve(), null);
  clearInterval(alive);
  t.equal(timers(), before);
  const { promise: work, resolve: end } = Promise.withResolvers<string>();
  const waiting = within(60_000, work, 'late');
  t.equal(timers(), before, 'nor one that keeps the process alive meanwhile');
  end('made');
  t.equal(await waiting, 'made');
});
