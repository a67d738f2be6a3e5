import t from 'tap';
import { byWeight } from '../../src/pace/by-weight.ts';

const groups = (items: number[], most: number) => byWeight(items, most, (item) => item);

t.test('groups weigh no more than their limit, except a single heavier item', async (t) => {
  t.same(groups([], 10), []);
  t.same(groups([0, 0], 0), [[0, 0]]);
  t.same(groups([4, 6, 1], 10), [[4, 6], [1]]);
  t.same(groups([11, 1, 11, 12, 3], 10), [[11], [1], [11], [12], [3]]);
  t.same(groups([0, 11, 0, 0], 10), [[0], [11], [0, 0]]);
});
