import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { sealContext } from '../../src/core/domains/domains.ts';
import type { OutgoingEmail } from '../../src/core/outgoing/outgoing.ts';
import { Keyring, seal } from '../../src/crypto/seal.ts';
import { MessageBuilder } from '../../src/delivery/message/message.ts';
import { newId } from '../../src/ids.ts';
import { opportunistic } from '../../src/smtp/policies/tls-policy.ts';
import { testKey } from '../support/keys.ts';

const keyring = new Keyring(testKey(1));
const places = { key: randomBytes(32), baseUrl: 'https://out.test', host: 'out.test' };
const domainId = newId();
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const sealed = seal(keyring.first, privateKey.export({ type: 'pkcs8', format: 'der' }), sealContext(domainId));
const signing = { domainId, domain: 'shop.test', keys: [{ selector: 'sw1', sealed }] };

/** An email, and how often its HTML was read. */
function emailOf(html: string, id = newId(), text = 'text'): { email: OutgoingEmail; read: () => number } {
  let read = 0;
  const email = {
    ...{ id, accountId: newId(), type: 'transactional' as const, from: 'a@shop.test', to: ['b@one.test'] },
    ...{ cc: [], replyTo: [], subject: 's', messageId: `${id}@shop.test`, tls: opportunistic },
    ...{ onUncertain: 'retry' as const, pool: null, text, headers: [], attachments: [] },
    ...{ dueAt: new Date(), signing, revoked: false, suspended: false, suppressed: new Set<string>() },
    get html() {
      read += 1;
      return html;
    },
  };
  return { email, read: () => read };
}

const bytesOf = (builder: MessageBuilder, email: OutgoingEmail) =>
  builder.with(email, signing, null, async (pieces) => Buffer.concat(pieces).toString('latin1'));

t.test('a message that was prepared is built once, and that one is sent', async (t) => {
  const builder = new MessageBuilder(keyring, places);
  const { email, read } = emailOf('<p>Hello</p>');
  builder.buildAhead(email, signing, null);
  // A message prepared later is built later.
  await bytesOf(builder, emailOf('<p>Another</p>').email);
  const once = read();
  builder.buildAhead(email, signing, null);
  const bytes = await bytesOf(builder, email);
  t.match(bytes, /^DKIM-Signature: [\s\S]*<p>Hello<\/p>/);
  t.equal(read(), once, 'nobody read it again');
  t.equal(await bytesOf(builder, email), bytes, 'rebuilt, it is the same');
  t.ok(read() > once, 'because it was dropped once used');
});

t.test(
  'each message has a Feedback-ID of its account and type, or the one of its sender, and it is signed',
  async (t) => {
    const builder = new MessageBuilder(keyring, places);
    const { email } = emailOf('<p>Hello</p>');
    const feedbackIds = (bytes: string) => [...bytes.matchAll(/^feedback-id: (.*)\r$/gim)].map(([, value]) => value);
    const bytes = await bytesOf(builder, email);
    t.strictSame(feedbackIds(bytes), [`${email.accountId}:transactional:sendwright`]);
    t.match(bytes, /^DKIM-Signature: [^=]*[\s\S]*h=[^;]*Feedback-ID/);
    const headers: OutgoingEmail['headers'] = [['feedback-id', 'spring:shop:newsletter:acme']];
    t.strictSame(feedbackIds(await bytesOf(builder, { ...email, headers })), ['spring:shop:newsletter:acme']);
  },
);

t.test('an email that was read again since then is rebuilt', async (t) => {
  const builder = new MessageBuilder(keyring, places);
  const { email } = emailOf('<p>before</p>');
  builder.buildAhead(email, signing, null);
  const { email: now } = emailOf('<p>after</p>', email.id);
  const [first, second] = await Promise.all([bytesOf(builder, now), bytesOf(builder, now)]);
  t.match(first, /after/);
  t.equal(second, first);
});

t.test('of many bodies that begin and end alike, each email gets its own', async (t) => {
  const builder = new MessageBuilder(keyring, places);
  const alike = (own: number) => `${'h'.repeat(300)} ${own} ${'t'.repeat(300)}`;
  const emails = Array.from({ length: 60 }, (_, index) => ({
    own: `${index % 4} ${(index >> 2) % 3}`,
    email: emailOf(alike(index % 4), newId(), alike((index >> 2) % 3)).email,
  }));
  for (const { email } of emails.slice(0, 20)) builder.buildAhead(email, signing, null);
  const built = await Promise.all(emails.map(({ email }) => bytesOf(builder, email)));
  const found = built.map((bytes) => /h (\d) t[\s\S]*h (\d) t/.exec(bytes)?.slice(1).reverse().join(' '));
  t.same(
    found,
    emails.map(({ own }) => own),
  );
});

