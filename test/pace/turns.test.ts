import t from 'tap';
import { Turns } from '../../src/pace/turns.ts';

const settled = () => new Promise(setImmediate);

t.test('so many run at once, so many wait in line, more are refused, and what fails gives its place on', async (t) => {
  const turns = new Turns(2, 3, 'pieces of work');
  const begun: string[] = [];
  const works = new Map<string, PromiseWithResolvers<string>>();
  const take = (name: string) =>
    turns.take(() => {
      begun.push(name);
      const work = Promise.withResolvers<string>();
      works.set(name, work);
      return work.promise;
    });
  for (const round of ['first', 'second']) {
    const all = ['a', 'b', 'c', 'd', 'e'].map(take);
    const outcomes = Promise.allSettled(all);
    t.match(
      await take('f').catch((error) => error),
      { status: 503, cause: { message: '3 pieces of work wait already' } },
      `${round}: there is no place to wait`,
    );
    t.strictSame(begun.splice(0), ['a', 'b']);
    for (const [ended, next] of [
      ['b', ['c']],
      ['a', ['d']],
      ['d', ['e']],
      ['c', []],
      ['e', []],
    ] as const) {
      const { resolve, reject } = works.get(ended) ?? Promise.withResolvers<string>();
      if (ended === 'a') reject(new Error('it fails'));
      else resolve(ended);
      await settled();
      t.strictSame(begun.splice(0), next, `${round}: after ${ended}`);
    }
    t.strictSame(
      (await outcomes).map(({ status }) => status),
      ['rejected', ...Array(4).fill('fulfilled')],
    );
  }
});
