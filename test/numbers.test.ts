import t from 'tap';
import { grouped, timeInWords } from '../src/numbers.ts';

t.test('the thousands of whole numbers are grouped as in English', async (t) => {
  const powers = Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);
  const values = powers.flatMap((power) => [power - 1, power, power + 1, 2 * power + 345]);
  for (const value of [...values, Number.MAX_SAFE_INTEGER])
    for (const signed of [value, 0 - value]) t.equal(grouped(signed), signed.toLocaleString('en-US'), `${signed}`);
});

t.test('a length of time has the unit in which people say it', async (t) => {
  const cases = [90, 119.4, 120, 7_199, 7_200, 72 * 3_600, 1_000 * 86_400].map((seconds) =>
    timeInWords(seconds * 1_000),
  );
  t.strictSame(cases, ['90 seconds', '119 seconds', '2 minutes', '120 minutes', '2 hours', '72 hours', '24,000 hours']);
});
