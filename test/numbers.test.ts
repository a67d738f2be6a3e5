import t from 'tap';
import { grouped } from '../src/numbers.ts';

t.test('the thousands of whole numbers are grouped as in English', async (t) => {
  const powers = Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);
  const values = powers.flatMap((power) => [power - 1, power, power + 1, 2 * power + 345]);
  for (const value of [...values, Number.MAX_SAFE_INTEGER])
    for (const signed of [value, 0 - value]) t.equal(grouped(signed), signed.toLocaleString('en-US'), `${signed}`);
});
