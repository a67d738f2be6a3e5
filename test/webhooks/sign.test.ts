import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { newId } from '../../src/ids.ts';
import { hmac, signatureHeaders } from '../../src/webhooks/sign.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const vector = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: 1614265330, body: '{"test": 2432232314}' };

t.test('the vector of Standard Webhooks: WH-01', async (t) => {
  const digest = hmac(Buffer.from(secret.slice(6), 'base64'), vector);
  t.equal(digest.toString('base64'), 'g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  t.equal(digest.toString('hex'), '83484cf52b04f8e4cf2531adfed9882ad4b2665137b852442d594d20e2c9d4e1');
});

t.test('all headers, exactly', async (t) => {
  t.strictSame(signatureHeaders(vector, [secret]), {
    'X-Service-Webhook-Id': vector.id,
    'X-Service-Webhook-Timestamp': '1614265330',
    // Computed with another implementation, with the whole secret as the key.
    'X-Service-Webhook-Signature': 'v1=4dcc6584af5be940fa895235654dad4eaa7c3c455f611b1e34d7dae9bf8b7148',
    'webhook-id': vector.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('the signed bytes can be anything: WH-01', async (t) => {
  const body = '{"s":"Grüße ✓ \\u0000"}';
  const expected = 'v1=98344df1c7ab56d9d57304c4082cbabcf89bb4067817c2e77db2166fd31de453';
  for (const form of [body, Buffer.from(body)]) {
    const headers = signatureHeaders({ id: 'id_1', timestamp: 1_700_000_000, body: form }, [secret]);
    t.equal(headers['X-Service-Webhook-Signature'], expected);
  }
});

t.test('during a rotation both secrets sign, the new one first', async (t) => {
  const old = 'whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w=';
  const headers = signatureHeaders(vector, [secret, old]);
  const digest = (key: string | Buffer, encoding: 'hex' | 'base64') =>
    createHmac('sha256', key).update(`${vector.id}.${vector.timestamp}.${vector.body}`).digest(encoding);
  const raw = (text: string) => Buffer.from(text.slice(6), 'base64');
  t.equal(headers['X-Service-Webhook-Signature'], `v1=${digest(secret, 'hex')} v1=${digest(old, 'hex')}`);
  t.equal(headers['webhook-signature'], `v1,${digest(raw(secret), 'base64')} v1,${digest(raw(old), 'base64')}`);
});

t.test('ids contain no dot, so that nothing can be shifted between the parts: WH-03', async (t) => {
  const times = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31') });
  fc.assert(fc.property(times, (at) => /^[0-9a-f-]{36}$/.test(newId(at))));
  t.match(newId(), /^[0-9a-f-]{36}$/);
});
