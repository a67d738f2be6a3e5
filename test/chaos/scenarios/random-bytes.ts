import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { freePort } from '../../support/ports.ts';
import { at, change, healthy, memoryOf, withNodeAlone } from '../alone.ts';
import type { Random } from '../random.ts';
import type { Scenario } from '../run.ts';

/** In each round; twenty of them are the million of SMG-11. */
const inputs = 50_000;
/** Each from its own address, because one address may not have many connections. */
const clients = 400;
const samples = 50;
const lineFeed = 10;
const greetingMs = 500;
/** A reply is waited for this long: input that became a line of a message, or is incomplete on purpose, gets none. */
const patienceMs = 10;
const most = { memoryMb: 512 };
/** For each connection that was greeted; there are about eight, also on a busy machine, where most inputs come too late for one. */
const fewestReplies = 2;

interface Tally {
  sent: number;
  connections: number;
  answers: number;
  /** By port: how many connections were greeted, and the lines of replies to what these said then, but for a farewell. */
  greeted: Map<number, { connections: number; replies: number }>;
}

const verbs = [
  'EHLO',
  'MAIL FROM:',
  'RCPT TO:',
  'DATA',
  'BDAT',
  'AUTH PLAIN',
  'STARTTLS',
  'RSET',
  'XCLIENT',
  'VRFY',
  'HELP',
  'QUIT',
];

/**
 * SMG-11: whatever arrives is answered or disconnected; the process survives, keeps none of it and serves the others.
 */
export const randomInput: Scenario = {
  name: 'random-bytes',
  what: `${inputs} random inputs to each of the SMTP ports in turn, a million with --long`,
  quick: 1,
  long: true,
  async run(run) {
    const ports = [await freePort(), await freePort(), await freePort()];
    const [inbound, submission, submissions] = ports.map(String);
    const env = {
      SMTP_HOST: '127.0.0.1',
      INBOUND_SMTP_PORT: inbound,
      SUBMISSION_PORT: submission,
      SUBMISSIONS_PORT: submissions,
    };
    return withNodeAlone(run, env as Record<string, string>, async ({ node, key, token, figures, findings }) => {
      const callsOf = async (name: string) => {
        const took: number[] = [];
        for (let n = 0; n < samples; n += 1) {
          const asked = performance.now();
          const { status } = await node.call('POST', '/api/v1/emails', { key, body: healthy(`${name}${n}`) });
          if (status !== 200) findings.push({ rule: 'A10', what: `a healthy call was answered with ${status}` });
          took.push(performance.now() - asked);
        }
        return at(took, 0.5);
      };
      await callsOf('warm');
      const alone = await callsOf('alone');
      const began = performance.now();
      const tally: Tally = { sent: 0, connections: 0, answers: 0, greeted: new Map() };
      let during = 0;
      for (let round = 1; round <= run.rounds; round += 1) {
        run.say(`round ${round} of ${run.rounds}`);
        const all = Array.from({ length: clients }, (_, client) =>
          babble(run.random.fork(`${round} ${client}`), ports[(round + client) % ports.length] ?? 0, client, tally),
        );
        const calls = callsOf(`beside${round}.`);
        await Promise.all(all);
        during = Math.max(during, await calls);
      }
      figures.inputs = tally.sent;
      figures.connections = tally.connections;
      figures.replies = tally.answers;
      figures['inputs a second'] = Math.round(tally.sent / ((performance.now() - began) / 1_000));
      figures['calls of a healthy client, ms, median: alone'] = alone.toFixed(1);
      figures['the same beside them'] = `${during.toFixed(1)}, ${change(alone, during)}`;
      // With TLS from the start nothing is said.
      for (const port of ports.slice(0, 2)) {
        const { connections, replies } = tally.greeted.get(port) ?? { connections: 0, replies: 0 };
        if (connections === 0 || replies < connections * fewestReplies)
          findings.push({ rule: 'A10', what: `${replies} replies on ${connections} connections of port ${port}` });
      }
      const memory = await memoryOf(node.pid);
      figures['memory of the process at the end, MB'] = memory;
      if (memory > most.memoryMb) findings.push({ rule: 'A10', what: `the process has ${memory} MB` });
      const { body } = await node.call('GET', '/api/v1/emails?limit=1', { token });
      const asked = samples * (2 + run.rounds);
      if (body.count !== asked)
        findings.push({ rule: 'A4', what: `${body.count} emails, but ${asked} were requested` });
    });
  },
};

/** One client's share of a round: sends random input, and reconnects when it is disconnected. */
async function babble(random: Random, port: number, client: number, tally: Tally): Promise<void> {
  let left = Math.ceil(inputs / clients);
  while (left > 0) {
    const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.${1 + (client >> 2)}.${1 + (client & 3)}` });
    let wake = () => {};
    const woken = (withinMs: number) =>
      new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, withinMs);
      });
    socket.on('error', () => undefined);
    socket.on('drain', () => wake());
    let rest = '';
    socket.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\r\n');
      rest = lines.pop() ?? '';
      tally.answers += lines.length;
      const greeted = tally.greeted.get(port) ?? { connections: 0, replies: 0 };
      tally.greeted.set(port, greeted);
      greeted.connections += lines.filter((line) => line.startsWith('220 ')).length;
      greeted.replies += lines.filter((line) => !/^(?:220|421)/.test(line)).length;
      wake();
    });
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    void closed.then(() => wake());
    tally.connections += 1;
    // One in four does not wait for the greeting; with TLS from the start there is none.
    if (random.integer(4) > 0) await woken(greetingMs);
    // It counts as sent once written: even a server that disconnects at once has received one.
    for (let said = 0; left > 0 && (said === 0 || isOpen(socket)); said += 1) {
      const input = inputOf(random);
      const full = !socket.write(input);
      tally.sent += 1;
      left -= 1;
      if (full || input.at(-1) === lineFeed) await woken(patienceMs);
    }
    socket.end();
    setTimeout(() => socket.destroy(), 200).unref();
    await closed;
  }
}

const isOpen = (socket: Socket) => !socket.destroyed && socket.writable && !socket.readableEnded;

/** Random bytes, bytes that end a line, and input that begins like a command. */
function inputOf(random: Random): Buffer {
  const bytes = randomBytes(1 + random.integer(200));
  const kind = random.integer(3);
  if (kind === 0) return bytes;
  const end = Buffer.from('\r\n');
  return Buffer.concat(kind === 1 ? [bytes, end] : [Buffer.from(`${random.pick(verbs)} `), bytes, end]);
}
