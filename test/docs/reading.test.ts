import t from 'tap';
import { blocksOf } from './markdown.ts';
import { openPlace } from './place.ts';
import { read } from './reading.ts';

const fence = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\`\n`;
const send = (fields = '"to": "a@anywhere.test"') =>
  fence(
    'sh',
    `KEY=sk_live_...  # the key that npm start printed
curl http://localhost:3000/api/v1/emails -H "X-API-Key: $KEY" -H 'Content-Type: application/json' \\
  -d '{"from": "hello@example.test", ${fields}, "subject": "s", "text": "t"}'`,
  );
const id = '01a20019-f248-716e-9576-cccb29507b6c';
const answer = (email: object) => fence('json', JSON.stringify({ email: { '…': '…', ...email } }));
const list = fence('sh', 'curl "http://localhost:3000/api/v1/emails?limit=2" -H "X-API-Key: $KEY"');

const right: Record<string, string> = {
  'another id and another time': send() + answer({ id, created_at: '2026-01-01T00:00:00.000Z' }),
  'a refusal that is shown':
    send('"cc": "a@anywhere.test"') + fence('json', '{"error": "invalid request", "detail": "…"}'),
  'what is not run': `<!-- not run: it is for others -->\n${fence('sh', 'exit 3')}`,
  'an end that is announced': `<!-- ends with 3 -->\n${fence('sh', '(exit 3)')}`,
  'a value to fill in': `${send()}${fence('sh', 'ID=...  # the id from the answer\ncurl http://localhost:3000/api/v1/emails/$ID -H "X-API-Key: $KEY"')}`,
  'what happens later': `${send()}${fence('sh', 'ID=...  # the id from the answer\ncurl http://localhost:3000/api/v1/emails/$ID -H "X-API-Key: $KEY"')}${answer({ status: 'sent' })}`,
};

const wrong: Record<string, [document: string, problem: RegExp]> = {
  'another value': [send() + answer({ subject: 'S' }), /the answer\.email\.subject is "s", shown is "S"/],
  'a member that is not there': [send() + answer({ bounces: 0 }), /the answer\.email\.bounces is shown and not there/],
  'a member that is not shown': [send() + fence('json', '{"email": {}}'), /the answer\.email\.id is not shown/],
  'another kind of value': [send() + answer({ id: 7 }), /the answer\.email\.id is "/],
  'one id for two emails': [
    `${send()}${send()}${list}${fence('json', `{"emails": [{"id": "${id}", "…": "…"}, {"id": "${id}", "…": "…"}], "…": "…"}`)}`,
    /the answer\.emails\[1\]\.id is/,
  ],
  'a list that is longer': [
    `${send()}${list}${fence('json', '{"emails": [], "…": "…"}')}`,
    /the answer\.emails has 2 entries, shown are 0/,
  ],
  'a call that is refused': [send('"cc": "a@anywhere.test"'), /it was refused: .*to: is required/],
  'a call that does not exist': [
    fence('sh', 'curl http://localhost:3000/api/v1/email -H "X-API-Key: x"'),
    /it was refused: .*not found/,
  ],
  'a value that nobody knows': [fence('sh', 'ID=...  # the id from the letter\necho $ID'), /nobody can fill in/],
  'a command that fails, before another': [fence('sh', 'false\ntrue'), /it ended with 1/],
  'a program that throws': [fence('js', 'throw new Error("so it is")'), /it ended with 1: .*so it is/s],
  'a program that says another thing': [
    fence('js', 'console.log(1)') + fence('text', '2'),
    /it wrote:\n1\nshown is:\n2/,
  ],
  'no answer at all': [fence('sh', 'true') + fence('json', '{}'), /1 answers are shown/],
};

t.test('a document is compared with what really happens', async (t) => {
  const place = await openPlace(t);
  for (const [name, document] of Object.entries(right))
    t.same((await read(blocksOf(document), place, 60_000)).wrong, [], `right: ${name}`);
  for (const [name, [document, problem]] of Object.entries(wrong))
    t.match((await read(blocksOf(document), place, 0)).wrong.join('\n'), problem, `wrong: ${name}`);
});
