import { mock } from 'node:test';
import t from 'tap';
import { type Line, Lines } from '../../src/delivery/sites/lines.ts';
import { siteOf } from '../../src/delivery/sites/providers.ts';
import { buildClaim } from '../support/claim.ts';

const site = siteOf('one.test', 'mx.hoster.test', []);

const claimOf = (destination: string, jobId: string, priority = 0) => buildClaim({ destination, jobId, priority });

/** Puts so many new claims for a destination into its line. */
function join(lines: Lines, destination: string, count = 1): void {
  const claims = Array.from({ length: count }, (_, n) => claimOf(destination, `job ${n}`));
  lines.expect(destination, claims);
  lines.arrive(destination, claims, site);
}

t.test('a site is supplied as a whole, with the destinations of its line that have nothing left here', async (t) => {
  const lines = new Lines();
  for (const destination of ['one.test', 'two.test']) join(lines, destination);
  const line = lines.get(site.name);
  t.equal(line && lines.shift(line).destination, 'one.test');
  t.strictSame(lines.supplied(() => false).sort(), ['one.test', 'two.test']);
  t.strictSame(
    lines.supplied(() => true),
    [],
  );
});

t.test('a claim with a higher priority goes before those that wait, and none before it is missing', async (t) => {
  const lines = new Lines();
  const arrive = (destination: string, jobs: [job: string, priority: number][]) => {
    const claims = jobs.map(([job, priority]) => claimOf(destination, job, priority));
    lines.expect(destination, claims);
    lines.arrive(destination, claims, site);
  };
  const suppliedWith = (priority: number, enough: number) => lines.suppliedWith(priority, enough).sort();
  arrive('one.test', [
    ['a', 13],
    ['b', 3],
    ['c', 0],
  ]);
  arrive('two.test', [
    ['d', 13],
    ['e', 3],
  ]);
  const order = () => lines.get(site.name)?.claims.map(({ jobId }) => jobId);
  t.strictSame(order(), ['a', 'd', 'b', 'e', 'c']);
  arrive('one.test', [['f', 0]]);
  lines.expect('unknown.test', [claimOf('unknown.test', 'g', 13)]);
  t.strictSame(suppliedWith(13, 3), ['unknown.test'], 'two of this priority wait, which are not enough');
  t.strictSame(suppliedWith(13, 2), ['one.test', 'two.test', 'unknown.test']);
  t.strictSame(suppliedWith(3, 5), ['unknown.test']);
  t.strictSame(suppliedWith(3, 4), ['one.test', 'two.test', 'unknown.test']);
  t.strictSame(suppliedWith(0, 6), ['one.test', 'two.test', 'unknown.test']);
  t.strictSame(order(), ['a', 'd', 'b', 'e', 'c', 'f']);
  // Its first goes before only the last that waits, and its last before none.
  arrive('one.test', [
    ['g', 3],
    ['h', 0],
  ]);
  t.strictSame(order(), ['a', 'd', 'b', 'e', 'g', 'c', 'f', 'h']);
  lines.empty();
  arrive('one.test', [
    ['i', 13],
    ['j', 0],
  ]);
  arrive('one.test', [['k', 3]]);
  t.strictSame(order(), ['i', 'k', 'j']);
});

t.test('a destination whose site is being looked up is not asked for meanwhile', async (t) => {
  const lines = new Lines();
  lines.expect('one.test', [claimOf('one.test', 'job')]);
  t.strictSame(
    lines.supplied(() => true),
    ['one.test'],
  );
});

t.test('of a site with many domains the last 500 are remembered, and all that wait here', async (t) => {
  const lines = new Lines();
  const many = Array.from({ length: 600 }, (_, n) => `${n}.test`);
  for (const destination of many) join(lines, destination, 2);
  const line = lines.get(site.name) as Line;
  const supplied = () => new Set(lines.supplied(() => false));
  lines.shift(line);
  t.strictSame(supplied(), new Set(many), 'the first has another claim here');
  lines.shift(line);
  t.strictSame(supplied(), new Set(many.slice(1)));
  lines.cut(line, 1);
  t.strictSame(supplied(), new Set(['1.test', ...many.slice(100)]));
});

