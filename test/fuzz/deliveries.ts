import fc from 'fast-check';
import { type Delivery, deliver, type RecipientResult } from '../../src/smtp/deliver.ts';
import { createTransport, type Transport } from '../../src/smtp/transport.ts';
import { type Peer, startScriptedMx } from '../support/mx.ts';
import { startZone } from '../support/zone.ts';
import type { Closing, Target } from './target.ts';
import { equal, hold } from './texts.ts';

const hosts = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];

/**
 * A host's reply to a command instead of success; `close`: none, it disconnects; `lost`: it accepts the message, and
 * does not answer.
 */
const others = [
  '250 ok\r\n421 4.7.0 enough',
  '299 odd',
  '421 4.7.0 closing',
  '450 4.2.0 greylisted',
  '451 4.3.0 local error',
  '451 4.7.1 rate limit exceeded, try again later',
  '452 4.5.3 too many recipients',
  '550 5.1.1 no such user',
  '552 too many recipients',
  '554 5.7.1 too many messages for this connection',
  'close',
  'lost',
] as const;
const yes = 'yes';

const atMost = fc.option(fc.integer({ min: 1, max: 3 }), { nil: null });

/** A host: its extensions, and its replies to connections and commands in order; after them, success. */
const someHost = fc.record({
  preference: fc.constantFrom(10, 20),
  hasAddress: fc.constantFrom(true, true, true, false),
  mails: atMost,
  recipients: atMost,
  pipelining: fc.boolean(),
  smtpUtf8: fc.boolean(),
  greetings: fc.array(fc.constantFrom(yes, yes, '421 4.7.0 too busy', 'close'), { maxLength: 4 }),
  answers: fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(yes) }, fc.constantFrom(...others)), {
    maxLength: 15,
  }),
});
type Host = typeof someHost extends fc.Arbitrary<infer One> ? One : never;

const isGood = (said: string, good: string) => said === yes || (said.startsWith('2') && good.startsWith('2'));

/** An email: its recipients, and which of them have a non-ASCII name. */
const email = fc.array(fc.boolean(), { minLength: 1, maxLength: 5 });
const limits = fc.record({ connections: fc.integer({ min: 1, max: 2 }), perConnection: atMost });

/** What the hosts saw in one try. */
class Seen {
  readonly hosts: Host[];
  readonly #said = new Map<unknown, number>();
  /** How often a message arrived for a recipient, recognized by the sender that each has. */
  readonly taken = new Map<string, number>();
  readonly broken: string[] = [];
  connections = 0;

  constructor(hosts: Host[]) {
    this.hosts = hosts;
  }

  next(answers: readonly string[]): string {
    const at = this.#said.get(answers) ?? 0;
    this.#said.set(answers, at + 1);
    return answers[at] ?? yes;
  }

  take(from: string, to: string[]): void {
    for (const one of to) this.taken.set(`${from} ${one}`, (this.taken.get(`${from} ${one}`) ?? 0) + 1);
  }
}

/** Follows the host's script, counts, and disconnects when told to. */
async function converse(peer: Peer, host: Host, seen: Seen): Promise<void> {
  seen.connections += 1;
  // Replies to pipelined commands would wait 40 ms for each other.
  peer.socket.setNoDelay(true);
  const greeting = seen.next(host.greetings);
  if (greeting !== yes) return hangUp(peer, greeting);
  const { mails, recipients, pipelining, smtpUtf8 } = host;
  const offered = [mails && `MAILMAX=${mails}`, recipients && `RCPTMAX=${recipients}`].filter(Boolean);
  await peer.greet(
    ...[`LIMITS ${offered.join(' ')}`, pipelining ? 'PIPELINING' : 'X-NONE', smtpUtf8 ? 'SMTPUTF8' : 'X-ASCII'],
  );
  let [messages, asked] = [0, 0];
  let from: string | null = null;
  let to: string[] = [];
  const reset = () => {
    [from, to, asked] = [null, [], 0];
  };
  /** True if it accepted, and is still there. */
  const answer = (good: string, take = () => {}) => {
    const said = seen.next(host.answers);
    if (isGood(said, good) || said === 'lost') take();
    if (said === 'lost' || said === 'close' || said.includes('421')) return hangUp(peer, said.replace('250 ok', good));
    peer.send(`${said === yes ? good : said}\r\n`);
    return isGood(said, good);
  };
  for (;;) {
    const line = await peer.line();
    const [, address = ''] = /<(.*)>/.exec(Buffer.from(line, 'latin1').toString()) ?? [];
    if (line === 'QUIT') return hangUp(peer, '221 bye');
    if (line === 'RSET') {
      reset();
      answer('250 ok');
    } else if (line.startsWith('MAIL')) {
      reset();
      messages += 1;
      if (mails !== null && messages > mails) seen.broken.push(`${messages} messages of ${mails}`);
      if (answer('250 ok')) from = address;
    } else if (line.startsWith('RCPT')) {
      asked += 1;
      if (recipients !== null && asked > recipients) seen.broken.push(`${asked} recipients of ${recipients}`);
      if (!smtpUtf8 && /[^\x00-\x7f]/.test(address)) seen.broken.push(`${address} without SMTPUTF8`);
      if (from === null) peer.send('503 5.5.1 no sender\r\n');
      else if (answer('250 ok')) to.push(address);
    } else if (from === null || to.length === 0) {
      peer.send('503 5.5.1 nobody to send to\r\n');
    } else if (answer('354 go on')) {
      await peer.until('\r\n.\r\n');
      const [sender, readers] = [from, to];
      answer('250 ok', () => seen.take(sender, readers));
      reset();
    }
  }
}

