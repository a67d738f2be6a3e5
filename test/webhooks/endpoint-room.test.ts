import t from 'tap';
import { EndpointRoom } from '../../src/webhooks/endpoint-room.ts';

const url = 'https://a.test/';

/** Calls that end one after another while the room is full. */
function answer(room: EndpointRoom, count: number, durationMs: number, works = true, to = url): void {
  for (let n = 0; n < count; n += 1) room.learn('a', { works, durationMs, url: to }, room.of('a'));
}

t.test('an endpoint gets more calls at once while it answers well', (t) => {
  const room = new EndpointRoom(4, 32);
  t.equal(room.of('a'), 4);
  answer(room, 23, 250);
  t.equal(room.of('a'), 4, 'only once it is known how long it takes');
  answer(room, 4, 250);
  t.equal(room.of('a'), 5);
  answer(room, 120, 270);
  t.equal(room.of('a'), 32, 'up to a limit');
  t.equal(room.of('b'), 4, 'which does not affect others');
  room.learn('a', { works: false, durationMs: 30, url }, 32);
  t.equal(room.of('a'), 16, 'half after a failure');
  answer(room, 10, 15_000, false);
  t.equal(room.of('a'), 4, 'but no less than it began with');
  t.end();
});

t.test('how soon it fails says nothing about how soon it answers', (t) => {
  const room = new EndpointRoom(4, 32);
  answer(room, 10, 1, false);
  answer(room, 200, 250);
  t.equal(room.of('a'), 32);
  t.end();
});

t.test('an endpoint that has moved has no room on the credit of its old URL', (t) => {
  const room = new EndpointRoom(4, 32);
  answer(room, 200, 50);
  t.equal(room.of('a'), 32);
  answer(room, 1, 50, true, 'https://b.test/');
  t.equal(room.of('a'), 4);
  answer(room, 200, 50, true, 'https://b.test/');
  t.equal(room.of('a'), 32);
  t.end();
});

t.test('room that was never used is not earned', (t) => {
  const room = new EndpointRoom(4, 32);
  for (let n = 0; n < 200; n += 1) room.learn('a', { works: true, durationMs: 20, url }, 1);
  t.equal(room.of('a'), 4);
  t.end();
});

/** Random numbers that are the same each time. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
}

/**
 * An endpoint that serves this many calls at a time, and is called as often as it has room for. The others wait there.
 *
 * @returns the mean of its room after the first twenty seconds
 */
function meanRoom(serves: number, service: () => number, forMs = 120_000): number {
  let now = 0;
  const room = new EndpointRoom(4, 32, () => now);
  const waiting: number[] = [];
  let served: { began: number; ends: number }[] = [];
  let sum = 0;
  while (now < forMs) {
    while (waiting.length + served.length < room.of('a')) waiting.push(now);
    while (served.length < serves && waiting.length > 0)
      served.push({ began: waiting.shift() ?? now, ends: now + service() });
    const next = served.reduce((first, one) => (one.ends < first.ends ? one : first));
    if (now > 20_000) sum += room.of('a') * (next.ends - now);
    now = next.ends;
    room.learn('a', { works: true, durationMs: now - next.began, url }, waiting.length + served.length);
    served = served.filter((one) => one !== next);
  }
  return sum / (now - 20_000);
}

/** Times in ms as most servers have them: some are a multiple of the median. */
function logNormal(median: number, spread: number, random: () => number): () => number {
  const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
  return () => median * Math.exp(spread * normal());
}

t.test('varying times are not mistaken for crowding', (t) => {
  for (const seed of [1, 2, 3]) {
    const random = dice(seed);
    for (const [what, service] of [
      ['20 to 300 ms', () => 20 + random() * 280],
      ['80 ms or so', logNormal(80, 0.4, random)],
      ['200 ms or so', logNormal(200, 0.3, random)],
      ['150 ms, and now and then a second', logNormal(150, 0.8, random)],
      ['800 ms or so', logNormal(800, 0.5, random)],
    ] as const) {
      const room = meanRoom(Number.POSITIVE_INFINITY, service);
      t.ok(room > 24, `${what}: ${room}`);
    }
  }
  t.end();
});

t.test('it gets no more room if calls wait for each other', (t) => {
  for (const seed of [1, 2, 3]) {
    const random = dice(seed);
    for (const [what, serves, service, least, most] of [
      ['five at a time', 5, logNormal(60, 0.2, random), 7, 13],
      ['five at a time, slowly', 5, logNormal(200, 0.5, random), 7, 13],
      ['one after the other', 1, logNormal(50, 0.3, random), 4, 11],
    ] as const) {
      const room = meanRoom(serves, service);
      t.ok(room >= least && room <= most, `${what}: ${room}`);
    }
  }
  t.end();
});

t.test('an endpoint that has become slow gets little room, until it is measured again', (t) => {
  let now = 0;
  const room = new EndpointRoom(4, 32, () => now);
  answer(room, 200, 60);
  t.equal(room.of('a'), 32);
  answer(room, 200, 400);
  t.equal(room.of('a'), 4);
  now += 300_000;
  answer(room, 200, 400);
  t.equal(room.of('a'), 32);
  t.end();
});

t.test('what was learned is forgotten after a while, and is limited', (t) => {
  let now = 0;
  const room = new EndpointRoom(4, 32, () => now);
  answer(room, 200, 20);
  now += 299_000;
  t.equal(room.of('a'), 32);
  now += 1_000;
  t.equal(room.of('a'), 4);
  answer(room, 200, 20);
  for (let n = 0; n < 10_000; n += 1) room.learn(`b${n}`, { works: true, durationMs: 20, url }, 4);
  t.equal(room.of('a'), 4, 'the oldest is dropped');
  t.end();
});
