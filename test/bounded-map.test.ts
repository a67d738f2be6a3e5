import t from 'tap';
import { BoundedMap } from '../src/bounded-map.ts';

t.test('the entry that was set longest ago goes first', async (t) => {
  const map = new BoundedMap<string, number>(2);
  map.set('a', 1).set('b', 2).set('a', 3);
  t.strictSame(
    [...map],
    [
      ['b', 2],
      ['a', 3],
    ],
  );
  map.set('c', 4);
  t.strictSame(
    [...map],
    [
      ['a', 3],
      ['c', 4],
    ],
  );
  t.equal(map.get('b'), undefined);
  map.delete('a');
  map.set('d', 5);
  t.strictSame([...map.keys()], ['c', 'd'], 'there was room');
  map.set('e', 6);
  t.strictSame([...map.keys()], ['d', 'e'], 'one that was set before the room was made goes first');
  map.clear();
  map.set('f', 7).set('g', 8).set('h', 9);
  t.strictSame([...map.keys()], ['g', 'h'], 'and so it is after everything was taken out');
});
