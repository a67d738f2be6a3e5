import { pino } from 'pino';
import t from 'tap';
import { Trouble } from '../src/trouble.ts';

t.test('each kind of failure is logged at once and then once a minute, and so is the end', (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  let now = 0;
  const trouble = new Trouble(log, { failing: 'it fails', over: 'it works again' }, () => now);
  const said = () => lines.splice(0).map(({ msg, error, seconds }) => [msg, error ?? seconds]);
  trouble.worked();
  t.same(said(), []);
  for (; now < 65_000; now += 1_000) trouble.failed(new Error(now % 2_000 === 0 ? 'no answer' : 'no connection'));
  t.same(said(), [
    ['it fails', 'no answer'],
    ['it fails', 'no connection'],
    ['it fails', 'no answer'],
    ['it fails', 'no connection'],
  ]);
  trouble.worked();
  t.same(said(), [], 'it may have worked only once');
  now += 5_000;
  trouble.worked();
  trouble.worked();
  t.same(said(), [['it works again', 64]]);
  trouble.failed(new Error('no answer'));
  t.same(said(), [['it fails', 'no answer']], 'a new outage is said at once');
  now += 3_000;
  trouble.failed(new Error('no answer'));
  now += 5_000;
  trouble.worked();
  t.same(said(), [['it works again', 3]], 'how long the second one took');
  for (let one = 0; one < 100; one += 1) trouble.failed(new Error(`with the id ${one}`));
  t.equal(lines.length, 100);

  const ongoing = new Trouble(log, { failing: 'it fails' }, () => now);
  ongoing.failed(new Error('no answer'));
  now += 5_000;
  lines.length = 0;
  ongoing.worked();
  t.same(said(), [], 'what has no words for its end has none');
  t.end();
});
