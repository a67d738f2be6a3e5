import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Writable } from 'node:stream';

/**
 * Receiving servers and endpoints that are slow, endless or lie, in their own process so that they do not slow down
 * what is measured: `node test/chaos/crowd.ts <address> <SMTP port>`. It prints `{endpoints: port}` when it is up, and
 * then four times a second the number of connections of each kind.
 */

const [address = '127.0.0.2', port = '0'] = process.argv.slice(2);
const held = { servers: new Set<Socket>(), endpoints: new Set<Socket>() };

const hold = (kind: keyof typeof held, socket: Socket) => {
  held[kind].add(socket);
  socket.on('error', () => undefined).on('close', () => held[kind].delete(socket));
};

/** Sends it in pieces with a pause between them, over and over with `endless`, as long as somebody listens. */
function trickle(socket: Writable, pieces: Iterable<string>, everyMs: number): void {
  const rest = pieces[Symbol.iterator]();
  const timer = setInterval(() => {
    const { value, done } = rest.next();
    if (done) clearInterval(timer);
    else socket.write(value);
  }, everyMs);
  socket.once('close', () => clearInterval(timer));
}

function* endless(text: string): Generator<string> {
  for (;;) yield text;
}

/** Answers each line, and the end of a message, with this function. */
function answers(socket: Socket, reply: (line: string, inMessage: boolean) => void): void {
  let inMessage = false;
  let rest = '';
  socket.on('data', (chunk) => {
    const lines = (rest + chunk.toString('latin1')).split('\r\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (inMessage && line !== '.') continue;
      reply(line, inMessage);
      inMessage = line === 'DATA';
    }
  });
}

const say = (socket: Socket, text: string, afterMs = 0) => setTimeout(() => socket.write(`${text}\r\n`), afterMs);

const servers: ((socket: Socket) => void)[] = [
  // Never says a word.
  () => undefined,
  // A greeting letter by letter.
  (socket) => trickle(socket, '220 mx.crowd.test ESMTP with a very long greeting that takes its time\r\n', 1_000),
  // An endless greeting.
  (socket) => trickle(socket, endless('220-and another line\r\n'), 200),
  // Every command is answered after five seconds, and the message is deferred.
  (socket) => {
    say(socket, '220 mx.crowd.test', 5_000);
    answers(socket, (line, inMessage) =>
      say(socket, inMessage ? '451 later' : line === 'DATA' ? '354 go' : '250 ok', 5_000),
    );
  },
  // The message is accepted, but not answered.
  (socket) => {
    say(socket, '220 mx.crowd.test');
    answers(socket, (line, inMessage) => !inMessage && say(socket, line === 'DATA' ? '354 go' : '250 ok'));
  },
  // EHLO is answered endlessly.
  (socket) => {
    say(socket, '220 mx.crowd.test');
    answers(socket, () => trickle(socket, endless('250-SIZE 1\r\n'), 500));
  },
  // Invalid replies, or contradictory ones.
  (socket) => {
    say(socket, '220 mx.crowd.test');
    answers(socket, (line) => say(socket, line.startsWith('EHLO') ? '250 ok' : '250-taken\r\n550 or not\r\n999'));
  },
];

createServer((socket) => {
  hold('servers', socket);
  // The site decides, which follows from the connection's number because sites are connected to in turn.
  servers[Math.floor(Math.random() * servers.length)]?.(socket);
}).listen(Number(port), address);

const endpoints = createHttpServer((request, response) => {
  request.resume();
  const manner = Number(/\d+/.exec(request.url ?? '')?.[0] ?? 0) % 5;
  const { socket } = response;
  if (manner === 0 || !socket) return;
  if (manner === 1) trickle(socket, 'HTTP/1.1 200 OK and a very long reason to say so\r\n', 1_000);
  else if (manner === 2) trickle(response, endless('and more of a body '), 100);
  else if (manner === 3) setTimeout(() => response.writeHead(500).end('x'.repeat(100_000)), 10_000);
  else trickle(socket, endless('HTTP/1.1 100 Continue\r\n\r\n'), 100);
});
endpoints.on('connection', (socket) => hold('endpoints', socket));
endpoints.on('clientError', (_, socket) => socket.destroy());
endpoints.listen(0, address, () => process.send?.({ endpoints: (endpoints.address() as AddressInfo).port }));

setInterval(() => process.send?.({ servers: held.servers.size, calls: held.endpoints.size }), 250);
process.on('disconnect', () => process.exit(0));