t.test('lines that were emptied keep no destinations', async (t) => {
  const lines = new Lines();
  for (const empty of [
    () => lines.empty(),
    () => lines.cut(lines.get(site.name) as Line, 0),
    () => [1, 2].map(() => lines.shift(lines.get(site.name) as Line)),
  ]) {
    for (const destination of ['one.test', 'two.test']) join(lines, destination);
    t.equal(empty().length, 2);
    t.equal(lines.lengthOf(site.name), 0);
    join(lines, 'two.test');
    t.strictSame(
      lines.supplied(() => false),
      ['two.test'],
    );
    lines.empty();
  }
});

t.test('all batches for a destination that are waiting for its site get into the line', async (t) => {
  const lines = new Lines();
  const batches = ['first', 'second'].map((job) => [claimOf('one.test', job)]);
  const late = [claimOf('one.test', 'late')];
  for (const claims of batches) lines.expect('one.test', claims);
  for (const claims of batches) t.ok(lines.arrive('one.test', claims, site));
  lines.expect('one.test', late);
  t.strictSame(lines.empty(), [...batches.flat(), ...late]);
  t.notOk(lines.arrive('one.test', late, site), 'what was taken out meanwhile stays out');
  t.strictSame(lines.names(), []);
});

t.test('a destination whose claims have left the line is asked for again, however they left', async (t) => {
  const leave: Record<string, (lines: Lines, line: Line) => unknown> = {
    shift: (lines, line) => lines.shift(line),
    cut: (lines, line) => lines.cut(line, 1),
    remove: (lines, line) => lines.remove(line, line.claims.slice(1)),
  };
  for (const [how, act] of Object.entries(leave)) {
    const lines = new Lines();
    join(lines, 'one.test', 2);
    const line = lines.get(site.name) as Line;
    act(lines, line);
    t.equal(lines.lengthOf(site.name), 1, `${how}: the other one stays`);
    act(lines, line);
    if (how !== 'shift') lines.shift(line);
    t.strictSame(lines.names(), [], how);
    t.strictSame(
      lines.supplied(() => true),
      [],
      how,
    );
  }
});

t.test('a line runs short once, and only if it needed nothing before', async (t) => {
  const lines = new Lines();
  join(lines, 'one.test', 2);
  const line = lines.get(site.name) as Line;
  const [isShort, isLong] = [() => true, () => false];
  t.notOk(lines.ranShort(line, isShort), 'nobody has asked yet');
  lines.supplied(isLong);
  t.notOk(lines.ranShort(line, isLong));
  t.ok(lines.ranShort(line, isShort));
  t.notOk(lines.ranShort(line, isShort));
  lines.supplied(isLong);
  lines.supplied(isShort);
  t.notOk(lines.ranShort(line, isShort), 'when last asked, more was already taken for it');
});

t.test('a line is woken once, may be woken again, and not after it was emptied', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const lines = new Lines();
  join(lines, 'one.test', 1);
  const line = lines.get(site.name) as Line;
  let woken = 0;
  const wakeIn = (ms: number) => lines.wakeIn(line, ms, () => (woken += 1));
  for (const ms of [100, 50]) wakeIn(ms);
  mock.timers.tick(100);
  t.equal(woken, 1);
  wakeIn(100);
  mock.timers.tick(100);
  t.equal(woken, 2);
  wakeIn(100);
  lines.shift(line);
  mock.timers.tick(100);
  t.equal(woken, 2);
  join(lines, 'one.test', 1);
  lines.wakeIn(lines.get(site.name) as Line, 100, () => (woken += 1));
  lines.empty();
  mock.timers.tick(100);
  t.equal(woken, 2);
});
