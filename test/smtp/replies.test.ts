import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import t from 'tap';
import { cleanRemoteText, ReplyParser } from '../../src/smtp/replies/reply.ts';

const parse = (...chunks: (string | Buffer)[]) => {
  const parser = new ReplyParser();
  const replies = chunks.flatMap((chunk) => {
    const bytes = Buffer.from(chunk as string, 'latin1');
    const found = parser.feed(bytes);
    // Like the socket with what it reads next.
    bytes.fill('2');
    return found;
  });
  return { replies: replies.map(({ reply }) => reply), error: parser.error, empty: parser.empty };
};

t.test('complete replies are read', async (t) => {
  const table: [wire: string, code: number, enhanced: string | null, text: string][] = [
    ['250 ok\r\n', 250, null, 'ok'],
    ['250 ok\n', 250, null, 'ok'],
    ['250\r\n', 250, null, ''],
    ['250 \r\n', 250, null, ''],
    ['250-one\r\n250-two\r\n250 three\r\n', 250, null, 'one two three'],
    ['250-one\n250\n', 250, null, 'one'],
    ['250-2.0.0 queued\r\n251 2.0.0 as 1\r\n', 251, '2.0.0', 'queued as 1'],
    ['550 5.1.1 no such user\r\n', 550, '5.1.1', 'no such user'],
    ['550-5.1.1 no such\r\n550 5.1.1 user\r\n', 550, '5.1.1', 'no such user'],
    ['550-5.1.1 no such\r\n550 5.1.10 user\r\n', 550, '5.1.1', 'no such 5.1.10 user'],
    ['550 5.1.1\r\n', 550, '5.1.1', ''],
    ['550 5.1 two parts\r\n', 550, null, '5.1 two parts'],
    ['550 5.1.1.1 four parts\r\n', 550, null, '5.1.1.1 four parts'],
    ['550 4.1.1 another class\r\n', 550, null, '4.1.1 another class'],
    ['450 4.2.2 full\r\n', 450, '4.2.2', 'full'],
    ['250 2.0.0 caf\xc3\xa9\r\n', 250, '2.0.0', 'café'],
    ['250 caf\xe9\r\n', 250, null, 'café'],
    ['250 a\0b\x1b[31mc\x7fd\r\n', 250, null, 'ab[31mcd'],
    ['250 a\rb\r\n', 250, null, 'a b'],
    ['354 go\r\n', 354, null, 'go'],
  ];
  for (const [wire, code, enhanced, text] of table) {
    t.same(parse(wire), { replies: [{ code, enhanced, text }], error: null, empty: true }, JSON.stringify(wire));
    const halves = Array.from(wire, (_, at) => parse(wire.slice(0, at), wire.slice(at)));
    t.ok(
      halves.every(({ replies }) => replies.length === 1 && replies[0]?.text === text),
      `${JSON.stringify(wire)} split anywhere`,
    );
  }
});

t.test('several replies in one chunk come in order, and an incomplete one waits', async (t) => {
  const { replies, empty } = parse('250 a\r\n550 b\r\n250-c');
  t.same(
    replies.map((reply) => reply.text),
    ['a', 'b'],
  );
  t.equal(empty, false);
});

t.test('anything that is no reply ends the stream', async (t) => {
  const wires = [
    '999 what\r\n',
    '099 low\r\n',
    '150 early\r\n',
    'hello\r\n',
    '\r\n',
    '25 0\r\n',
    '250ok\r\n',
    '250\tok\r\n',
    ' 250 ok\r\n',
  ];
  for (const wire of [...wires, '250-a\r\n450 b\r\n', '250-a\r\n550 b\r\n', '\0\0\0\n', '250-a\r\nnonsense\r\n']) {
    const { replies, error } = parse(wire, '250 ok\r\n');
    t.same(replies, [], JSON.stringify(wire));
    t.type(error, 'string');
  }
});

