import { type ReceivedWebhook, verifyWebhook } from 'sendwright/client';
import t, { type Test } from 'tap';
import { signatureHeaders } from '../../src/webhooks/sign.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const other = 'whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w=';
/** The test vector of Standard Webhooks, and its signature by our own scheme from another implementation. */
const vector = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: 1614265330, body: '{"test": 2432232314}' };
const standard = {
  'webhook-id': vector.id,
  'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};
const own = {
  'X-Service-Webhook-Id': vector.id,
  'X-Service-Webhook-Timestamp': '1614265330',
  'X-Service-Webhook-Signature': 'v1=4dcc6584af5be940fa895235654dad4eaa7c3c455f611b1e34d7dae9bf8b7148',
};
const now = new Date(vector.timestamp * 1000);
const good: ReceivedWebhook = { headers: own, body: vector.body, secret, now };
const event = { test: 2432232314 };

const refused = (t: Test, changed: Record<string, unknown>, detail: RegExp, name?: string) =>
  t.rejects(
    verifyWebhook({ ...good, ...changed } as ReceivedWebhook),
    { name: 'SendwrightError', status: null, error: 'webhook not verified', detail },
    name ?? String(detail),
  );

t.test('both signature schemes, as published', async (t) => {
  for (const headers of [own, standard, { ...own, ...standard }])
    t.strictSame(await verifyWebhook({ ...good, headers }), event);
});

t.test('headers and bodies of any kind', async (t) => {
  const pairs = Object.entries(own);
  const kinds: ReceivedWebhook['headers'][] = [
    new Headers(own),
    new Map(pairs),
    pairs,
    Object.fromEntries(pairs.map(([name, value]) => [name.toUpperCase(), value])),
    { ...Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), [value]])), host: undefined },
  ];
  for (const headers of kinds) t.strictSame(await verifyWebhook({ ...good, headers }), event);
  const bytes = Buffer.from(`--${vector.body}--`).subarray(2, -2);
  for (const body of [bytes, new Uint8Array(bytes)]) t.strictSame(await verifyWebhook({ ...good, body }), event);
  const text = '{"s":"Grüße ✓ \\u0000"}';
  const headers = signatureHeaders({ id: 'id_1', timestamp: vector.timestamp, body: text }, [secret]);
  for (const body of [text, Buffer.from(text)])
    t.strictSame(await verifyWebhook({ ...good, headers, body }), { s: 'Grüße ✓ \0' });
});

t.test('any change is refused', async (t) => {
  const headers = signatureHeaders(vector, [secret]);
  const different = /signature is not made with this secret/;
  await refused(t, { body: `${vector.body} ` }, different);
  await refused(t, { secret: other }, different);
  for (const name of ['X-Service-Webhook-Id', 'webhook-id'])
    await refused(t, { headers: { ...only(headers, name), [name]: 'msg_2' } }, different, name);
  for (const name of ['X-Service-Webhook-Timestamp', 'webhook-timestamp'])
    await refused(t, { headers: { ...only(headers, name), [name]: '1614265331' } }, different, name);
  // A dot that moves from one part into the next signs the same bytes.
  const shifted = {
    ...own,
    'X-Service-Webhook-Id': `${vector.id}.${vector.timestamp}`,
    'X-Service-Webhook-Timestamp': '1',
  };
  await refused(t, { headers: shifted }, /x-service-webhook-id is malformed/);
  const ours = own['X-Service-Webhook-Signature'];
  for (const wrong of [
    ours.replace('4', '5'),
    ours.slice(0, -2),
    ours.toUpperCase(),
    `${ours}00`,
    ours.slice(3),
    'v1=',
    '',
    ',',
  ])
    await refused(t, { headers: { ...own, 'X-Service-Webhook-Signature': wrong } }, /signature/, wrong);
  await refused(
    t,
    { headers: { ...own, 'X-Service-Webhook-Signature': `v1,${ours.slice(3)}` } },
    /no signature of a kind/,
  );
});

