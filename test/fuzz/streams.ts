import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import fc from 'fast-check';
import { newId } from '../../src/ids.ts';
import { returnPath } from '../inbound/returned.ts';
import { Dialog, plain } from '../inbound/scene.ts';
import type { Target } from './target.ts';
import { cut, equal, hold, lengths } from './texts.ts';

/** A client that has finished is disconnected within this time. */
const endsWithinMs = 60_000;

const enders = [
  '\n.\n',
  '\r.\r',
  '\n.\r\n',
  '\r\n.\n',
  '\r\n.\r',
  '\r.\r\n',
  '\r\n\0.\r\n',
  '\r\n.\0\r\n',
  '\r\n.\r\r\n',
  '\n\n.\r\n',
];

const usual = 'Subject: s\r\n';

/** What a client may say, with addresses that this server accepts. */
function session(from: string, to: string): fc.Arbitrary<Buffer> {
  const header = `From: ${from}\r\nTo: ${to}\r\n${usual}\r\n`;
  const said = fc.constantFrom(
    ...[
      'EHLO client.test\r\n',
      'HELO x\r\n',
      'RSET\r\n',
      'NOOP\r\n',
      'DATA\r\n',
      'QUIT\r\n',
      'STARTTLS\r\n',
      'VRFY a\r\n',
    ],
    ...[`MAIL FROM:<${from}>\r\n`, 'MAIL FROM:<>\r\n', `RCPT TO:<${to}>\r\n`, 'RCPT TO:<v@evil.test>\r\n'],
    ...[`${header}text\r\n.\r\n`, header, 'text\r\n', '\r\n.\r\n', '..\r\n', '.\r\n', '\r\n', '\n', '\r', '\0'],
    ...enders,
    ...['AUTH PLAIN\r\n', 'AUTH LOGIN\r\nAA==\r\n', 'x'.repeat(3_000), `${'NOOP\r\n'.repeat(200)}`, 'BDAT 5\r\nhello'],
  );
  const whole = `MAIL FROM:<${from}>\r\nRCPT TO:<${to}>\r\nDATA\r\n${header}text\r\n.\r\n`;
  const message = fc.constant(whole);
  // One message for readers that follow the RFC, whatever it contains; three for those that take such a sequence for an
  // end.
  const open = whole.slice(0, -'\r\n.\r\n'.length);
  // Whoever leaves then has ended no message.
  const broken = fc.constantFrom('', '', open).map((text) => Buffer.from(text));
  const smuggled = fc.constantFrom(...enders).map((end) => `${open}${end}${open}${end}${whole}`);
  const piece = fc.oneof(
    { weight: 5, arbitrary: said.map((text) => Buffer.from(text)) },
    { weight: 4, arbitrary: message.map((text) => Buffer.from(text)) },
    { weight: 2, arbitrary: smuggled.map((text) => Buffer.from(text)) },
    { weight: 2, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
  );
  return fc.tuple(fc.array(piece, { maxLength: 25 }), broken).map(([pieces, end]) => Buffer.concat([...pieces, end]));
}

/** How many times these bytes could end a message, by RFC 5321 section 4.1.1.4. */
const ends = ({ bytes, leavesAfterMs }: Said) =>
  Buffer.concat([bytes, ...(leavesAfterMs === null ? [farewell] : [])])
    .toString('latin1')
    .match(/(?<=\r\n)\.\r\n/g)?.length ?? 0;

async function send(socket: Socket, pieces: Buffer[]): Promise<void> {
  socket.setNoDelay(true);
  for (const piece of pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await turn();
  }
}

/** Ends a message, if there is one, and the session: without QUIT no message is accepted. */
const farewell = Buffer.from('\r\n.\r\nQUIT\r\n');
const farewellWithinMs = 2_000;

/**
 * Sends everything in these pieces, with or without the farewell, disconnects, and returns what the server said until
 * it closed the connection.
 */
async function converse(
  socket: Socket,
  login: string | null,
  { bytes, lengths, leavesAfterMs }: Said,
): Promise<string> {
  let heard = '';
  let news = () => {};
  socket.on('data', (chunk) => {
    heard += chunk.toString('latin1');
    news();
  });
  const closed = new Promise<void>((resolve) => socket.on('error', () => undefined).once('close', () => resolve()));
  const until = async (pattern: RegExp) => {
    while (!pattern.test(heard) && !socket.destroyed && !socket.readableEnded) {
      const next = new Promise<void>((resolve) => {
        news = resolve;
      });
      await Promise.race([next, closed]);
    }
  };
  const late = setTimeout(() => socket.destroy(new Error('late')), endsWithinMs);
  const began = performance.now();
  // A silent client may be gone before it is greeted.
  if (bytes.length > 0) await until(/^220 .*\r\n/);
  if (login !== null) {
    socket.write(`EHLO client.test\r\nAUTH PLAIN ${plain(login)}\r\n`);
    await until(/^(?:235|5\d\d) /m);
  }
  await send(socket, cut(bytes, lengths));
  if (leavesAfterMs === null) {
    await send(socket, [farewell]);
    await Promise.race([until(/^221 /m), sleep(farewellWithinMs, undefined, { ref: false })]);
  } else if (leavesAfterMs > 0) await Promise.race([closed, sleep(leavesAfterMs)]);
  socket.end();
  await closed;
  clearTimeout(late);
  hold(performance.now() - began < endsWithinMs, 'the session did not end');
  hold(bytes.length === 0 || heard.startsWith('220 '), `the server greeted with ${heard.slice(0, 60)}`);
  // It may have ended in the middle of a reply.
  hold(
    /^(?:\d{3}(?:[ -][^\r\n]*)?\r\n)*[^\r\n]*$/.test(heard),
    `the server sent an invalid reply: ${JSON.stringify(heard)}`,
  );
  return heard;
}

/** Content that ends where it is said to, and nowhere before. */
const content = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...enders,
        '\r\n',
        '\r\n..',
        '\r\n...',
        '..\r\n',
        'text',
        ' ',
        '=',
        '\r\nDATA\r\n',
        '\r\nMAIL FROM:<v@evil.test>\r\n',
        '\r\nQUIT\r\n',
      ),
      fc.string({ unit: 'grapheme-ascii', maxLength: 10 }),
    ),
    { maxLength: 15 },
  )
  .map((pieces) => pieces.join(''))
  .filter((text) => `\r\n${text}\r\n.\r\n`.indexOf('\r\n.\r\n') === text.length + 2);

