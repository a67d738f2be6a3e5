import { once } from 'node:events';
import net from 'node:net';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import Koa from 'koa';
import t from 'tap';
import { listen } from '../../src/http/server.ts';
import { eventually } from '../support/node.ts';

const patience = { headersMs: 600, requestMs: 3_500, checkedEveryMs: 20, lingerMs: 100, takingMs: 60_000 };

t.test('a client that lets a request trickle is hung up on, and keeps nobody else waiting: DOS-08', async (t) => {
  const app = new Koa();
  let read = 0;
  app.use(async (ctx) => {
    const { length } = await buffer(ctx.req);
    read += 1;
    ctx.body = { length };
  });
  // How an aborted request ends does not matter here.
  app.on('error', () => {});
  const server = await listen(app, '127.0.0.1', 0, { patience });
  t.teardown(() => server.close(0));

  /** Sends this, then a character now and then for as long as it can, or once it is answered; it never closes its side. */
  const trickle = async (begin: string, goesOn = true) => {
    const socket = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    const began = performance.now();
    let answer = '';
    let answeredAfter = 0;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      answeredAfter ||= performance.now() - began;
      answer += chunk;
    });
    socket.write(begin);
    const timer = setInterval(() => {
      if (goesOn || answer !== '') socket.write('x');
    }, 20);
    // A client that writes nothing never notices that the server is gone.
    await new Promise((resolve) => socket.once(goesOn ? 'close' : 'end', resolve));
    clearInterval(timer);
    return { answer, answeredAfter, closedAfter: performance.now() - began };
  };
  const head = 'POST / HTTP/1.1\r\nHost: x\r\n';
  let posts = 0;
  // Again if the machine stood still until it was too late as well.
  const post = () =>
    eventually(async () => {
      const answer = await fetch(`http://127.0.0.1:${server.port}`, { method: 'POST', body: 'xyz' }).catch(() => null);
      if (!answer?.ok) return null;
      posts += 1;
      return answer.json();
    });
  const once = async () => {
    const slow = Promise.all([
      trickle(`${head}X-Slow: `),
      trickle(`${head}Content-Length: 1000\r\n\r\n`),
      trickle('', false),
    ]);
    t.same(await post(), { length: 3 });
    const [header, body, nothing] = await slow;
    const before = body.answeredAfter - 500;
    return { header, body, nothing, inTurn: header.answeredAfter < before && nothing.closedAfter < before };
  };
  let seen = await once();
  // Again if the machine stood still until all were too late.
  for (let again = 0; again < 4 && !seen.inTurn; again += 1) seen = await once();
  const { header, body, nothing, inTurn } = seen;
  for (const { answer } of [header, body])
    t.match(
      answer,
      /^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*Connection: close\r\n\r\n\{"error":"invalid request","detail":"the request[^"]*in time"\}$/,
    );
  t.ok(body.answeredAfter > 3_000, `a body gets more time: ${body.answeredAfter} ms`);
  t.ok(header.answeredAfter > 550 && inTurn, `${header.answeredAfter} ms`);
  t.equal(nothing.answer, '', 'a browser would take it for the answer to its next request');
  t.ok(nothing.closedAfter > 550 && inTurn, `${nothing.closedAfter} ms`);
  t.same(await post(), { length: 3 });
  t.equal(read, posts, 'only complete requests');
});

