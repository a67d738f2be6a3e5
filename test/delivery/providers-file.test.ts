import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { wellKnown } from '../../src/delivery/sites/providers.ts';
import { readProviders } from '../../src/delivery/sites/providers-file.ts';

t.test('what an operator says about providers', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-providers-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, 'providers.json');
  const read = async (content: unknown) => {
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
    return readProviders(path);
  };
  const good = { name: 'Google', mx: ['Google.com'], connections: 50 };

  t.equal(await readProviders(null), wellKnown);
  const [first, second, ...rest] = await read([
    { ...good, per_minute: 6_000, messages_per_connection: 20 },
    { name: 'Ours', mx: ['mx.münchen.example'], connections: 1 },
  ]);
  t.strictSame(first, { name: 'Google', mx: ['google.com'], connections: 50, perMinute: 6_000, perConnection: 20 });
  t.match(second, { mx: ['mx.xn--mnchen-3ya.example'], perMinute: null, perConnection: null });
  t.strictSame(rest, wellKnown, 'before the built-in ones');

  for (const [content, problem] of [
    ['{', /is not JSON/],
    [{}, /is wrong: must be an array$/],
    [[good, { ...good, connections: 0 }], /is wrong at \[1\]\.connections: must be 1 or more$/],
    [[{ ...good, connections: 2.5 }], /is wrong at \[0\]\.connections: must be a whole number$/],
    [[{ ...good, mx: [] }], /is wrong at \[0\]\.mx: must not be empty$/],
    [[{ ...good, mx: ['a b'] }], /is wrong at \[0\]\.mx\[0\]: /],
    [[{ ...good, name: '' }], /is wrong at \[0\]\.name: must have 1 to 100/],
    [[{ ...good, conections: 3 }], /is wrong at \[0\]: conections is not known$/],
    [[{ ...good, per_minute: '60' }], /is wrong at \[0\]\.per_minute: must be a whole number$/],
  ] as const) {
    await t.rejects(read(content), { message: problem });
  }
  await t.rejects(readProviders(join(folder, 'none.json')), { message: /cannot be read/ });
});
