import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { createResolver } from '../../src/smtp/dns/resolver.ts';
import { post } from '../../src/webhooks/post.ts';
import { startHook } from '../support/hook.ts';

const poster = { resolver: createResolver(['127.0.0.1:9']), allowPrivate: true, timeoutMs: 1_000 };
const body = Buffer.from('{}');
const send = (url: string) => post(poster, { url, headers: {}, body }, new AbortController().signal);

/** An endpoint that begins like this and then repeats itself as long as anybody listens; and how much it has sent. */
async function startTalker(t: Test, head: string, more: string) {
  let bytes = 0;
  const sockets: Socket[] = [];
  const chunk = Buffer.from(more.repeat(Math.ceil(65_536 / more.length)));
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write(head);
      const talk = () => {
        while (socket.writable) {
          bytes += chunk.length;
          if (!socket.write(chunk)) return;
        }
      };
      socket.on('drain', talk);
      talk();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, said: () => bytes };
}

const mostBytes = 16 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What is in use, without garbage. */
function heap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

t.test('DOS-14: an endless answer is read for a moment only', async (t) => {
  const ok = 'HTTP/1.1 200 OK\r\n';
  const talkers: [what: string, head: string, more: string, status: number | null][] = [
    ['one header line', `${ok}X: `, 'x', null],
    ['header lines', ok, 'X-More: xxxxxxxxxxxxxxxx\r\n', null],
    ['names of headers', ok, 'x', null],
    ['the reason', 'HTTP/1.1 200 ', 'O', null],
    ['a body', `${ok}\r\n`, 'x', 200],
    ['a body that was to be short', `${ok}Content-Length: 3\r\n\r\n`, 'x', 200],
    ['chunks', `${ok}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n', 200],
    ['an extension of a chunk', `${ok}Transfer-Encoding: chunked\r\n\r\n1;`, 'x', 200],
    ['trailers', `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n`, 'X: x\r\n', 200],
    ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\nX: x\r\n\r\n', null],
    ['nothing of HTTP', '', '\0', null],
  ];
  for (const [what, head, more, status] of talkers) {
    const { url, said } = await startTalker(t, head, more);
    let saidBefore = 0;
    let answer = await send(url);
    // Tried again if the machine stood still meanwhile.
    for (let again = 0; again < 4 && (answer.status !== status || answer.durationMs >= 2_500); again += 1) {
      saidBefore = said();
      answer = await send(url);
    }
    t.equal(answer.status, status, `${what}: ${answer.error}`);
    t.ok((answer.body?.length ?? 0) <= 2_048, what);
    t.ok(answer.durationMs < 2_500, `${what}: ${answer.durationMs} ms`);
    t.ok(said() - saidBefore < mostBytes, `${what}: ${said()} bytes`);
  }
});

t.test('DOS-14: a flood of interim answers ends the call, a few do not', async (t) => {
  const interim = 'HTTP/1.1 102 Processing\r\n\r\n';
  const { url } = await startTalker(t, '', interim);
  t.match(await send(url), { status: null, error: 'there were too many interim answers' });
  const patient = await startTalker(t, `${interim.repeat(50)}HTTP/1.1 204 No Content\r\n\r\n`, ' ');
  t.match(await send(patient.url), { status: 204, error: null });
});

t.test('DOS-14: answers in chunks of one octet take little memory', async (t) => {
  const calls = 20;
  const answers: Socket[] = [];
  const server = createServer((socket) => answers.push(socket.on('error', () => {}))).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of answers) socket.destroy();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const patient = { ...poster, timeoutMs: 60_000 };
  const end = new AbortController();
  const answering = Array.from({ length: calls }, () => post(patient, { url, headers: {}, body }, end.signal));
  while (answers.length < calls) await sleep(10);
  const before = heap();
  // A little less than is read, and then nothing, so that all of it is kept at the same time.
  const chunks = '1\r\nx\r\n'.repeat(10_000);
  for (const socket of answers) socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
  while (answers.some(({ writableLength }) => writableLength > 0)) await sleep(10);
  await sleep(500);
  const grown = heap() - before;
  t.ok(grown < 20_000_000, `${Math.round(grown / 1e6)} MB`);
  end.abort();
  for (const answer of await Promise.all(answering)) t.match(answer, { status: 200, body: /^x{2048}$/ });
});

t.test('DOS-14, SSRF-05: of a thousand redirects none is followed', async (t) => {
  const hook = await startHook(t, (_call, number) => ({ status: 302, headers: { Location: `/${number + 1}` } }));
  t.match(await send(hook.url), { status: 302, error: /redirects are not followed/ });
  t.equal(hook.calls.length, 1);
});