function hangUp(peer: Peer, words: string): never {
  peer.socket.end(words === 'close' || words === 'lost' ? '' : `${words}\r\n`);
  throw new Error('it disconnected');
}

/** Servers on three addresses; their replies differ in each try. */
async function openHosts(closing: Pick<Closing, 'teardown'>) {
  let seen = new Seen([]);
  let port = 0;
  const zone = await startZone(
    Object.fromEntries(hosts.map((address, at) => [`mx${at}.test`, { A: [address] }] as const)),
  );
  closing.teardown(() => zone.close());
  for (const [at, host] of hosts.entries()) {
    const script = (peer: Peer) => {
      const found = seen.hosts[at];
      return found ? converse(peer, found, seen) : hangUp(peer, 'close');
    };
    const server = await startScriptedMx(script, { host, port });
    closing.teardown(() => server.close());
    ({ port } = server);
  }
  return async (found: Host[], work: (transport: Transport, seen: Seen) => Promise<void>) => {
    seen = new Seen(found);
    const nameOf = ({ hasAddress }: Host, at: number) => (hasAddress ? `mx${at}.test` : `none${at}.test`);
    zone.set('a.test', { MX: found.map((host, at) => [host.preference, nameOf(host, at)]) });
    const options = { ehloName: 'out.test', resolver: zone.resolver, mxPort: port, allowPrivate: true };
    // If all draw the same, equal hosts come in the order in which they are written.
    const transport = createTransport({ ...options, random: () => 0 });
    await work(transport, seen);
    await transport.close();
  };
}

const message = [Buffer.from('From: a@out.test\r\nSubject: s\r\n\r\nHello.\r\n')];

/** Whether there was a reason to fail for good: a refusal, or that no host can ever take it. */
function isGrounded({ phase, reply }: RecipientResult, recipient: string, hosts: Host[]): boolean {
  if (phase === 'dns') return !hosts.some(({ hasAddress }) => hasAddress);
  if (phase === 'local') return recipient.startsWith('ü') && hosts.some(({ smtpUtf8 }) => !smtpUtf8);
  return reply !== null && reply.code >= 500;
}

function holdOutcomes({ sessions }: Delivery, to: string[], from: string, { taken, hosts }: Seen): void {
  for (const one of to) {
    const results = sessions.flatMap(({ results }) => results.filter(({ recipient }) => recipient === one));
    const last = results.at(-1);
    if (!last) throw new Error('there is no outcome for a recipient');
    const times = taken.get(`${from} ${one}`) ?? 0;
    if (last.uncertain) hold(times <= 1, `it may have arrived once, but arrived ${times} times`);
    else equal(times, last.outcome === 'delivered' ? 1 : 0);
    hold(
      results
        .slice(0, -1)
        .every(({ outcome, uncertain, phase }) => phase === 'local' || (outcome === 'deferred' && !uncertain)),
      'it was retried although it was settled',
    );
    if (last.outcome === 'bounced') hold(isGrounded(last, one, hosts), `it bounced: ${last.reason}`);
  }
}

export const deliveries: Target = {
  name: 'deliveries',
  quick: 60,
  async open({ closing }) {
    const withHosts = await openHosts(closing);
    return {
      'whatever hosts say, an email arrives exactly where it is reported delivered, once, and within their limits and ours':
        fc.asyncProperty(
          fc.array(someHost, { minLength: 1, maxLength: hosts.length }),
          fc.array(email, { minLength: 1, maxLength: 5 }),
          limits,
          async (found, emails, site) => {
            await withHosts(found, async (transport, seen) => {
              for (const [at, readers] of emails.entries()) {
                const from = `m${at}@out.test`;
                const to = readers.map((isAscii, n) => `${isAscii ? 'r' : 'ü'}${n}@a.test`);
                const before = seen.connections;
                const delivery = await deliver(transport, {
                  ...{ destination: 'a.test', envelope: { from, recipients: to, smtpUtf8: false }, message },
                  beforeDot: () => true,
                  site: { name: 'a.test', ...site },
                });
                holdOutcomes(delivery, to, from, seen);
                const dialled = seen.connections - before;
                hold(dialled <= to.length + hosts.length, `${dialled} connections for ${to.length} recipients`);
                hold(transport.pool.size <= site.connections, `${transport.pool.size} connections are idle`);
              }
              equal(seen.broken, []);
            });
            return true;
          },
        ),
    };
  },
};