/** The headers of the scheme that this name belongs to. */
function only(headers: Record<string, string>, name: string): Record<string, string> {
  const isStandard = (one: string) => one.startsWith('webhook-');
  return Object.fromEntries(Object.entries(headers).filter(([one]) => isStandard(one) === isStandard(name)));
}

t.test('headers that are missing, given twice or malformed', async (t) => {
  await refused(t, { headers: {} }, /no signature header/);
  for (const name of ['X-Service-Webhook-Id', 'X-Service-Webhook-Timestamp'] as const) {
    const { [name]: value, ...without } = own;
    await refused(t, { headers: without }, /it has no header x-service-webhook-/);
    for (const wrong of ['', ' ', 'a b', 'ü', '-1', '1e9', '0x1', '1614265330.0', 'Infinity', '9'.repeat(400)])
      if (!(name.endsWith('Id') && /^[\x21-\x7e]+$/.test(wrong) && !wrong.includes('.') && wrong.length < 300))
        await refused(t, { headers: { ...own, [name]: wrong } }, /malformed/, `${name}: ${wrong}`);
    await refused(t, { headers: { ...own, [name]: [value, value] } }, /malformed/, 'given twice');
    await refused(t, { headers: { ...own, [name.toLowerCase()]: value } }, /malformed/, 'given twice, in another case');
  }
});

t.test('calls that are too old, or from the future', async (t) => {
  const after = (seconds: number) => new Date(now.getTime() + seconds * 1000);
  for (const seconds of [-300, 300]) t.strictSame(await verifyWebhook({ ...good, now: after(seconds) }), event);
  for (const seconds of [-301, 301]) await refused(t, { now: after(seconds) }, /not within 300 s of now/);
  t.strictSame(await verifyWebhook({ ...good, now: after(3_000), toleranceSeconds: 3_000 }), event);
  await refused(t, { now: after(11), toleranceSeconds: 10 }, /not within 10 s/);
  await refused(t, { toleranceSeconds: Number.NaN }, /not within/);
  await refused(t, { now: undefined }, /not within/, 'now, if no time is given');
});

t.test('without headers nothing is verified', async (t) => {
  for (const headers of [{}, undefined, null]) await refused(t, { headers }, /no signature header/);
});

t.test('several signatures, and several secrets', async (t) => {
  const headers = signatureHeaders(vector, [other, secret]);
  // A secret from a file has a line end after it.
  for (const one of [headers, only(headers, 'webhook-'), only(headers, 'x')])
    for (const given of [secret, other, [secret], ['whsec_AAAA', secret], `${secret}\n`])
      t.strictSame(await verifyWebhook({ ...good, headers: one, secret: given }), event);
  await refused(t, { headers, secret: ['whsec_AAAA'] }, /not made with this secret/);
  const many = `${'v1=00 '.repeat(3)}v2=ab ${own['X-Service-Webhook-Signature']}`;
  t.strictSame(
    await verifyWebhook({ ...good, headers: { ...own, 'X-Service-Webhook-Signature': many } }),
    event,
    'among others',
  );
});

t.test('without a secret nothing is verified', async (t) => {
  for (const none of ['', undefined, null, [], [''], [null]]) await refused(t, { secret: none }, /no secret/);
  for (const odd of ['whsec_', 'whsec_***']) await refused(t, { headers: standard, secret: odd }, /with whsec_/);
});

t.test('a body that was parsed, or is missing', async (t) => {
  for (const body of [event, undefined, null, 7]) await refused(t, { body }, /raw string or bytes/);
  const headers = signatureHeaders({ ...vector, body: 'no JSON' }, [secret]);
  await refused(t, { headers, body: 'no JSON' }, /not JSON/);
  const bytes = Buffer.from([0x22, 0xff, 0x22]);
  await refused(t, { headers: signatureHeaders({ ...vector, body: bytes }, [secret]), body: bytes }, /not JSON/);
});
