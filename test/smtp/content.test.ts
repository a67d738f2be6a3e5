import fc from 'fast-check';
import t from 'tap';
import { prepareContent } from '../../src/smtp/transaction/content.ts';
import { assertEnvelope } from '../../src/smtp/transaction/envelope.ts';
import { least } from '../support/linear.ts';
import { startSink } from '../support/mx.ts';
import { message, resultOf, startScene, startScripted } from './scene.ts';

const wireOf = (message: Buffer) => Buffer.concat(prepareContent([message]).wire);
const unstuff = (wire: Buffer) => wire.toString('latin1').replace(/(^|\r\n)\./g, '$1');

t.test('SMG-02: dots at the start of lines are doubled, everything else is unchanged', async (t) => {
  const table: [message: string, wire: string][] = [
    ['', ''],
    ['a\r\n', 'a\r\n'],
    ['a', 'a\r\n'],
    ['.', '..\r\n'],
    ['.\r\n', '..\r\n'],
    ['..\r\n', '...\r\n'],
    ['a\r\n.\r\nb\r\n', 'a\r\n..\r\nb\r\n'],
    ['a.\r\n', 'a.\r\n'],
    ['\r\n.\r\n.\r\n', '\r\n..\r\n..\r\n'],
  ];
  for (const [message, wire] of table) {
    t.equal(wireOf(Buffer.from(message)).toString(), wire, JSON.stringify(message));
  }
  const clean = message();
  t.equal(prepareContent([clean]).wire[0], clean, 'nothing is copied unnecessarily');
  const line = fc.oneof(
    fc.constantFrom('.', '..', '.a', 'a.', ''),
    fc.string({ unit: 'grapheme-ascii' }).map((text) => text.replace(/[\r\n]/g, '')),
  );
  fc.assert(
    fc.property(fc.array(line), fc.nat(), (lines, at) => {
      const all = lines.map((each) => Buffer.from(`${each}\r\n`));
      const cut = at % (all.length + 1);
      const pieces = [Buffer.concat(all.slice(0, cut)), Buffer.concat(all.slice(cut))].filter(
        ({ length }) => length > 0,
      );
      const text = Buffer.concat(all).toString();
      const content = prepareContent(pieces);
      const wire = Buffer.concat(content.wire);
      return unstuff(wire) === text && content.size === text.length && !`\r\n${wire}`.includes('\r\n.\r\n');
    }),
  );
});

t.test('a bare CR or LF is our own bug, and throws', async (t) => {
  for (const bad of [
    '\n',
    '\r',
    'a\n',
    'a\r',
    'a\nb\r\n',
    'a\rb\r\n',
    '\r\r\n',
    '\n\r\n',
    'a\r\n\n',
    '\r\n.\n',
    '\n.\r\n',
    'a\r\n\r',
  ]) {
    // Wherever it lies in memory, and whatever surrounds it.
    for (const before of ['', 'a', 'ab', 'abc', 'abcd\r\n']) {
      const message = Buffer.concat([Buffer.alloc(8), Buffer.from(`${before}${bad}`)]);
      for (const start of [5, 6, 7, 8])
        if (start === 8 || before === '')
          t.throws(() => prepareContent([message.subarray(start)]), /bare/, JSON.stringify([before, bad, start]));
    }
  }
});

t.test('a message is split only after line ends', async (t) => {
  t.throws(() => prepareContent([Buffer.from('a'), Buffer.from('b\r\n')]), /within a line/);
  t.throws(() => prepareContent([Buffer.from('a\r'), Buffer.from('\nb\r\n')]), /within a line/);
});

t.test('8-bit content is detected', async (t) => {
  t.equal(prepareContent([Buffer.from('cafe\r\n'), Buffer.from('caf\xe9\r\n', 'latin1')]).eightBit, true);
  t.equal(prepareContent([Buffer.from('cafe\r\n')]).eightBit, false);
});

t.test('twenty megabytes are prepared quickly', async (t) => {
  const large = Buffer.from('x'.repeat(74).concat('\r\n').repeat(280_000));
  const took = await least(() => prepareContent([large]), 1_000, 5);
  t.ok(took < 1_000, `${took} ms`);
});