const holdsOddEnd = (text: string) => /\r(?!\n)|(?<!\r)\n|\0/.test(text);
/**
 * From a line that begins with one dot, which nobody should send, smtp-server does not remove it; RFC 5321 section
 * 4.5.2 would.
 */
const unstuffed = (text: string) => text.replaceAll('\r\n', '\n').replaceAll(/^\.\./gm, '.');

interface Said {
  bytes: Buffer;
  lengths: number[];
  /** It disconnects so many ms after it has sent everything, whatever the server is doing; null: it says goodbye. */
  leavesAfterMs: number | null;
}

/** With an EHLO, and a login if needed: otherwise nothing is accepted. */
type Introduced = Said & { introduced: boolean };

const hello = Buffer.from('EHLO client.test\r\n');

/** At once the server has hardly read anything; a little later it may be in the middle of a message. */
const leavesAfterMs = fc.constantFrom(null, null, null, 0, 100);

/** Several at once, because each is kept waiting for its greeting. */
const sessions = (from: string, to: string) =>
  fc.array(fc.record({ bytes: session(from, to), lengths, leavesAfterMs, introduced: fc.boolean() }), {
    minLength: 1,
    maxLength: 8,
  });

/** A server disconnects a client that is silent for two minutes, which a turn's pause may exceed. */
const sessionMs = 30_000;

/** Sends messages one after the other in one session, each in pieces; the call returns the reply. */
function dialogs(t: Parameters<typeof Dialog.open>[0], port: number, key: string | null) {
  let open: Dialog | null = null;
  let begunAt = 0;
  const begin = async () => {
    begunAt = performance.now();
    const dialog = await Dialog.open(t, port, key !== null);
    await dialog.ask('EHLO client.test');
    if (key !== null) await dialog.ask(`AUTH PLAIN ${plain(key)}`);
    return dialog;
  };
  return async ([from, to]: [string, string], message: string, lengths: number[]): Promise<string> => {
    const dialog = open && performance.now() - begunAt < sessionMs ? open : await begin();
    // Only a session that survives all of this is reused.
    open = null;
    equal((await dialog.envelope(from, [to])).slice(0, 3), '354');
    for (const piece of cut(Buffer.from(`${message}\r\n.\r\n`, 'latin1'), lengths)) {
      dialog.send(piece.toString('latin1'));
      await turn();
    }
    const reply = await dialog.reply();
    // Anything taken for additional commands would be answered first.
    equal([await dialog.ask('RSET'), await dialog.ask('NOOP')], ['250 2.0.0 Flushed', '250 2.0.0 OK']);
    open = dialog;
    return reply;
  };
}

