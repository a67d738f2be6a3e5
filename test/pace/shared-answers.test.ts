import { mock } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import t from 'tap';
import { SharedAnswers } from '../../src/pace/shared-answers.ts';

t.test('answers that take long', async (t) => {
  // A process that has run for long: only how long an answer took counts.
  let at = 5_000_000;
  const ticks = mock.method(performance, 'now', () => at);
  t.teardown(() => ticks.mock.restore());
  const begin = () => {
    const shared = new SharedAnswers<string>({ times: 20, weigh: ({ length }) => length, most: 10 });
    const worked: string[] = [];
    /** Asks, and answers after so many ms. */
    const ask = async (question: string, answer: string, ms: number) =>
      shared.get(question, async () => {
        worked.push(answer);
        await Promise.resolve();
        at += ms;
        return answer;
      });
    return { shared, worked, ask };
  };

  t.test('are kept for a multiple of the time that they took', async (t) => {
    const { worked, ask } = begin();
    t.equal(await ask('a', 'one', 100), 'one');
    at += 1_999;
    t.equal(await ask('a', 'two', 100), 'one');
    t.equal(await ask('b', 'three', 100), 'three', 'for one question');
    t.equal(await ask('a', 'four', 100), 'four');
    t.strictSame(worked, ['one', 'three', 'four']);
  });

  t.test('are kept no longer because the work had to wait', async (t) => {
    const { shared, worked, ask } = begin();
    const work = async () => {
      at += 100;
      return 'one';
    };
    const inTurn = (work: () => Promise<string>) => {
      at += 10_000;
      return work();
    };
    await shared.get('a', work, { inTurn });
    at += 1_999;
    t.equal(await ask('a', 'two', 100), 'one');
    at += 1;
    t.equal(await ask('a', 'three', 100), 'three');
    t.strictSame(worked, ['three']);
  });

  t.test('are worked out once for all who ask meanwhile', async (t) => {
    const { shared } = begin();
    const { promise, resolve } = Promise.withResolvers<string>();
    let times = 0;
    const work = () => {
      times += 1;
      return promise;
    };
    const answers = [shared.get('a', work), shared.get('a', work)];
    at += 1_000_000;
    answers.push(shared.get('a', work));
    resolve('one');
    t.strictSame(await Promise.all(answers), ['one', 'one', 'one']);
    t.equal(times, 1);
  });

  t.test('are not worked out if all who asked have left when their turn comes', async (t) => {
    const { shared, worked } = begin();
    const turn = Promise.withResolvers<void>();
    const inTurn = (work: () => Promise<string>) => turn.promise.then(work);
    const left = new Set<string>();
    const workFor = (who: string) => async () => {
      at += 100;
      return `${worked.push(who)}`;
    };
    const ask = (question: string, who: string) =>
      shared.get(question, workFor(who), { inTurn, hasLeft: () => left.has(who) });
    const nobody = [ask('a', 'Ann'), ask('a', 'Bob')];
    const somebody = [ask('b', 'Ann'), ask('b', 'Cid')];
    left.add('Ann').add('Bob');
    // Whoever asks once it is not worked out does not get that as an answer.
    const again = nobody[0]?.catch(() => ask('a', 'Dan'));
    turn.resolve();
    for (const one of nobody) await t.rejects(one, { message: 'client gone' });
    t.strictSame(await Promise.all(somebody), ['1', '1'], 'one of them is still there');
    t.equal(await again, '2');
    t.strictSame(worked, ['Ann', 'Dan']);
    left.add('Dan');
    t.equal(await ask('a', 'Dan'), '2', 'what is there already is had all the same');
  });

  t.test('are worked out anew for who asks before those who have left are told', async (t) => {
    const { shared, ask } = begin();
    const [turn, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const inTurn = (work: () => Promise<string>) => turn.promise.then(work).finally(() => end.promise);
    const left = shared.get('a', async () => 'one', { inTurn, hasLeft: () => true });
    turn.resolve();
    await immediate();
    t.equal(await Promise.race([ask('a', 'two', 100), immediate('it waits, too')]), 'two');
    end.resolve();
    await t.rejects(left, { message: 'client gone' });
    t.equal(await ask('a', 'three', 100), 'two');
  });

  t.test('are not kept if they fail', async (t) => {
    const { shared, ask } = begin();
    const failing = async () => {
      at += 1_000;
      throw new Error('away');
    };
    await t.rejects(Promise.all([shared.get('a', failing), shared.get('a', failing)]), { message: 'away' });
    t.equal(await ask('a', 'one', 1), 'one');
  });

  t.test('make room for those that were asked for later', async (t) => {
    const { worked, ask } = begin();
    const { promise, resolve } = Promise.withResolvers<string>();
    for (const [question, answer] of [
      ['a', '12345'],
      ['b', '1234'],
      ['c', '12'],
    ] as const)
      await ask(question, answer, 1_000);
    worked.length = 0;
    await ask('b', 'again', 1_000);
    await ask('c', 'again', 1_000);
    t.strictSame(worked, []);
    await ask('a', '1', 1_000);
    t.strictSame(worked, ['1'], 'only the first one has gone');
    resolve('');
    await promise;
    await ask('d', '12345678901', 1_000);
    await ask('d', 'too much to be kept', 1_000);
    t.strictSame(worked, ['1', '12345678901', 'too much to be kept']);
  });

  t.test('are shared also if others had to make room while they were worked out', async (t) => {
    const { shared, worked, ask } = begin();
    const gate = Promise.withResolvers<string>();
    const slow = shared.get('slow', () => gate.promise);
    await ask('b', '12345678901', 1_000);
    const also = ask('slow', 'worked out twice', 1);
    gate.resolve('one');
    t.strictSame(await Promise.all([slow, also]), ['one', 'one']);
    t.strictSame(worked, ['12345678901']);
  });

  t.test('make room at first if nobody would get them any more', async (t) => {
    const { worked, ask } = begin();
    await ask('slow', '1234', 1_000);
    await ask('quick', '123', 1);
    await ask('quicker', '123', 1);
    await ask('slow', 'as many as may be kept', 1_000);
    at += 100;
    await ask('next', '123456', 100);
    await ask('slow', 'it is still good', 1_000);
    t.strictSame(worked, ['1234', '123', '123', '123456']);
  });

  t.test('make room in the order in which they were worked out', async (t) => {
    const { worked, ask } = begin();
    await ask('renewed', 'old', 100);
    await ask('first', '12345', 1_000);
    at += 2_000;
    await ask('renewed', 'new', 1_000);
    await ask('third', '123', 1_000);
    for (const question of ['renewed', 'third', 'first']) await ask(question, `${question}, again`, 1_000);
    t.strictSame(worked, ['old', '12345', 'new', '123', 'first, again']);
  });
});
