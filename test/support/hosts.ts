import { type Peer, type ScriptedMx, startScriptedMx } from './mx.ts';
import type { ZoneEntry } from './zone.ts';

type Reply = string | null | undefined;

/** Makes a reply from a command's address; undefined is the usual reply, null is none. */
export type Answer = (address: string, peer: Peer, sender: string) => Reply | Promise<Reply>;

type Say = string | Answer;

/** A host's unusual answers. */
export interface Answers {
  greeting?: Say;
  EHLO?: Say;
  HELO?: Say;
  MAIL?: Say;
  RCPT?: Say;
  DATA?: Say;
  /** Runs after the 354, before the message is read. */
  reading?: (peer: Peer) => unknown;
  dot?: Say;
}

/** One message as far as a host received it, whatever it answered. */
export interface Copy {
  from: string;
  to: string[];
  content: string;
  client: string;
}

export interface Host extends ScriptedMx {
  copies: Copy[];
  /** Each recipient that it was asked about. */
  asked: string[];
}

/** Replies with this the first few times, and as usual from then on. */
export function first(say: Say, times = 1): Answer {
  let left = times;
  return (...asked) => {
    left -= 1;
    if (left < 0) return undefined;
    return typeof say === 'function' ? say(...asked) : say;
  };
}

/**
 * Hosts on their own loopback addresses, from `127.0.0.11` on, all with the same port, and the zone that leads to them:
 * `mx.<name>.test` is the host, and the only MX of `<name>.test`.
 */
export async function startHosts<Name extends string>(
  t: { teardown(work: () => Promise<void>): void },
  answers: Record<Name, Answers>,
): Promise<{ port: number; zone: Record<string, ZoneEntry>; hosts: Record<Name, Host> }> {
  const hosts: Record<string, Host> = {};
  const zone: Record<string, ZoneEntry> = {};
  let port = 0;
  for (const [name, each] of Object.entries<Answers>(answers)) {
    const address = `127.0.0.${11 + Object.keys(hosts).length}`;
    const copies: Copy[] = [];
    const asked: string[] = [];
    const mx = await startScriptedMx((peer) => converse(peer, each, { copies, asked }), { host: address, port });
    t.teardown(() => mx.close());
    port = mx.port;
    hosts[name] = { ...mx, copies, asked };
    zone[`mx.${name}.test`] = { A: [address] };
    zone[`${name}.test`] = { MX: [[10, `mx.${name}.test`]] };
  }
  return { port, zone, hosts: hosts as Record<Name, Host> };
}

async function converse(
  peer: Peer,
  answers: Answers,
  { copies, asked }: Pick<Host, 'copies' | 'asked'>,
): Promise<void> {
  let sender = '';
  let to: string[] = [];
  const say = async (what: Say | undefined, usual: string, address = ''): Promise<boolean> => {
    const reply = typeof what === 'function' ? await what(address, peer, sender) : what;
    if (reply !== null) peer.send(`${reply ?? usual}\r\n`);
    return (reply ?? usual) === usual;
  };
  await say(answers.greeting, '220 host ESMTP');
  for (;;) {
    const line = await peer.line();
    const address = /<(.*)>/.exec(line)?.[1] ?? '';
    switch (line.split(' ')[0]) {
      case 'QUIT':
        peer.socket.end('221 bye\r\n');
        return;
      case 'EHLO':
        await say(answers.EHLO, '250 host');
        break;
      case 'HELO':
        await say(answers.HELO, '250 host');
        break;
      case 'MAIL':
        sender = address;
        to = [];
        await say(answers.MAIL, '250 ok');
        break;
      case 'RCPT':
        asked.push(address);
        if (await say(answers.RCPT, '250 ok', address)) to.push(address);
        break;
      case 'DATA':
        if (!(await say(answers.DATA, '354 go'))) break;
        answers.reading?.(peer);
        copies.push({
          from: sender,
          to,
          content: await peer.until('\r\n.\r\n'),
          client: peer.socket.remoteAddress ?? '',
        });
        await say(answers.dot, '250 ok');
        break;
      default:
        peer.send('250 ok\r\n');
    }
  }
}