t.test('replies are bounded', async (t) => {
  t.match(parse('220-', 'x'.repeat(10_000)), { replies: [], error: 'the reply is too long' });
  t.match(parse('220-x\r\n'.repeat(20_000)), { replies: [], error: 'the reply is too long' });
  t.match(parse('220-\r\n'.repeat(2_000)), { replies: [], error: 'the reply is too long' });
  const wordy = parse(`250 2.0.0 ${'x'.repeat(1_000_000)}`);
  t.match(wordy, { replies: [{ code: 250, enhanced: '2.0.0' }], error: 'the reply is too long' });
  t.equal(wordy.replies[0]?.text.length, 2_000);
});

t.test('replies that come in drips take no more memory than their length', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = () => {
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const parser = new ReplyParser();
  const drop = Buffer.from('2');
  const before = used();
  for (let at = 0; at < 8_000; at += 1) {
    parser.feed(drop);
    // Other code takes memory from Node's shared pool.
    Buffer.from('y'.repeat(4_000));
  }
  const more = used() - before;
  // Other activity in the process takes a few.
  t.ok(more < 10_000_000, `${more} bytes`);
  t.notOk(parser.empty);
});

t.test('even at its limits, a reply is the same however the network splits it', async (t) => {
  const line = `250-${'x'.repeat(1_000)}\r\n`;
  const lines = line.repeat(65);
  const rest = `250-${'x'.repeat(65_536 - 1 - lines.length - 6)}\r\n`;
  // The 65,537th octet is the second of the code.
  const full = parse(lines + rest, '25', '0 queued\r\n');
  t.match(full, { replies: [{ code: 250 }], error: 'the reply is too long' });
  t.same(full, parse(`${lines}${rest}250 queued\r\n`));
  const wordy = `354 ${'x'.repeat(8_180)}éé${'x'.repeat(2_000)}\r\n`;
  const parser = new ReplyParser();
  const [whole] = new ReplyParser().feed(Buffer.from(wordy));
  const [pieces] = [wordy.slice(0, 5_000), wordy.slice(5_000)].flatMap((chunk) => parser.feed(Buffer.from(chunk)));
  t.ok(whole);
  t.same(pieces, whole);
});

t.test('it survives any bytes in any segmentation', async () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.constantFrom('250 ok\r\n', '250-', '\r\n', '5.1.1 ').map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
      const whole = parse(Buffer.concat(pieces));
      const parts = parse(...pieces.map((each) => Buffer.from(each)));
      return (
        JSON.stringify(whole.replies) === JSON.stringify(parts.replies) &&
        (whole.error === null) === (parts.error === null)
      );
    }),
  );
});

t.test('text from remote servers is safe to store', async (t) => {
  t.equal(cleanRemoteText('a\r\nb\tc\n\n'), 'a b c');
  t.equal(cleanRemoteText('a\u2028b\r\u2029c'), 'a b c', 'INJ-14: characters that some take for line ends');
  t.equal(cleanRemoteText('a\0\x07\x1b\x7f\x80\x9fb'), 'ab');
  t.equal(cleanRemoteText('a\ud800b\udfffc😀'), 'abc😀');
  t.equal(cleanRemoteText(Buffer.from('naïve €')), 'naïve €');
  t.equal(cleanRemoteText(Buffer.from([0x61, 0xff, 0xfe])), 'aÿþ');
  t.equal(cleanRemoteText('x'.repeat(5_000)).length, 2_000);
  t.equal(cleanRemoteText(`${'x'.repeat(9)}😀`, 10), 'x'.repeat(9), 'no half characters');
  t.equal(cleanRemoteText(Buffer.from('é'.repeat(2_000_000))).length, 2_000);
  fc.assert(
    fc.property(
      fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.string({ unit: 'binary' })),
      fc.integer({ min: 1, max: 50 }),
      (remote, max) => {
        const text = cleanRemoteText(remote, max);
        return text.length <= max && text.isWellFormed() && !/[\x00-\x1f\x7f-\x9f]/.test(text);
      },
    ),
  );
});
