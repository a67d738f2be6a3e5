import { generateKeyPairSync } from 'node:crypto';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t, { type Test } from 'tap';
import { forgetRetired } from '../../src/core/domains/dkim-keys.ts';
import { recheckDue } from '../../src/core/domains/verification.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { resolveWith } from '../../src/smtp/dns/resolver.ts';
import { mailHostname, startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { type ReceivedMessage, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { served } from './scene.ts';

const encryptionKey = testKey(7);

/** A sender whose DNS records are published, with a receiver that keeps its mail. */
async function startRotating(t: Test) {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const zone = {
    [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    'receiver.test': { A: ['127.0.0.1'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: sink.port });
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body;
  const ask = (method: string, path: string, body?: unknown) =>
    node.call(method, `/api/v1${path}`, { token, ...(body ? { body } : {}) });
  const domain = `/domains/${node.domainId}`;
  const publish = ({ name, value }: { name: string; value: string }) => node.zone.set(name, { TXT: [value] });
  for (const record of Object.values((await ask('GET', domain)).body.dns_records)) publish(record as never);
  const resolver = async (name: string, type: string) => (await node.zone.resolver.resolve(name, type)) as string[][];
  /** What a receiver finds about the signatures of an email that is sent now. */
  const signatures = async (): Promise<string[]> => {
    const before = sink.messages.length;
    await node.send({ to: 'a@receiver.test' });
    const { raw } = (await eventually(async () => sink.messages[before])) as ReceivedMessage;
    const { results } = await dkimVerify(raw, { resolver });
    return results.map(({ selector, algo, status }) => `${selector} ${algo} ${status.result}`).sort();
  };
  return { node, ask, domain, publish, signatures };
}

t.test('a new key signs once its record is seen, and the old record is needed for another week', async (t) => {
  const { node, ask, domain, publish, signatures } = await startRotating(t);
  const { dkim_selector: old } = (await ask('GET', domain)).body.domain;
  const rotated = (await ask('POST', `${domain}/rotate-dkim`, { selector: 'new1' })).body;
  t.match(rotated.dkim_keys, [
    { selector: 'new1', algorithm: 'rsa', status: 'pending', record: { type: 'TXT' }, remove_after: null },
  ]);
  t.equal(rotated.domain.dkim_selector, old);
  t.same(await signatures(), [`${old} rsa-sha256 pass`], 'until then the old one signs');

  const unseen = (await ask('POST', `${domain}/verify`)).body;
  t.match(unseen.dkim_keys, [{ status: 'pending', problem: /^there is no TXT record at new1\._domainkey\./ }]);
  publish(rotated.dkim_keys[0].record);
  const seen = (await ask('POST', `${domain}/verify`)).body;
  t.equal(seen.domain.dkim_selector, 'new1');
  t.match(seen.dkim_keys, [{ selector: old, status: 'retired', retired_at: String, remove_after: String }]);
  t.same(await signatures(), ['new1 rsa-sha256 pass']);

  const [row] = await node.db.prisma.dkimKey.findMany();
  t.equal(row?.privateKey, null, 'the private key of a retired key is deleted');
  await forgetRetired(node.db);
  t.equal(await node.db.prisma.dkimKey.count(), 1);
  await node.db.query({ text: `UPDATE dkim_keys SET retired_at = now() - interval '8 days'` });
  await forgetRetired(node.db);
  t.equal(await node.db.prisma.dkimKey.count(), 0);
});

t.test('an Ed25519 key signs next to RSA, and can be rotated and removed', async (t) => {
  const { node, ask, domain, publish, signatures } = await startRotating(t);
  const { dkim_selector: rsa } = (await ask('GET', domain)).body.domain;
  const add = async (selector: string) => {
    const { body } = await ask('POST', `${domain}/rotate-dkim`, { algorithm: 'ed25519', selector });
    publish(body.dkim_keys[0].record);
    return body.dkim_keys[0].id as string;
  };
  /** The Ed25519 records that people, or a program that publishes everything, are told to publish. */
  const recommended = async () => {
    const { recommended_records: records } = (await ask('GET', domain)).body;
    return records.filter(({ value }: { value: string }) => value.includes('k=ed25519'));
  };
  t.same(await recommended(), []);
  await add('ed1');
  const { dkim_keys: keys } = (await ask('GET', domain)).body;
  t.same(await recommended(), [{ ...keys[0].record, purpose: (await recommended())[0]?.purpose }]);
  t.match((await recommended())[0]?.purpose, /^DKIM with Ed25519: /);
  // Without a call: the scheduled look-up does it.
  await node.db.query({ text: 'UPDATE domains SET next_check_at = now() - make_interval(secs => 1)' });
  const resolve = resolveWith(node.zone.resolver);
  await recheckDue(node.db, {
    resolve,
    mailHostname,
    ehloNames: new Map(),
    sendingIps: ['127.0.0.1'],
    keyring: new Keyring(encryptionKey),
  });
  // The node itself may have taken the domain first, and still be looking.
  await eventually(async () => (await ask('GET', domain)).body.dkim_keys[0].status === 'active');
  t.same(await signatures(), ['ed1 ed25519-sha256 pass', `${rsa} rsa-sha256 pass`].sort());

  const dry = await node.call('POST', '/api/v1/emails?dry_run=true', {
    key: node.key,
    body: { from: node.from, to: 'a@receiver.test', subject: 's', text: 't' },
  });
  t.equal(JSON.stringify(dry.body).match(/DKIM-Signature: v=1/g)?.length, 2, 'as a dry run shows');

  const second = await add('ed2');
  await ask('POST', `${domain}/verify`);
  t.same(await signatures(), ['ed2 ed25519-sha256 pass', `${rsa} rsa-sha256 pass`].sort());
  t.match((await ask('GET', domain)).body.dkim_keys, [
    { selector: 'ed2', status: 'active', activated_at: String },
    { selector: 'ed1', status: 'retired' },
  ]);
  t.match(await recommended(), [{ name: /^ed2\._domainkey\./ }], 'the one that signs, not the retired one');
  t.equal((await ask('DELETE', `/dkim-keys/${second}`)).status, 200);
  t.same(await signatures(), [`${rsa} rsa-sha256 pass`]);
});

t.test('a key that signed elsewhere can be imported with its selector', async (t) => {
  const { ask, domain, publish, signatures } = await startRotating(t);
  const pem = String(
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
  );
  const { body } = await ask('POST', `${domain}/rotate-dkim`, { private_key: pem, selector: 'mail.elsewhere' });
  t.notMatch(JSON.stringify(body), /PRIVATE/);
  publish(body.dkim_keys[0].record);
  t.equal((await ask('POST', `${domain}/verify`)).status, 200);
  t.same(await signatures(), ['mail.elsewhere rsa-sha256 pass']);
});

t.test('invalid keys are refused, and a second rotation replaces one that waits', async (t) => {
  const { node, ask, domain } = await startRotating(t);
  const { dkim_selector: used } = (await ask('GET', domain)).body.domain;
  const ed25519 = String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
  for (const [body, detail] of [
    [{ algorithm: 'dsa' }, /^algorithm: must be one of rsa, ed25519$/],
    [{ private_key: 'x' }, /^private_key: must be a private key in PEM/],
    [{ private_key: `${ed25519}x` }, /^private_key: must be a private key in PEM/],
    [{ algorithm: 'rsa', private_key: ed25519 }, /^private_key: is of another algorithm than the one asked for, rsa$/],
    [{ selector: used }, /^selector: is in use/],
    [{ selector: 'a b' }, /^selector: must be a name in lower case/],
    [{ selector: 'a.'.repeat(40) }, /^selector: must be a name in lower case/],
  ] as const) {
    const answer = await ask('POST', `${domain}/rotate-dkim`, body);
    t.match([answer.status, answer.body], [400, { error: 'invalid request', detail }]);
  }
  t.equal(await node.db.prisma.dkimKey.count(), 0);
  for (const selector of ['one', 'one', 'two']) await ask('POST', `${domain}/rotate-dkim`, { selector });
  t.match((await ask('GET', domain)).body.dkim_keys, [{ selector: 'two' }]);
});

t.test('rotations at once are all answered, and one of them waits in the end', async (t) => {
  const { node, ask, domain } = await startRotating(t);
  for (const algorithm of ['rsa', 'ed25519']) {
    const racing = await Promise.all(
      Array.from({ length: algorithm === 'rsa' ? 6 : 60 }, (_, n) =>
        served(() => ask('POST', `${domain}/rotate-dkim`, { algorithm, selector: `${algorithm}${n}` })),
      ),
    );
    for (const { status, body } of racing) t.equal(status, 200, JSON.stringify(body));
    t.equal(await node.db.prisma.dkimKey.count({ where: { algorithm: algorithm as 'rsa' | 'ed25519' } }), 1);
  }
});
