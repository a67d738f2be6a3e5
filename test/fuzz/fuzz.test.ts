import fc from 'fast-check';
import t from 'tap';
import { targets } from './index.ts';
import { openPlace } from './place.ts';

/** `npm run fuzz` continues from here for as long as it is told to. */
const seed = 20261121;

const place = openPlace(t);

for (const { name, open, quick: numRuns = 100 } of targets) {
  t.test(name, async (t) => {
    for (const [promise, property] of Object.entries(await open(place)))
      await t.resolves(Promise.resolve(fc.assert(property, { seed, numRuns })), promise);
  });
}
