import t from 'tap';
import { givingWay, Pace } from '../../src/pace/give-way.ts';

/** Keeps the processor busy. */
function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

t.test('other work gets a turn between two long pieces of work', async (t) => {
  const seen: string[] = [];
  const made = await givingWay([1, 2, 3], (item, index) => {
    if (index === 0) setImmediate(() => seen.push('another'));
    work(5);
    seen.push(`piece ${index}`);
    return item * 2;
  });
  t.strictSame(made, [2, 4, 6]);
  t.strictSame(seen, ['piece 0', 'another', 'piece 1', 'piece 2']);
});

t.test('and none between short ones', async (t) => {
  const seen: string[] = [];
  setImmediate(() => seen.push('another'));
  // As long as this process has run so far, which is much longer than this takes.
  await givingWay([1, 2], (item) => seen.push(`piece ${item}`), new Pace(performance.now()));
  t.strictSame(seen, ['piece 1', 'piece 2']);
});

t.test('a piece that fails ends it', async (t) => {
  const done: number[] = [];
  const working = givingWay([1, 2, 3], (item) => {
    if (item === 2) throw new Error('no');
    done.push(item);
  });
  await t.rejects(working, { message: 'no' });
  t.strictSame(done, [1]);
  t.strictSame(await givingWay([], () => 1), []);
});
