import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Alone, at, change, healthy, memoryOf, withNodeAlone } from '../alone.ts';
import type { Scenario } from '../run.ts';

const samples = 300;
/** On an otherwise idle machine. */
const mostSlower = 1.2;

/** How long each of these calls of a healthy client takes, in ms; each must have its 200. */
async function callsOf({ node, key }: Alone, name: string, count: number): Promise<number[]> {
  const took: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const asked = performance.now();
    const { status, body } = await node.call('POST', '/api/v1/emails', { key, body: healthy(`${name}${n}`) });
    if (status !== 200) throw new Error(`a healthy call was answered with ${status} ${JSON.stringify(body)}`);
    took.push(performance.now() - asked);
  }
  return took;
}

const slow = 2_000;
const headersWithinMs = 15_000;

/** DOS-08: each connection sends a byte a second of a header or of a body, or nothing, or does not read. */
export const slowClients: Scenario = {
  name: 'slow-clients',
  what: `${slow} HTTP connections that send a byte a second, or nothing, and how long a healthy client's calls take meanwhile`,
  quick: 1,
  long: true,
  run: (run) =>
    withNodeAlone(run, {}, async (alone) => {
      const { node, key, figures, findings } = alone;
      await callsOf(alone, 'warm', 50);
      const before = await callsOf(alone, 'before', samples);
      const { port } = new URL(node.baseUrl);
      const open = new Set<Socket>();
      for (let n = 0; n < slow; n += 1) open.add(slowly(Number(port), n, key, (socket) => open.delete(socket)));
      await sleep(2_000);
      const during = await callsOf(alone, 'during', samples);
      const [control, beside] = [at(before, 0.5), at(during, 0.5)];
      figures['calls, ms, median (p95): alone'] = `${control.toFixed(1)} (${at(before, 0.95).toFixed(1)})`;
      figures['calls, ms, median (p95): with them'] =
        `${beside.toFixed(1)} (${at(during, 0.95).toFixed(1)}), ${change(control, beside)}`;
      if (beside > control * mostSlower)
        findings.push({
          rule: 'A10',
          what: `calls took ${change(control, beside)} with slow clients; was the machine idle?`,
        });
      figures['memory of the process, MB'] = await memoryOf(node.pid);
      // Clients that do not complete their header are disconnected; Node checks twice a minute.
      await sleep(headersWithinMs + 32_000);
      const left = [...open].filter((socket) => !socket.destroyed).length;
      figures['still connected after 50 s'] = left;
      // Those of one kind have sent their header, and have two minutes for the rest.
      if (left > slow / 4) findings.push({ rule: 'A10', what: `${left} of ${slow} slow clients are still connected` });
      for (const socket of open) socket.destroy();
    }),
};

function slowly(port: number, number: number, key: string, onClose: (socket: Socket) => void): Socket {
  const socket = connect(port, '127.0.0.1');
  const head = `POST /api/v1/emails HTTP/1.1\r\nHost: a\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n`;
  const said = ['', head.repeat(20), `${head}\r\n${' '.repeat(5_000)}`, 'x'.repeat(5_000)][number % 4] ?? '';
  let sent = number % 4 === 2 ? head.length + 2 : 0;
  socket.write(said.slice(0, sent));
  const timer = setInterval(() => socket.write(said.slice(sent, ++sent)), 1_000);
  socket.on('error', () => undefined);
  socket.on('close', () => {
    clearInterval(timer);
    onClose(socket);
  });
  socket.resume();
  return socket;
}

const large = 200;
const bodyMb = 28;

/** DOS-03: all at once, more than a process could hold. */
export const largeBodies: Scenario = {
  name: 'large-bodies',
  what: `${large} posts of ${bodyMb} MB at once: those without room get a 503 that says when to retry`,
  quick: 1,
  long: true,
  run: (run) =>
    withNodeAlone(run, {}, async (alone) => {
      const { node, figures, findings } = alone;
      await callsOf(alone, 'before', 20);
      const piece = Buffer.alloc(1024 * 1024, 'x');
      let most = 0;
      const watching = setInterval(async () => {
        most = Math.max(most, await memoryOf(node.pid));
      }, 100);
      const { port } = new URL(node.baseUrl);
      const began = performance.now();
      const all = await Promise.all(Array.from({ length: large }, () => post(Number(port), alone.key, piece)));
      clearInterval(watching);
      const tally = Map.groupBy(all, ({ status }) => status);
      for (const [status, answers] of tally) figures[`answered with ${status}`] = answers.length;
      figures['until the last answer, s'] = ((performance.now() - began) / 1_000).toFixed(1);
      figures['peak memory of the process, MB'] = most;
      await callsOf(alone, 'after', 20);
      const odd = all.filter(({ status, retryAfter }) => status !== '400' && !(status === '503' && retryAfter));
      if (odd.length > 0)
        findings.push({ rule: 'A10', what: `${odd.length} answers such as ${odd[0]?.status} without Retry-After` });
      if (most > 1_024) findings.push({ rule: 'A10', what: `the process took ${most} MB` });
    }),
};

/** JSON, but no email: it is read completely, if there is room, and refused. */
async function post(port: number, key: string, piece: Buffer): Promise<{ status: string; retryAfter: boolean }> {
  const socket = connect(port, '127.0.0.1');
  let heard = '';
  const answered = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      heard += chunk.toString('latin1');
      if (heard.endsWith('}')) resolve();
    });
    socket.on('error', () => undefined).once('close', () => resolve());
  });
  const head = `POST /api/v1/emails HTTP/1.1\r\nHost: a\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n`;
  socket.write(`${head}Content-Length: ${bodyMb * piece.length + 2}\r\n\r\n"`);
  for (let n = 0; n < bodyMb && !heard && !socket.destroyed; n += 1)
    if (!socket.write(piece))
      await Promise.race([new Promise<void>((resolve) => socket.once('drain', () => resolve())), answered]);
  if (!heard && !socket.destroyed) socket.write('"');
  await Promise.race([answered, sleep(60_000, undefined, { ref: false })]);
  socket.destroy();
  return { status: /^HTTP\/1\.1 (\d+)/.exec(heard)?.[1] ?? 'nothing', retryAfter: /^Retry-After: \d/im.test(heard) };
}