t.test('an address that fits into no command is our own bug, and throws', async (t) => {
  const bad = ['a@b\r\nRCPT TO:<v@x>', 'a@b\n', 'a\0@b', 'a b@c', 'a@b>', '<a@b', 'a\t@b', 'a\x7f@b', 'a\ud800@b', ''];
  for (const address of bad) {
    for (const smtpUtf8 of [false, true])
      t.throws(() => assertEnvelope({ from: 'a@b.test', recipients: [address], smtpUtf8 }), JSON.stringify(address));
    if (address === '') continue;
    t.throws(
      () => assertEnvelope({ from: address, recipients: ['a@b.test'], smtpUtf8: false }),
      JSON.stringify(address),
    );
  }
  for (const from of ['é@b', 'a\u010a@b'])
    t.throws(() => assertEnvelope({ from, recipients: ['a@b.test'], smtpUtf8: false }), from);
  t.throws(() => assertEnvelope({ from: '', recipients: [], smtpUtf8: false }));
  assertEnvelope({ from: '', recipients: ['é@b.test'], smtpUtf8: false });
  assertEnvelope({ from: 'é@b.test', recipients: ['a@b.test'], smtpUtf8: true });
});

t.test('SMG-02: what a real server receives is what was sent, byte for byte', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const { send } = await startScene(t, sink.port);
  const dotAtBlocks = Array.from({ length: 64 }, () => `.${'x'.repeat(1_021)}\r\n`).join('');
  const bodies = [
    '.\r\n',
    '..\r\n.\r\n',
    '\r\n.\r\nMAIL FROM:<x@y>\r\n',
    `${'.\r\n'.repeat(30_000)}`,
    dotAtBlocks,
    'no end',
    '.',
  ];
  for (const body of bodies) {
    t.match(resultOf(await send({ message: message(body) })), { outcome: 'delivered' });
    const received = sink.messages.at(-1)?.raw.toString();
    t.equal(received, `${message(body)}${body.endsWith('\r\n') ? '' : '\r\n'}`);
  }
  const starts = Buffer.from('.X: 1\r\n\r\n.\r\n');
  await send({ message: starts });
  t.same(sink.messages.at(-1)?.raw, starts, 'also if the message starts with a dot');
  t.equal(sink.messages.length, bodies.length + 1);
});

t.test('a message in pieces arrives whole, wherever its last 16 KB begin', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const { send } = await startScene(t, sink.port);
  const linesOf = (bytes: number, letter: string) => Buffer.from(`${letter.repeat(126)}\r\n`.repeat(bytes / 128));
  for (const [first, second] of [
    [1_024, 40_960],
    [40_960, 10_240],
    [1_024, 1_024],
    [40_960, 16_384],
    [16_384, 16_512],
  ] as const) {
    const all = [message('.\r\n'), linesOf(first, 'a'), Buffer.from('..\r\n'), linesOf(second, 'b')];
    t.match(resultOf(await send({ message: all })), { outcome: 'delivered' });
    t.ok(sink.messages.at(-1)?.raw.equals(Buffer.concat(all)), `${first} and ${second}`);
  }
});

t.test('a message of any size gets through to a slow reader', async (t) => {
  const large = message('0123456789'.repeat(7).concat('\r\n.\r\n').repeat(60_000));
  let received = 0;
  const { send } = await startScripted(t, async (peer) => {
    await peer.greet();
    for (const reply of ['250 ok', '250 ok', '354 go']) await peer.answer(reply);
    peer.socket.removeAllListeners('data');
    peer.socket.on('data', (chunk: Buffer) => {
      received += chunk.length;
      peer.socket.pause();
      setTimeout(() => peer.socket.resume(), 2);
      if (chunk.toString('latin1').endsWith('\r\n.\r\n') && received > large.length) peer.send('250 ok\r\n');
    });
    await new Promise(() => {});
  });
  t.match(resultOf(await send({ message: large })), { outcome: 'delivered' });
  t.equal(received, large.length + 60_000 + '.\r\n'.length);
});

