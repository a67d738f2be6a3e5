import t from 'tap';
import { floorId, isId, newId, timeOf } from '../src/ids.ts';

t.test('ids are ordered by time and contain it', async (t) => {
  const at = new Date('2027-05-06T07:08:09.123Z');
  const id = newId(at);
  t.equal(timeOf(id).getTime(), at.getTime());
  t.ok(floorId(at) <= id);
  t.ok(floorId(new Date(at.getTime() + 1)) > id);
  t.ok(isId(floorId(new Date('1969-07-20T20:17:40Z'))), 'an id, whatever the time');
  const many = Array.from({ length: 1_000 }, () => newId());
  t.same(many, many.toSorted());
  for (const text of ['', 'x', `${id}x`, id.slice(1), '\0', '00000000-0000-0000-0000-00000000000g'])
    t.notOk(isId(text), text);
  t.ok(isId(id));
});
