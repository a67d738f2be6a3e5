import fc from 'fast-check';
import t from 'tap';
import { parsedAtOnce } from '../../src/http/body/json.ts';
import { jsonFault } from '../../src/http/body/json-fault.ts';
import { isJson } from '../support/is-json.ts';

t.test('what is wrong with a text that is not JSON, and where', (t) => {
  const cases: [text: string, fault: string][] = [
    ['', 'line 1, column 1: expected a value, found the end'],
    ['{', 'line 1, column 2: expected a name in double quotes or }, found the end'],
    ['{"to":"a@b.test",}', 'line 1, column 18: expected a name in double quotes, found }'],
    ['{\n  "to": ["a@b.test",],\n}', 'line 2, column 21: expected a value, found ]'],
    ["{'to':1}", "line 1, column 2: expected a name in double quotes or }, found 'to'"],
    ['{to:1}', 'line 1, column 2: expected a name in double quotes or }, found to'],
    ['{"to" "a@b.test"}', 'line 1, column 7: expected a colon, found "'],
    ['{"to":}', 'line 1, column 7: expected a value, found }'],
    ['{"to":,"a":1}', 'line 1, column 7: expected a value, found ,'],
    ['{"to":undefined}', 'line 1, column 7: expected a value, found undefined'],
    ['{"to":\u201ca@b.test\u201d}', 'line 1, column 7: expected a value, found \u201ca@b.test\u201d'],
    ['{"to":[1 2]}', 'line 1, column 10: expected a comma or ], found 2'],
    ['{"to":[1}', 'line 1, column 9: expected a comma or ], found }'],
    ['{"a":1\n "b":2}', 'line 2, column 2: expected a comma or }, found "'],
    ['{"html":"<a href="x">"}', 'line 1, column 19: expected a comma or }, found x (a " in a string is written \\")'],
    ['{"text":"a "big" sale"}', 'line 1, column 13: expected a comma or }, found big (a " in a string is written \\")'],
    ['{"text":"sale"', 'line 1, column 15: expected a comma or }, found the end'],
    ['{"html":"<p>\n</p>"}', 'line 1, column 13: a line break in a string is written \\n'],
    ['{"a\tb":1}', 'line 1, column 4: a tab in a string is written \\t'],
    ['["\u001b"]', 'line 1, column 3: a control character in a string is written \\u and four digits'],
    ['{"path":"C:\\new\\users"}', 'line 1, column 16: a \\ in a string is written \\\\'],
    ['{"a":"b}', 'line 1, column 6: this string has no closing "'],
    ['{"n":01}', 'line 1, column 7: expected a comma or }, found 1'],
    ['{"n":.5}', 'line 1, column 6: expected a value, found .5'],
    ['{"a":1}{"b":2}', 'line 1, column 8: expected nothing more, found {'],
    ['from=a@b.test&to=c@d.test', 'line 1, column 1: expected a value, found from=a@b.test&to=c@d'],
    ['\u202e\0', 'line 1, column 1: expected a value, found ??'],
    [
      `${'\n'.repeat(9)}${'\u{1f600}'.repeat(30)}`,
      `line 10, column 1: expected a value, found ${'\u{1f600}'.repeat(10)}`,
    ],
  ];
  for (const [text, fault] of cases) t.equal(jsonFault(text), fault, JSON.stringify(text));
  t.end();
});

t.test('a text has a fault exactly if the parser refuses it', (t) => {
  const json = fc.jsonValue().chain((value) => fc.constantFrom(JSON.stringify(value), JSON.stringify(value, null, 2)));
  const change = fc.tuple(fc.nat(), fc.nat(2), fc.constantFrom(...'[]{},":1-.eE0 \\\n\ttu', '\u00a0', '\ufeff', ''));
  let refused = 0;
  fc.assert(
    fc.property(json, fc.option(change), (whole, change) => {
      const [place = 0, removed = 0, added = ''] = change ?? [];
      const at = place % (whole.length + 1);
      const text = `${whole.slice(0, at)}${added}${whole.slice(at + removed)}`;
      const fault = jsonFault(text);
      if (fault !== null) refused += 1;
      return (fault === null) === isJson(text);
    }),
    { numRuns: 3_000 },
  );
  t.ok(refused > 500 && refused < 2_500, `${refused} of 3,000 were not JSON any more`);
  t.end();
});

t.test('the longest texts that are searched have a fault too', (t) => {
  const most = (part: string) => part.repeat((parsedAtOnce - 2) / part.length);
  for (const long of [...['"', '[', ' ', '1', '\n'].map(most), `"${most('\\\\')}`])
    t.match(jsonFault(`${long}x`), /^line \d+, column \d+: /, long.slice(0, 3));
  t.end();
});