t.test('MX-08: the extensions that the server offers decide how it is asked, and whether', async (t) => {
  const offer = async (
    keywords: string[],
    options: Parameters<Awaited<ReturnType<typeof startScripted>>['send']>[0] = {},
  ) => {
    const { send, mx } = await startScripted(t, async (peer) => {
      await peer.greet(...keywords);
      await peer.message();
    });
    const result = resultOf(await send(options), options.to?.[0]);
    return { result, wire: mx.peers[0]?.received.toString() ?? '' };
  };
  const utf8 = { to: ['bé@example.test'] };
  const utf8Header = { smtpUtf8: true };
  const all = ['SIZE 10000', '8BITMIME', 'SMTPUTF8'];
  t.match(
    (await offer(all, utf8)).wire,
    `MAIL FROM:<a@sender.test> SIZE=${message().length} SMTPUTF8\r\nRCPT TO:<bé@example.test>\r\n`,
  );
  t.match(
    (await offer(['size', '8bitmime'], { message: message('é\r\n') })).wire,
    'MAIL FROM:<a@sender.test> BODY=8BITMIME\r\n',
  );
  t.match((await offer(['SIZE 0'])).result, { outcome: 'delivered' });
  // A server that offers SMTPUTF8 takes 8 bits, whether it says so or not.
  t.match((await offer(['SMTPUTF8'], { message: message('é\r\n') })).result, { outcome: 'delivered' });

  const refusals: [Awaited<ReturnType<typeof offer>>, string][] = [
    [await offer(['SIZE 10']), '5.3.4'],
    [await offer(['8BITMIME'], utf8), '5.6.7'],
    [await offer(['8BITMIME'], utf8Header), '5.6.7'],
    [await offer([], { message: message('é\r\n') }), '5.6.3'],
  ];
  for (const [{ result, wire }, enhanced] of refusals) {
    t.match(result, { outcome: 'bounced', phase: 'local', enhanced, reply: null, class: 'content' });
    t.notMatch(wire, /MAIL|DATA/);
  }
});

t.test('MX-08: an address that needs SMTPUTF8 does not affect the others, and they share one message', async (t) => {
  const [plain, foreign] = ['b@example.test', 'bé@example.test'];
  const send = async (keywords: string[], rcpt: string[], options = {}) => {
    const scene = await startScripted(t, async (peer) => {
      await peer.greet(...keywords);
      await peer.message({ rcpt });
    });
    const delivery = await scene.send({ to: [foreign, plain], ...options });
    t.equal(delivery.sessions.length, 1);
    return { delivery, wire: scene.mx.peers[0]?.received.toString() ?? '' };
  };
  const refused = { outcome: 'bounced', phase: 'local', enhanced: '5.6.7', reply: null, class: 'content' };

  const both = await send(['8BITMIME', 'SMTPUTF8'], ['250 ok', '250 ok']);
  for (const one of [plain, foreign]) t.match(resultOf(both.delivery, one), { outcome: 'delivered' });
  const rcpt = 'RCPT TO:<bé@example.test>\r\nRCPT TO:<b@example.test>\r\n';
  t.match(both.wire, `MAIL FROM:<a@sender.test> SMTPUTF8\r\n${rcpt}`);

  for (const keywords of [['8BITMIME'], ['8BITMIME', 'PIPELINING'], []]) {
    const { delivery, wire } = await send(keywords, ['250 ok']);
    t.match(resultOf(delivery, plain), { outcome: 'delivered' });
    t.match(resultOf(delivery, foreign), refused);
    t.match(wire, 'MAIL FROM:<a@sender.test>\r\nRCPT TO:<b@example.test>\r\n');
  }

  // Its header cannot be written for anybody there.
  const none = await send(['8BITMIME'], [], { smtpUtf8: true });
  for (const one of [plain, foreign]) t.match(resultOf(none.delivery, one), refused);
  t.notMatch(none.wire, /MAIL|DATA/);
});

t.test('MX-08: a server without ESMTP is greeted with HELO', async (t) => {
  for (const refusal of ['500 what', '502 no', '550 no', '450 what', '451 4.3.0 no']) {
    const { send, mx } = await startScripted(t, async (peer) => {
      peer.send('220 old\r\n');
      await peer.answer(refusal);
      await peer.answer('250 old');
      await peer.message();
    });
    t.match(resultOf(await send()), { outcome: 'delivered' }, refusal);
    t.match(mx.peers[0]?.received.toString(), 'EHLO client.test\r\nHELO client.test\r\nMAIL FROM:<a@sender.test>\r\n');
  }
});

t.test('any 2xx is enough for EHLO and HELO; without an answer to HELO, that to EHLO counts', async (t) => {
  for (const replies of [['220 mx'], ['502 no', '220 mx']]) {
    const { send } = await startScripted(t, async (peer) => {
      peer.send('220 mx\r\n');
      for (const reply of replies) await peer.answer(reply);
      await peer.message();
    });
    t.match(resultOf(await send()), { outcome: 'delivered' }, replies.join());
  }
  const { send } = await startScripted(t, async (peer) => {
    peer.send('220 mx\r\n');
    await peer.answer('554 5.7.1 192.0.2.1 is blocked using bl.example');
    peer.socket.end();
  });
  t.match(resultOf(await send()), { outcome: 'deferred', phase: 'ehlo', reply: { code: 554 }, class: 'policy' });
});
