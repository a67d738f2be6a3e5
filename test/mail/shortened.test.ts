import t from 'tap';
import { readNotice } from '../../src/mail/returns/dsn.ts';
import { Shortened } from '../../src/mail/returns/shortened.ts';
import { bounces } from './bounces/index.ts';

function shortened(message: Buffer, chunk: number): Buffer {
  const kept = new Shortened();
  for (let at = 0; at < message.length; at += chunk) kept.add(message.subarray(at, at + chunk));
  return kept.octets;
}

/** What a notice says but for its words, in which the long text may be. */
function fieldsOf(message: Buffer) {
  const { kind, recipients } = readNotice(message);
  return {
    kind,
    recipients: recipients.map(({ address, action, status, code }) => ({ address, action, status, code })),
  };
}

t.test('a message without long parts is kept as it is, in whatever pieces it arrives', async (t) => {
  for (const { name, message } of bounces)
    for (const chunk of [1, 7, 4_096]) t.ok(shortened(message, chunk).equals(message), `${name}, ${chunk}`);
});

t.test('of a long text the end is left out, and the report after it is read as before', async (t) => {
  const long = 'Nobody reads all of this.\r\n'.repeat(20_000);
  const delimiter = '\r\n--b1/mx.relay.test';
  let reports = 0;
  for (const { name, message } of bounces) {
    const text = message.toString('latin1');
    const end = text.indexOf(delimiter, text.indexOf(delimiter) + 1);
    if (end === -1) continue;
    reports += 1;
    const longer = Buffer.from(`${text.slice(0, end)}\r\n${long}${text.slice(end)}`, 'latin1');
    // Odd sizes, so that chunks end inside of delimiters.
    for (const chunk of [997, 16_381]) {
      const kept = shortened(longer, chunk);
      t.ok(kept.length < longer.length, name);
      t.strictSame(fieldsOf(kept), fieldsOf(message), `${name}, ${chunk}`);
    }
  }
  t.ok(reports > 20, `${reports}`);
});

t.test('a report that begins just before the end of what is kept of a text is kept too', async (t) => {
  const delimiter = '\r\n--b1/mx.relay.test';
  for (const { name, message } of bounces) {
    const text = message.toString('latin1');
    const end = text.indexOf(delimiter, text.indexOf(delimiter) + 1);
    if (end === -1) continue;
    const long = 'x'.repeat(256 * 1024 - 50 - end);
    const longer = Buffer.from(`${text.slice(0, end)}${long}${text.slice(end)}`, 'latin1');
    t.ok(shortened(longer, 997).equals(longer), name);
  }
});

t.test('DOS-07: lines that look like delimiters take little time', async (t) => {
  const begins = Buffer.from('Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n');
  for (const line of ['\n--', '\r\n--bb', '\r\n--b\r\n']) {
    const before = process.cpuUsage();
    const kept = shortened(Buffer.concat([begins, Buffer.alloc(20_000_000, line)]), 16_384);
    const { user } = process.cpuUsage(before);
    t.ok(user < 4_000_000, `${JSON.stringify(line)}: ${user / 1_000} ms`);
    t.ok(kept.length <= 1024 * 1024);
  }
});
