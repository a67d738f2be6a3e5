import fc from 'fast-check';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import type { Resolver } from '../../src/smtp/dns/resolver.ts';
import { ReplyParser } from '../../src/smtp/replies/reply.ts';
import { resultOf, startScripted } from '../smtp/scene.ts';
import type { Peer } from '../support/mx.ts';
import type { Target } from './target.ts';
import { cut, equal, hold, lengths } from './texts.ts';

function feed(chunks: Buffer[]) {
  const parser = new ReplyParser();
  const replies = chunks.flatMap((chunk) => parser.feed(chunk));
  return { replies, error: parser.error !== null, empty: parser.empty };
}

const noise = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          '250 ok\r\n',
          '250-',
          '250-a\n',
          '354 ',
          '\r\n',
          '\n',
          '\r',
          '5.1.1 ',
          '999 ',
          '\0',
          'x'.repeat(5_000),
        )
        .map((text) => Buffer.from(text)),
    ),
    { maxLength: 40 },
  )
  .map((pieces) => Buffer.concat(pieces));

const code = fc.integer({ min: 200, max: 599 });
const word = fc
  .string({ unit: fc.constantFrom(...'abc 0159.-<>@é'), maxLength: 60 })
  // It would rightly be taken for an enhanced code.
  .filter((text) => !/^\s*\d\.\d/.test(text));
const reply = fc.record({
  code,
  enhanced: fc.option(fc.tuple(fc.constantFrom(2, 4, 5), fc.nat(99), fc.nat(99)), { nil: null }),
  texts: fc.array(word, { minLength: 1, maxLength: 6 }),
  end: fc.constantFrom('\r\n', '\n'),
});

interface Written {
  code: number;
  enhanced: [number, number, number] | null;
  texts: string[];
  end: string;
}

function write({ code, enhanced, texts, end }: Written): string {
  const status = enhanced ? `${enhanced.join('.')} ` : '';
  return texts.map((text, at) => `${code}${at < texts.length - 1 ? '-' : ' '}${status}${text}${end}`).join('');
}

const squeeze = (text: string) => text.replaceAll(/\s+/g, ' ').trim();

/** A server's replies to each command, and the point where it falls silent and disconnects. */
type Says = Record<'mail' | 'rcpt' | 'data' | 'dot', Written>;
const says = fc.record({ mail: reply, rcpt: reply, data: reply, dot: reply });

/** A server that would accept mail, except for its reply to one command or another. */
const good: Written = { code: 250, enhanced: null, texts: ['ok'], end: '\r\n' };
const mostlyGood = fc.tuple(says, fc.subarray(['mail', 'rcpt', 'data', 'dot'] as const)).map(([said, odd]): Says => {
  const usual: Says = { mail: good, rcpt: good, data: { ...good, code: 354 }, dot: good };
  for (const at of odd) usual[at] = said[at] as Written;
  return usual;
});

/** A lookup that never waits: on a busy machine a late answer would become the verdict. */
const resolver: Resolver = {
  resolveMx: async () => [{ exchange: 'mx.example.test', priority: 10 }],
  resolve4: async () => ['127.0.0.1'],
  resolve6: async () => [],
  resolveTxt: async () => [],
  resolve: async () => [],
};

/** Answers everything on one connection, one message after another. */
async function speak(peer: Peer, said: () => Says): Promise<void> {
  await peer.greet();
  for (;;) {
    const verb = (await peer.line()).split(/[ :]/)[0];
    if (verb === 'QUIT') {
      peer.socket.end('221 bye\r\n');
      return;
    }
    const now = said();
    if (verb === 'MAIL') peer.send(write(now.mail));
    else if (verb === 'RCPT') peer.send(write(now.rcpt));
    else if (verb === 'DATA') peer.send(write(now.data));
    else peer.send('250 ok\r\n');
    if (verb !== 'DATA' || now.data.code !== 354) continue;
    await peer.until('\r\n.\r\n');
    peer.send(write(now.dot));
  }
}

/** @throws Error if the verdict differs from the class of the code that decided */
function isOfItsClass({ outcome, reply, phase, reason }: RecipientResult, said: Says): void {
  const all = [said.mail, said.rcpt, said.data, said.dot].map(({ code }) => code);
  const accepts = all.slice(0, 2).every((one) => one < 300) && all[2] === 354 && (all[3] ?? 0) < 300;
  hold((outcome === 'delivered') === accepts, `is ${outcome} at ${phase}: ${reason}`);
  if (outcome === 'delivered') {
    equal([phase, reply?.code], ['dot', all[3]]);
    return;
  }
  const kind = Math.floor((reply?.code ?? 0) / 100);
  hold(reply !== null && all.includes(reply.code), 'was decided by a code that nobody sent');
  equal(outcome, kind === 5 ? 'bounced' : 'deferred');
}

export const replies: Target = {
  name: 'replies',
  async open({ closing }) {
    let said: Says = { mail: good, rcpt: good, data: good, dot: good };
    // A scene takes a whole test, but uses it only for closing.
    const { send } = await startScripted(
      closing as Parameters<typeof startScripted>[0],
      (peer) => speak(peer, () => said),
      { resolver },
    );
    return {
      'bytes in pieces are read as in one': fc.property(noise, lengths, (bytes, lengths) => {
        equal(feed(cut(Buffer.from(bytes), lengths)), feed([bytes]));
        return true;
      }),
      'replies are read as they were written': fc.property(
        fc.array(reply, { minLength: 1, maxLength: 5 }),
        lengths,
        (written, lengths) => {
          const wire = Buffer.from(written.map(write).join(''));
          const { replies, error, empty } = feed(cut(wire, lengths));
          equal([error, empty], [false, true]);
          equal(
            replies.map(({ reply }) => [reply.code, squeeze(reply.text)]),
            written.map(({ code, enhanced, texts }) => {
              const own = enhanced && enhanced[0] === Math.floor(code / 100);
              const status = enhanced && !own ? `${enhanced.join('.')} ` : '';
              return [code, squeeze(texts.map((text) => status + text).join(' '))];
            }),
          );
          return true;
        },
      ),
      'however long a server goes on, no more than one reply of it is kept': fc.property(
        fc.constantFrom('x', '250-', '250-a\r\n', '\r', '250-\n', `250-${'y'.repeat(900)}\n`),
        fc.integer({ min: 1, max: 70_000 }),
        (unit, size) => {
          const parser = new ReplyParser();
          const chunk = Buffer.from(unit.repeat(Math.ceil(size / unit.length)));
          let sent = 0;
          for (; sent < 300_000 && parser.error === null; sent += chunk.length) parser.feed(chunk);
          hold(parser.error !== null && sent <= 80_000 + chunk.length, `${sent} bytes were accepted`);
          equal(parser.feed(Buffer.from('250 ok\r\n')), []);
          return true;
        },
      ),
      'a verdict has the class of the code that decided it': fc.asyncProperty(mostlyGood, async (one) => {
        said = one;
        isOfItsClass(resultOf(await send()), said);
      }),
    };
  },
};
