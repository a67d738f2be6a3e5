import fc from 'fast-check';
import t from 'tap';
import { parsedAtOnce, parseInTurns, parseJson } from '../../src/http/body/json.ts';
import { readStructure } from '../../src/http/body/structure.ts';

const long = JSON.stringify('x'.repeat(parsedAtOnce));

/** What a body gives: a value, or why it is refused. */
async function outcomeOf(body: Buffer, parse: (body: Buffer) => unknown): Promise<string> {
  try {
    return JSON.stringify(await parse(body));
  } catch (error) {
    return `refused: ${(error as Error & { detail?: string }).detail ?? (error as Error).message}`;
  }
}

const inTurns = (body: Buffer) => {
  const structure = readStructure(body, 1_000_000);
  if ('refusal' in structure) throw new Error(structure.refusal);
  return parseInTurns(body, structure.lists);
};

t.test('long lists parsed in turns give the same value as in one go', async (t) => {
  const bodies = [
    `{"emails":[${long}]}`,
    `{"emails":[${long},1,{"a":[1,2,{"b":"],["}]},[],[[]],null]}`,
    `{"a":[${long},2],"b":"x","c":[${long}],"d":[],"e":[1]}`,
    `{"a":[${long}],"a":[${long},"the last counts"]}`,
    `{"__proto__":[${long}],"constructor":[${long}]}`,
    `{"a":[${' '.repeat(parsedAtOnce)} ]}`,
    `{"a":{"b":[${long}]},"c":[{"d":[${long}]}]}`,
    `{"a":["\\"],[${'\\\\'.repeat(parsedAtOnce)}","\\\\",${long}]}`,
    `\uFEFF{"a":[${long},"é—\u{1F600}"]}`,
    `[[${long}],1]`,
    `{"a":[${Array.from({ length: 60_000 }, (_, n) => n).join(' ,\n')}]}`,
  ];
  for (const body of bodies) {
    const bytes = Buffer.from(body);
    t.equal(await outcomeOf(bytes, inTurns), JSON.stringify(parseJson(bytes)), body.slice(0, 40));
  }
});

t.test('other work has turns while one long list is parsed, or many', async (t) => {
  const one = `{"a":[${Array(200).fill(long).join(',')}]}`;
  const many = `{${Array.from({ length: 200 }, (_, n) => `"a${n}":[${long}]`).join(',')}}`;
  for (const body of [one, many].map((text) => Buffer.from(text))) {
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 1);
    const value = (await inTurns(body)) as Record<string, string[]>;
    clearInterval(timer);
    t.equal(Object.values(value).flat().length, 200);
    t.ok(turns >= 2, `${turns} turns`);
  }
});

t.test('invalid JSON parsed in turns is refused as in one go', async (t) => {
  const bodies = [
    `{"a":[${long},]}`,
    `{"a":[,${long}]}`,
    `{"a":[${long},,1]}`,
    `{"a":[${long} 1]}`,
    `{"a":[${long}}`,
    `{"a":[${long}`,
    `{"a":[1,${long}]]}`,
    `{"a":[${long}],}`,
    `{"a":[{"b":1],${long}]}`,
    `{"a":[${long},\uFEFF1]}`,
    `{"a":[${long}]}{"b":[${long}]}`,
  ];
  for (const body of bodies)
    t.equal(await outcomeOf(Buffer.from(body), inTurns), 'refused: the body is not JSON', body.replace(long, '…'));
  const half = Buffer.concat([Buffer.from(`{"a":[${long},"`), Buffer.from([0xc3]), Buffer.from('"]}')]);
  t.equal(await outcomeOf(half, inTurns), 'refused: the body is not UTF-8');
});

t.test('any body, also with one byte changed, is read the same both ways', async (t) => {
  const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value));
  const elements = fc.array(json, { maxLength: 4 });
  const change = fc.option(fc.tuple(fc.nat(300), fc.boolean(), fc.constantFrom(...'[]{},":1 \\')), { freq: 5 });
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(json, elements, elements, json, change, async (before, some, others, after, change) => {
      const body = Buffer.from(`{"x":${before},"a":[${[...some, long, ...others].join(',')}],"b":${after}}`);
      const [at, fromEnd, character] = change ?? [];
      if (at !== undefined) body.write(character ?? '', fromEnd ? Math.max(0, body.length - 1 - at) : at);
      const [one, other] = [await outcomeOf(body, parseJson), await outcomeOf(body, inTurns)];
      const isRefused = one.startsWith('refused');
      if (isRefused) refused += 1;
      // A body that is neither JSON nor UTF-8 may be refused as either.
      return one === other || (isRefused && other.startsWith('refused'));
    }),
    { numRuns: 600 },
  );
  t.ok(refused > 100 && refused < 500, `${refused} of 600 were not JSON any more`);
});

t.test('distinct names are counted wherever they are in objects, and no strings in lists', async (t) => {
  const refusalOf = (text: string) => {
    const structure = readStructure(Buffer.from(text), 1_000_000);
    return 'refusal' in structure ? structure.refusal : null;
  };
  const many = (make: (n: number) => string) => Array.from({ length: 12_000 }, (_, n) => make(n)).join();
  const refusal = 'the body contains more than 10,000 different names';
  t.equal(refusalOf(`{${many((n) => `"k${n}":1`)}}`), refusal);
  t.equal(refusalOf(`{${many((n) => `"k${n}":{"a":[1]}`)}}`), refusal, 'also behind what is nested');
  t.equal(refusalOf(`{"emails":[${many((n) => `{"k${n}":1}`)}]}`), refusal, 'over all objects');
  t.equal(refusalOf(`{"to":[${many((n) => `"k${n}"`)}]}`), null);
  t.equal(refusalOf(`{"emails":[${many((n) => `{"a":"k${n}","b":1}`)}]}`), null);
  t.equal(refusalOf(`${'['.repeat(32)}${']'.repeat(32)}`), null);
  t.equal(refusalOf(`${'['.repeat(33)}${']'.repeat(33)}`), 'the body is nested deeper than 32 levels');
});