export const streams: Target = {
  name: 'streams',
  quick: 4,
  async open(place) {
    const { node, from, key } = await place.caller();
    const ports = await place.listeners();
    const count = async (subject: string) => {
      const found = await node.db.query({ text: 'SELECT 1 FROM emails WHERE subject = $1', values: [subject] });
      return found.length;
    };

    async function submit({ introduced, ...said }: Introduced): Promise<void> {
      // A message may be recorded after its client has gone.
      const subject = newId();
      const marked = Buffer.from(said.bytes.toString('latin1').replaceAll(usual, `Subject: ${subject}\r\n`), 'latin1');
      const socket = connectTls({ port: ports.submissions, host: '127.0.0.1', rejectUnauthorized: false });
      await once(socket, 'secureConnect');
      const heard = await converse(socket, introduced ? key : null, { ...said, bytes: marked });
      const told = heard.match(/^250 2\.0\.0 Ok: queued as /gm)?.length ?? 0;
      const made = await count(subject);
      hold(made <= (introduced ? ends(said) : 0) && told <= made, `${made} emails, but ${told} were confirmed`);
    }

    async function giveBack({ introduced, ...said }: Introduced): Promise<void> {
      const socket = connectTcp(ports.inbound, '127.0.0.1');
      await once(socket, 'connect');
      const bytes = introduced ? Buffer.concat([hello, said.bytes]) : said.bytes;
      const heard = await converse(socket, null, { ...said, bytes });
      const told = heard.match(/^250 2\.0\.0 taken/gm)?.length ?? 0;
      hold(told <= ends(said), `${told} messages were accepted`);
    }

    const test = place.closing as Parameters<typeof Dialog.open>[0];
    const submitting = dialogs(test, ports.submissions, key);
    const returning = dialogs(test, ports.inbound, null);

    async function submitOne(text: string, lengths: number[]): Promise<void> {
      const subject = newId();
      const header = `From: ${from}\r\nTo: a@b.test\r\nSubject: ${subject}\r\n\r\n`;
      const reply = await submitting([from, 'a@b.test'], header + text, lengths);
      const id = /^250 2\.0\.0 Ok: queued as (\S+)/.exec(reply)?.[1] ?? null;
      equal(await count(subject), id ? 1 : 0);
      if (holdsOddEnd(text)) hold(/^554 5\.6\.0 the message contains /.test(reply), `was answered with ${reply}`);
      if (!id) return;
      const [row] = await node.db.query<{ text: string | null }>({
        text: 'SELECT text FROM email_contents WHERE email_id = $1',
        values: [id],
      });
      // A text without any character is null.
      equal(row && (row.text ?? ''), unstuffed(text));
    }

    async function returnOne(text: string, lengths: number[]): Promise<void> {
      equal(await returning(['', returnPath(newId())], `Subject: s\r\n\r\n${text}`, lengths), '250 2.0.0 taken');
    }

    return {
      'submission: any bytes come to an end, and make no more emails than they end messages': fc.asyncProperty(
        sessions(from, 'a@b.test'),
        async (all) => void (await Promise.all(all.map(submit))),
      ),
      'submission: a message is taken whole or not at all, whatever in it looks like its end': fc.asyncProperty(
        content,
        lengths,
        submitOne,
      ),
      'what comes back: any bytes come to an end, and no more is taken than they end messages': fc.asyncProperty(
        sessions('mailer@mx.other.test', returnPath(newId())),
        async (all) => void (await Promise.all(all.map(giveBack))),
      ),
      'what comes back: a message ends where it is said to, whatever in it looks like its end': fc.asyncProperty(
        content,
        lengths,
        returnOne,
      ),
    };
  },
};
