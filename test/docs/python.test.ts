import { spawnSync } from 'node:child_process';
import t from 'tap';
import { signatureHeaders } from '../../src/webhooks/sign.ts';
import { documentOf } from './reading.ts';

const skip = spawnSync('python3', ['--version']).status !== 0 && 'python3 is not installed';

const harness = `
import base64, json, sys
for line in sys.stdin:
    case = json.loads(line)
    print(is_genuine(case['headers'], base64.b64decode(case['body']), case['secret']))
`;

t.test('the Python of the API guide takes a genuine call of a webhook, and no other', { skip }, (t) => {
  const program = documentOf('docs/api-guide.md').find(({ file }) => file === 'genuine.py')?.text ?? '';
  const now = Math.floor(Date.now() / 1000);
  const secret = 'whsec_c2VjcmV0';
  const text = '{"type":"email.delivered","data":{"subject":"Größe"}}';
  const signed = (at: number, secrets = [secret]) =>
    signatureHeaders({ id: '01a2', timestamp: at, body: text }, secrets);
  const cases: [is: string, what: string, headers: Record<string, string>, body?: string][] = [
    ['True', 'genuine', signed(now)],
    ['True', 'right after a rotation', signed(now, ['whsec_bmV3', secret])],
    ['False', 'another secret', signed(now, ['whsec_bmV3'])],
    ['False', 'another body', signed(now), `${text} `],
    ['False', 'too old', signed(now - 400)],
    ['False', 'another id', { ...signed(now), 'X-Service-Webhook-Id': '01a3' }],
    ['False', 'no headers', {}],
    ['False', 'a time that is none', { ...signed(now), 'X-Service-Webhook-Timestamp': 'NaN' }],
    ['False', 'no ASCII', { ...signed(now), 'X-Service-Webhook-Signature': 'v1=ä' }],
  ];
  const input = cases.map(([, , headers, body = text]) =>
    JSON.stringify({ headers, secret, body: Buffer.from(body).toString('base64') }),
  );
  const { stdout, stderr } = spawnSync('python3', ['-c', program + harness], { input: input.join('\n') });
  const answers = stdout.toString().split('\n');
  for (const [index, [is, what]] of cases.entries()) t.equal(answers[index], is, `${what} ${stderr}`);
  t.end();
});
