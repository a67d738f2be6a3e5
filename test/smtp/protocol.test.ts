import t from 'tap';
import type { Peer } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { resultOf, startScripted } from './scene.ts';

const pipelining = async (peer: Peer) => peer.greet('PIPELINING', 'ENHANCEDSTATUSCODES');
const plain = async (peer: Peer) => peer.greet();

t.test('MX-07: garbage is never taken for success', async (t) => {
  const replies = [
    '999 ok',
    'ok',
    '250-a\r\n550 b',
    '250-a\r\n',
    '\0\0\0',
    '150 ok',
    '2500 ok',
    '-250 ok',
    '050 ok',
    '350 ok',
  ];
  for (const reply of replies) {
    // A complete reply is not waited for.
    const isHalf = reply.endsWith('\r\n');
    const { send } = await startScripted(
      t,
      async (peer) => {
        await plain(peer);
        await peer.message({ rcpt: [reply] });
      },
      { deadlines: isHalf ? { rcpt: 400 } : {} },
    );
    const result = resultOf(await send());
    t.match(
      result,
      { outcome: 'deferred', phase: 'rcpt', uncertain: false, class: isHalf ? String : 'protocol' },
      reply,
    );
  }
  for (const reply of ['250', '250 caf\xe9 \xff', '250 5.1 ok', '250-one\n250 two']) {
    const { send } = await startScripted(t, async (peer) => {
      await plain(peer);
      await peer.message({ rcpt: [reply], dot: reply });
    });
    t.match(resultOf(await send()), { outcome: 'delivered', enhanced: null }, reply);
  }
});

t.test('INJ-13: whatever the text of a reply, there is one delivery and the text is fit to be stored', async (t) => {
  const texts = [
    'ok\0nul',
    'ok \x1b[31mred<script>',
    'ok \xff\xfe\xe9',
    `ok ${'x'.repeat(1_000_000)}`,
    `ok\r\n250 another`,
    'ok \xed\xa0\x80',
  ];
  for (const text of texts) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await plain(peer);
      await peer.message({ dot: `250 2.6.0 ${text}` });
    });
    const result = resultOf(await send());
    t.match(result, { outcome: 'delivered', enhanced: '2.6.0' }, text.slice(0, 30));
    for (const stored of [result.reply?.text ?? '', result.reason]) {
      t.notMatch(stored, /[\x00-\x1f\x7f-\x9f]/);
      t.ok(stored.isWellFormed() && stored.length <= 2_000);
    }
    t.equal(mx.peers.length, 1);
  }
});

t.test('if DATA is accepted without any recipient, a lone dot ends it', async (t) => {
  const { send, mx } = await startScripted(t, async (peer) => {
    await pipelining(peer);
    for (const reply of ['250 ok', '550 no such user', '354 go']) await peer.answer(reply);
    await peer.answer('554 no recipients');
    await peer.answer('221 bye');
  });
  t.match(resultOf(await send()), { outcome: 'bounced', phase: 'rcpt' });
  await eventually(async () => mx.peers[0]?.received.toString('latin1').includes('DATA\r\n.'));
  t.ok(mx.peers[0]?.received.toString('latin1').endsWith('DATA\r\n.\r\n'));
});

t.test('if MAIL is refused but DATA accepted, nothing more is sent', async (t) => {
  const script = async (peer: Peer) => {
    await pipelining(peer);
    for (const reply of ['550 5.1.8 bad sender', '250 ok', '354 go']) await peer.answer(reply);
    await peer.until('never');
  };
  // A connection that is kept would soon be told to QUIT, which the server would take for the message.
  const { send, mx } = await startScripted(t, script, { pool: { idleMs: 10 } });
  t.match(resultOf(await send()), { outcome: 'bounced', phase: 'mail', class: 'sender' });
  await eventually(async () => mx.peers[0]?.socket.readableEnded || mx.peers[0]?.received.includes('QUIT'));
  t.ok(mx.peers[0]?.received.toString('latin1').endsWith('DATA\r\n'));
});