t.test('an unread answer is given up, but not one that is read or made slowly: DOS-08', async (t) => {
  const app = new Koa();
  const size = 64 * 1024 * 1024;
  const ended: Record<string, boolean> = {};
  app.use(async (ctx) => {
    const { path } = ctx;
    ctx.res.once('close', () => {
      ended[path] = ctx.res.writableFinished;
    });
    if (path === '/silent') await pause(5_000);
    // One that says something and then nothing for a while, as events do.
    if (path === '/events') ctx.body = Readable.from(events());
    else ctx.body = path === '/silent' ? 'at last' : Buffer.alloc(size, 'x');
  });
  app.on('error', () => {});
  // A busy machine may take a while to use a connection that it has made.
  const server = await listen(app, '127.0.0.1', 0, {
    patience: { ...patience, headersMs: 30_000, requestMs: 60_000, takingMs: 4_000 },
  });
  t.teardown(() => server.close(0));
  const open = async (path: string, version = '1.1') => {
    const socket = net.connect({ port: server.port, host: '127.0.0.1' });
    t.teardown(() => socket.destroy());
    socket.on('error', () => {}).write(`GET ${path} HTTP/${version}\r\nHost: x\r\n\r\n`);
    return socket.pause();
  };
  const fetched = async (path: string) => (await fetch(`http://127.0.0.1:${server.port}${path}`)).text();

  /** Whether the whole answer arrives at a client that reads a little of it now and then. */
  const readSlowly = async (path: string) => {
    const slow = await open(path);
    let taken = 0;
    slow.on('data', (chunk) => {
      taken += chunk.length;
    });
    slow.pause();
    const reading = setInterval(() => {
      slow.resume();
      setTimeout(() => slow.pause(), 5);
    }, 100);
    t.teardown(() => clearInterval(reading));
    await eventually(async () => ended[path] !== undefined, 240_000);
    if (ended[path]) await eventually(async () => taken > size);
    return ended[path] ?? false;
  };

  await open('/unread');
  const old = await open('/old', '1.0');
  let slow = readSlowly('/slow');
  t.strictSame(await Promise.all(['/silent', '/events'].map(fetched)), ['at last', 'one, two']);
  await eventually(async () => ended['/unread'] !== undefined);
  t.equal(ended['/unread'], false);
  await eventually(async () => ended['/old'] !== undefined);
  await t.rejects(once(old.resume(), 'end'), { code: 'ECONNRESET' }, 'no client takes a part of it for all');
  // Again if the machine stood still until it looked like one that does not read.
  for (let again = 0; again < 4 && !(await slow); again += 1) slow = readSlowly(`/slow-${again}`);
  t.ok(await slow);
});

t.test(
  'a connection with a hundred requests that wait for answers may go on, and one with more is hung up on: DOS-08',
  async (t) => {
    const app = new Koa();
    let begun = 0;
    const answers = Promise.withResolvers<void>();
    app.use(async (ctx) => {
      begun += 1;
      await answers.promise;
      ctx.body = 'answered';
    });
    app.on('error', () => {});
    const server = await listen(app, '127.0.0.1', 0, {
      patience: { ...patience, headersMs: 30_000, requestMs: 60_000 },
    });
    t.teardown(() => server.close(0));
    const ask = (count: number) => {
      const socket = net.connect({ port: server.port, host: '127.0.0.1' });
      t.teardown(() => socket.destroy());
      socket.on('error', () => {}).write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count));
      return socket;
    };
    const answered = async (socket: net.Socket, count: number) => {
      let text = '';
      for await (const chunk of socket) {
        text += chunk;
        if (text.split('answered').length > count) break;
      }
      return text.split('answered').length - 1;
    };

    const greedy = ask(20_000);
    greedy.resume();
    await new Promise((resolve) => greedy.once('close', resolve));
    t.equal(begun, 100);
    const patient = ask(100);
    await eventually(async () => begun === 200);
    answers.resolve();
    t.equal(await answered(patient, 100), 100);
    const served = ask(1);
    // One after the other, as many as it likes.
    for (let at = 1; at < 300; at += 1) {
      await once(served, 'data');
      served.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    }
    t.equal(await answered(served, 1), 1);
  },
);

async function* events(): AsyncGenerator<string, void> {
  yield 'one, ';
  await pause(5_000);
  yield 'two';
}

t.test('clients that open connections without end leave files for the mail, and are turned away: DOS-08', async (t) => {
  let turnedAway = 0;
  const onTurnedAway = () => {
    turnedAway += 1;
  };
  const server = await listen(new Koa(), '127.0.0.1', 0, { most: 3, onTurnedAway });
  t.teardown(() => server.close(0));
  const dial = async () => {
    const socket = net.connect({ port: server.port, host: '127.0.0.1' }).on('error', () => {});
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    return socket.resume();
  };
  const [first] = [await dial(), await dial(), await dial()];
  const more = await dial();
  if (!more.closed) await once(more, 'close');
  t.equal(turnedAway, 1);
  first.destroy();
  const answer = await eventually(async () => {
    const { status } = await fetch(`http://127.0.0.1:${server.port}`).catch(() => ({ status: null }));
    return status;
  });
  t.equal(answer, 404, 'once another connection has ended there is room');
});
