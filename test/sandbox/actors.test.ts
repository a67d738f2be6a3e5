import { readFileSync } from 'node:fs';
import PostalMime from 'postal-mime';
import t from 'tap';
import { actors } from '../../src/core/operations/sandbox-messages.ts';
import { buildSender } from '../support/build.ts';
import { document } from '../support/contract.ts';
import { everySecond } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { eventually, startTestNode } from '../support/node.ts';

t.test('addresses that act are listed where people look', async (t) => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const tags = JSON.stringify(document.tags);
  for (const local of Object.keys(actors)) {
    t.ok(readme.includes(`| \`${local}@\` |`), `${local}@ in the README`);
    t.ok(tags.includes(`\`${local}@\``), `${local}@ in the reference`);
  }
});

t.test('they do what is documented', async (t) => {
  const encryptionKey = testKey(5);
  const env = { ENCRYPTION_KEY: encryptionKey.toString('hex'), RETRY_SCHEDULE: everySecond };
  const node = await startTestNode(t, env);
  const { key, from, account } = await buildSender(node.db, encryptionKey);
  const send = async (to: string, fields: object = {}) => {
    const body = { from, to, subject: 's', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id as string;
  };
  const attemptsOf = async (id: string) =>
    (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key })).body.attempts;
  const settled = (id: string) =>
    eventually(async () => {
      const { body } = await node.call('GET', `/api/v1/emails/${id}`, { key });
      return body.email.status !== 'queued' && body.email;
    });

  await t.test('at any domain', async (t) => {
    const outcome = async (local: string) => {
      const id = await send(`${local}+1@acting.test`);
      const email = await settled(id);
      const attempts = await attemptsOf(id);
      return {
        status: email.status,
        attempts: attempts.length,
        class: attempts.at(-1).classification,
        uncertain: attempts[0].uncertain,
      };
    };
    const [full, blocked, greylisted, disconnects, slow] = await Promise.all(
      ['full', 'blocked', 'greylisted', 'disconnects', 'slow'].map(outcome),
    );
    t.match(full, { status: 'failed', attempts: 1, class: 'mailbox_full' });
    t.match(blocked, { status: 'failed', attempts: 1, class: 'policy' });
    t.match(greylisted, { status: 'sent', attempts: 2, uncertain: false });
    t.match(disconnects, { status: 'sent', attempts: 2, uncertain: true });
    t.match(slow, { status: 'sent', attempts: 1 });
    t.equal(await node.db.prisma.suppression.count(), 0, 'none of them says that the mailbox does not exist');
  });

  await t.test('no-tls@ meets a server without STARTTLS', async (t) => {
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
    const clear = await send('no-tls+1@no-tls.test');
    t.equal((await settled(clear)).status, 'sent');
    t.match(await attemptsOf(clear), [{ mx_host: 'mx-no-tls.sandbox.test', outcome: 'delivered', tls_version: null }]);
    const { messages } = (await node.call('GET', '/api/v1/sandbox/messages', { token })).body;
    t.match(
      messages.find(({ email_id }: { email_id: string }) => email_id === clear),
      { rcpt_to: ['no-tls+1@no-tls.test'], tls_version: null },
    );

    // The connection that the first one left open must not carry mail that needs TLS either.
    const { body } = await node.call('GET', '/api/v1/domains', { token });
    const kept = await send('no-tls@no-tls.example.org', { tls: 'required' });
    const strict = await send('no-tls@no-tls.test', { tls: 'verified' });
    await node.call('PATCH', `/api/v1/domains/${body.domains[0].id}`, { token, body: { tls: 'required' } });
    const byDomain = await send('no-tls@no-tls.test');
    for (const [id, verification] of [
      [kept, 'required'],
      [strict, 'verified'],
      [byDomain, 'required'],
    ] as const) {
      const [first] = await eventually(async () => {
        const attempts = await attemptsOf(id);
        return attempts.length > 0 && attempts;
      });
      t.match(first, {
        outcome: 'deferred',
        phase: 'starttls',
        enhanced_code: '4.7.0',
        verification,
        reply_code: null,
      });
      t.match(first.reason, /^mx-no-tls\.sandbox\.test does not offer TLS \(STARTTLS\): refused by /);
      t.equal((await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email.status, 'queued');
    }

    const elsewhere = await send('no-tls@acting.test');
    t.equal((await settled(elsewhere)).status, 'failed');
    t.match(await attemptsOf(elsewhere), [{ phase: 'rcpt', reply: /no-tls\.test/ }]);
    t.equal(await node.db.prisma.suppression.count(), 0);
  });

  await t.test('a domain in letters of its own is the same one as in the log', async (t) => {
    const id = await send('disconnects@bücher.test');
    t.equal((await settled(id)).status, 'sent', 'the second copy is known as such');
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
    const { messages } = (await node.call('GET', '/api/v1/sandbox/messages', { token })).body;
    t.match(
      messages.find(({ email_id }: { email_id: string }) => email_id === id),
      { rcpt_to: ['disconnects@xn--bcher-kva.test'] },
    );
  });

  await t.test('only the header of a message is parsed, and lists cut its source, as a body may be long', async (t) => {
    const parsed = t.capture(PostalMime.prototype, 'parse', PostalMime.prototype.parse);
    const id = await send('lines@acting.test', { subject: 'Many lines', text: 'line\r\n\r\n'.repeat(40_000) });
    await settled(id);
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
    const { messages } = (await node.call('GET', '/api/v1/sandbox/messages', { token })).body;
    const arrived = messages.find(({ email_id }: { email_id: string }) => email_id === id);
    t.match(arrived, { subject: 'Many lines', from });
    t.match([arrived.raw.length, arrived.raw_truncated], [256 * 1024, true]);
    const { message } = (await node.call('GET', `/api/v1/sandbox/messages/${arrived.id}`, { token })).body;
    t.match([message.raw.length, message.raw_truncated], [arrived.size, false], 'by itself it has all of it');
    t.ok(message.raw.startsWith(arrived.raw));
    const sizes = parsed().map(({ args: [message] }) => (message as Buffer).length);
    t.ok(sizes.length > 0 && Math.max(...sizes) < 10_000);
  });

  await t.test('what arrived is found by part of a recipient or of the subject, however it is written', async (t) => {
    const other = await buildSender(node.db, encryptionKey);
    const [first, second] = [
      await send('Ann@bücher.test', { subject: 'Überweisung 100%' }),
      await send('bob@shop.test'),
    ];
    await Promise.all([settled(first), settled(second)]);
    const found = async ({ email, password }: { email: string; password: string }, q: string, rest = '') => {
      const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
      const path = `/api/v1/sandbox/messages?q=${encodeURIComponent(q)}${rest}`;
      const { messages, count } = (await node.call('GET', path, { token })).body;
      return [count, ...messages.map(({ email_id }: { email_id: string }) => email_id)];
    };
    for (const q of ['ann@', 'Ann@BÜCHER.test', 'ann@xn--bcher', 'überweisung', '0%'])
      t.strictSame(await found(account, q), [1, first], q);
    t.strictSame(await found(account, 'Bob@Shop'), [1, second]);
    for (const q of ['0_', 'ann@shop', 'bob@shop.test,']) t.strictSame(await found(account, q), [0], q);
    const [count = 0, ...ids] = await found(account, '.test', '&limit=1');
    t.ok(Number(count) >= 2, 'all that match are counted');
    t.strictSame(ids, [second]);
    t.strictSame(await found(other.account, 'ann@'), [0], 'not by another account');
  });
});