t.test('only a limited number is prepared, and what nobody asks for is dropped after a second', async (t) => {
  const { now } = performance;
  t.teardown(() => {
    performance.now = now;
  });
  const began = now.call(performance);
  // No time passes, however long the machine may stall.
  performance.now = () => began;
  const builder = new MessageBuilder(keyring, places);
  const [first, another, last] = [emailOf('<p>first</p>'), emailOf('<p>another</p>'), emailOf('<p>last</p>')];
  builder.buildAhead(first.email, signing, null);
  for (let more = 2; more < 300; more += 1) builder.buildAhead(emailOf(`<p>${more}</p>`).email, signing, null);
  builder.buildAhead(another.email, signing, null);
  builder.buildAhead(last.email, signing, null);
  // Once it is built the first is, too; and there is one in its place.
  await bytesOf(builder, another.email);
  builder.buildAhead(emailOf('<p>one more</p>').email, signing, null);
  builder.buildAhead(last.email, signing, null);
  t.equal(last.read(), 0, 'there was no room for it');
  const once = first.read();
  t.ok(once > 0);
  performance.now = () => began + 1_001;
  // A message that is being built is dropped once it is built.
  for (let waited = 0; waited < 60_000 && last.read() === 0; waited += 50) {
    builder.buildAhead(last.email, signing, null);
    await sleep(50);
  }
  t.ok(last.read() > 0, 'now there is');
  // Once the promise is settled, the bytes are freed a moment later.
  await sleep(100);
  await bytesOf(builder, first.email);
  t.ok(first.read() > once, 'a second has passed');
});

t.test('a failure to build is reported to whoever asks for the message, and to nobody else', async (t) => {
  const builder = new MessageBuilder(new Keyring(testKey(2)), places);
  const { email } = emailOf('<p>sealed with another key</p>');
  builder.buildAhead(email, signing, null);
  await sleep(20);
  await t.rejects(bytesOf(builder, email));
});

t.test('a selector that comes back with another key signs with the new key', async (t) => {
  const signingAnew = () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const sealed = seal(keyring.first, privateKey.export({ type: 'pkcs8', format: 'der' }), sealContext(domainId));
    return { domainId, domain: 'shop.test', keys: [{ selector: 'sw1', sealed }] };
  };
  const running = new MessageBuilder(keyring, places);
  const { email } = emailOf('<p>Hello</p>');
  const signed = (builder: MessageBuilder, by: typeof signing) =>
    builder.with(email, by, null, async (pieces) => Buffer.concat(pieces).toString('latin1'));
  for (const by of [signing, signingAnew(), signingAnew()])
    t.equal(await signed(running, by), await signed(new MessageBuilder(keyring, places), by));
});

t.test(
  'large bodies with a copy for each reader are built one after the other, and other work gets its turn',
  async (t) => {
    const builder = new MessageBuilder(keyring, places);
    const { email } = emailOf('');
    let turn = 0;
    let isOver = false;
    const counting = (async () => {
      for (; !isOver; turn += 1) await nextTurn();
    })();
    const seen = new Set<number>();
    const html = `<a href="{{{UNSUBSCRIBE_URL}}}">${'no more '.repeat(10_000)}</a>`;
    const newsletter = Object.defineProperty({ ...email, type: 'marketing' as const }, 'html', {
      get() {
        seen.add(turn);
        return html;
      },
    });
    const readers = Array.from({ length: 20 }, (_, position) => ({ position, address: `r${position}@one.test` }));
    const urls = await Promise.all(
      readers.map((reader) =>
        builder.with(newsletter, signing, reader, async (pieces) => {
          const bytes = Buffer.concat(pieces).toString('latin1').replaceAll('=\r\n', '').replaceAll('=3D', '=');
          const [, url = ''] = /^List-Unsubscribe: <([^>]*)>/m.exec(bytes) ?? [];
          t.match(bytes, `<a href="${url}">`);
          return url;
        }),
      ),
    );
    isOver = true;
    await counting;
    t.equal(new Set(urls).size, readers.length);
    t.ok(seen.size >= readers.length, `it was looked at in ${seen.size} turns`);
  },
);
