import { randomBytes } from 'node:crypto';
import { mock } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';

type Module = typeof import('../../src/http/body/assembly.ts');

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** A copy of the module for this test, so that leftovers of other tests do not count. */
const path = '../../src/http/body/assembly.ts';
const { Assembly } = (await import(`${path}?for=its-test`)) as Module;
type Assembly = InstanceType<Module['Assembly']>;

const kB = 1024;
const MB = kB * kB;

/** Assembles `bytes` from chunks of up to `most` bytes. */
function assemble(bytes: Buffer, most: number, declared = bytes.length): Assembly {
  const body = new Assembly(declared);
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + Math.floor(Math.random() * most);
    body.add(Buffer.from(bytes.subarray(at, at + size)));
    at += size;
  }
  return body;
}

t.test('a body that is only declared gets no memory, and all bodies together get at most 128 MB', async (t) => {
  collect();
  const since = process.memoryUsage().arrayBuffers;
  const grown = () => (process.memoryUsage().arrayBuffers - since) / MB;
  const begin = (chunks: number) => {
    const body = new Assembly(16 * MB);
    for (let i = 0; i < chunks; i += 1) body.add(Buffer.alloc(MB / 2));
    return body;
  };
  const claims = Array.from({ length: 20 }, () => begin(1));
  t.ok(grown() < 12, `${grown()} MB, 10 of them chunks`);
  const serious = Array.from({ length: 20 }, () => begin(2));
  t.ok(grown() > 146 && grown() < 154, `${grown()} MB, 22 of them chunks`);
  const [first, last] = [serious[0], serious.at(-1)] as [Assembly, Assembly];
  t.same(
    [(await first.bytes()).length, (await last.bytes()).length],
    [MB, MB],
    'those without memory are assembled at their end',
  );
  for (const body of [...claims, ...serious]) body.release();
  t.ok(grown() < 60, `all but two are freed at once: ${grown()} MB, 22 of them chunks for V8`);
});

t.test('a body equals its chunks, however they arrive and whether or not its length was declared', async (t) => {
  for (const length of [0, 1, 16 * kB, 256 * kB - 1, 256 * kB, 256 * kB + 1, MB, 3 * MB + 7])
    for (const most of [7 * kB, 64 * kB, 4 * MB])
      for (const declared of [length, 0]) {
        const bytes = randomBytes(length);
        const body = assemble(bytes, most, declared);
        t.equal(body.size, length);
        t.ok((await body.bytes()).equals(bytes), `${length} bytes in chunks of up to ${most}, declared ${declared}`);
        body.release();
      }
});

t.test('memory is reused once it is given back, and not before', async (t) => {
  const [first, second, third] = [5 * MB, 5 * MB, 3 * MB].map((length) => randomBytes(length)) as [
    Buffer,
    Buffer,
    Buffer,
  ];
  const one = assemble(first, 64 * kB);
  const other = assemble(second, 64 * kB);
  const [memory, another] = [await one.bytes(), await other.bytes()];
  t.not(memory.buffer, another.buffer, 'two at once have memory of their own');
  one.release();
  const next = assemble(third, 64 * kB);
  t.equal((await next.bytes()).buffer, memory.buffer);
  t.ok((await next.bytes()).equals(third), 'a shorter one sees nothing of the one before');
  t.ok((await other.bytes()).equals(second), 'one that is still being read does not change');
  for (const body of [next, other]) body.release();
});

t.test('the last two are kept for ten seconds, for bodies of about their size', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const memoryOf = async (body: Assembly) => (await body.bytes()).buffer;
  const sized = (length: number) => assemble(Buffer.alloc(length * MB), MB);
  const bodies = [6, 7, 8].map(sized);
  const [first, second, third] = await Promise.all(bodies.map(memoryOf));
  for (const body of bodies) body.release();
  const again = [sized(6), sized(6), sized(6)];
  t.strictSame(
    (await Promise.all(again.map(memoryOf))).map((memory) => [first, second, third].indexOf(memory)),
    [2, 1, -1],
  );
  for (const body of again.slice(0, 2)) body.release();
  const small = sized(1);
  t.notOk([second, third].includes(await memoryOf(small)), 'a large one is not kept for small bodies');
  small.release();
  mock.timers.tick(9_000);
  const last = sized(7);
  t.equal(await memoryOf(last), second);
  last.release();
  mock.timers.tick(10_000);
  const later = sized(7);
  t.not(await memoryOf(later), second, 'nothing is kept forever');
  for (const body of [later, ...again.slice(2)]) body.release();
});
