import t from 'tap';
import { EndpointRoom } from '../../src/webhooks/endpoint-room.ts';

/** Calls that end one after the other while as many others are under way as there is room for. */
function answer(room: EndpointRoom, count: number, durationMs: number, works = true): void {
  for (let n = 0; n < count; n += 1) room.learn('a', { works, durationMs }, room.of('a'));
}

t.test('an endpoint gets more calls at once while it answers well', (t) => {
  const room = new EndpointRoom(4, 32);
  t.equal(room.of('a'), 4);
  answer(room, 4, 250);
  t.equal(room.of('a'), 6);
  answer(room, 100, 270);
  t.equal(room.of('a'), 32, 'up to a bound');
  t.equal(room.of('b'), 4, 'which is of no concern to others');
  room.learn('a', { works: false, durationMs: 30 }, 32);
  t.equal(room.of('a'), 16, 'and half with a failure');
  answer(room, 10, 15_000, false);
  t.equal(room.of('a'), 4, 'to no less than it began with');
  t.end();
});

t.test('how soon it fails is no measure of how soon it answers', (t) => {
  const room = new EndpointRoom(4, 32);
  answer(room, 10, 1, false);
  answer(room, 100, 250);
  t.equal(room.of('a'), 32);
  t.end();
});

t.test('what it was not given it has not shown to bear', (t) => {
  const room = new EndpointRoom(4, 32);
  for (let n = 0; n < 100; n += 1) room.learn('a', { works: true, durationMs: 20 }, 1);
  t.equal(room.of('a'), 4);
  t.end();
});

t.test('it gets no more where calls wait for each other', (t) => {
  let now = 0;
  const room = new EndpointRoom(4, 32, () => now);
  /** Five at a time are served, 60 ms each: so long takes a call behind those that came before it. */
  const busy = (underWay: number) => 60 * Math.ceil(underWay / 5);
  for (let n = 0; n < 10_000; n += 1) room.learn('a', { works: true, durationMs: busy(room.of('a')) }, room.of('a'));
  t.ok(room.of('a') >= 9 && room.of('a') <= 11, `${room.of('a')}`);
  answer(room, 60, 400);
  t.equal(room.of('a'), 4, 'and few when it has become slow');
  now += 300_000;
  answer(room, 100, 400);
  t.equal(room.of('a'), 32, 'until it is looked at anew');
  t.end();
});

t.test('what was learned is forgotten after a while, and is bounded', (t) => {
  let now = 0;
  const room = new EndpointRoom(4, 32, () => now);
  answer(room, 100, 20);
  now += 299_000;
  t.equal(room.of('a'), 32);
  now += 1_000;
  t.equal(room.of('a'), 4);
  answer(room, 100, 20);
  for (let n = 0; n < 10_000; n += 1) room.learn(`b${n}`, { works: true, durationMs: 20 }, 4);
  t.equal(room.of('a'), 4, 'the oldest goes');
  t.end();
});
