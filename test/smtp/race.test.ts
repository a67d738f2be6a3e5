import { once } from 'node:events';
import { isIPv6, connect as netConnect, Socket, type TcpNetConnectOpts } from 'node:net';
import t, { type Test } from 'tap';
import type { Peer } from '../support/mx.ts';
import { freePort } from '../support/ports.ts';
import { resultOf, startMx, startScene } from './scene.ts';

const accept = async (peer: Peer) => {
  await peer.greet();
  await peer.message();
};

const refuse = (peer: Peer) => peer.send('554 no\r\n');

/** An address that ignores a SYN, as if behind a firewall that drops it. */
const blackHole = () => new Socket();

/** Dials as told, and records what was dialled, when, and with which socket. */
function dialler(dial: (options: TcpNetConnectOpts, number: number) => Socket = (options) => netConnect(options)) {
  const dials: { host: string; from: string | undefined; at: number; socket: Socket }[] = [];
  const connect = (options: TcpNetConnectOpts) => {
    const socket = dial(options, dials.length);
    dials.push({ host: options.host ?? '', from: options.localAddress, at: performance.now(), socket });
    return socket;
  };
  return { dials, connect };
}

const both = { 'mx.example.test': { AAAA: ['::1'], A: ['127.0.0.1'] } };

/** A server on IPv4 and one on IPv6, on the same port. */
async function startBoth(t: Test, on4: (peer: Peer) => Promise<void> | void, on6 = on4) {
  for (;;) {
    const v4 = await startMx(t, on4);
    // A port that is free for one may be in use for the other.
    const v6 = await startMx(t, on6, { host: '::1', port: v4.port }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error;
    });
    if (v6) return { v4, v6, port: v4.port };
  }
}

const notesOf = (delivery: { sessions: { conversation: { by: string; text: string }[] }[] }, session = 0) =>
  delivery.sessions[session]?.conversation.filter(({ by }) => by === 'note').map(({ text }) => text) ?? [];

t.test('MX-09: an IPv6 address that does not answer costs a quarter of a second', async (t) => {
  const mx = await startMx(t, accept);
  const { dials, connect } = dialler((options) => (isIPv6(options.host ?? '') ? blackHole() : netConnect(options)));
  const { send } = await startScene(t, mx.port, both, { connect, deadlines: { connect: 60_000 } });
  const started = performance.now();
  const delivery = await send();
  t.ok(performance.now() - started < 30_000, 'much less than its time to answer');
  t.match(delivery.sessions, [{ remoteAddress: '127.0.0.1', results: [{ outcome: 'delivered' }] }]);
  t.equal(delivery.sessions.length, 1);
  const notes = notesOf(delivery).join('\n');
  t.match(notes, /^connected to 127\.0\.0\.1 port \d+ from 127\.0\.0\.1$/m);
  t.match(notes, /^::1 had not answered after \d+ ms and was dropped$/m);
  t.same(
    dials.map(({ host }) => host),
    ['::1', '127.0.0.1'],
  );
  const pause = (dials[1]?.at ?? 0) - (dials[0]?.at ?? 0);
  t.ok(pause > 245 && pause < 30_000, `${pause} ms`);
  t.equal(dials[0]?.socket.destroyed, true);
});

t.test('MX-09: an IPv6 address that refuses costs nothing', async (t) => {
  const mx = await startMx(t, accept);
  const once = async () => {
    const { dials, connect } = dialler();
    const { send } = await startScene(t, mx.port, both, { connect });
    const delivery = await send();
    return { delivery, pause: (dials[1]?.at ?? 0) - (dials[0]?.at ?? 0) };
  };
  let { delivery, pause } = await once();
  // Again if the machine stalled meanwhile.
  for (let again = 0; again < 4 && pause >= 200; again += 1) ({ delivery, pause } = await once());
  t.ok(pause < 200, `${pause} ms`);
  t.match(delivery.sessions, [{ remoteAddress: '127.0.0.1', results: [{ outcome: 'delivered' }] }]);
  t.equal(delivery.sessions.length, 1);
  t.match(notesOf(delivery).join('\n'), /^::1 could not be reached \(ECONNREFUSED\) after \d+ ms$/m);
});

t.test('if the first answers, the second is not asked', async (t) => {
  const once = async () => {
    const { v4, v6, port } = await startBoth(t, accept);
    const { send } = await startScene(t, port, both);
    const { sessions } = await send();
    await new Promise((resolve) => setTimeout(resolve, 300));
    return { sessions, asked: [v6.peers.length, v4.peers.length] };
  };
  let seen = await once();
  // Again if the machine stalled before the answer was read.
  for (let again = 0; again < 4 && seen.asked[1] !== 0; again += 1) seen = await once();
  t.match(seen.sessions, [{ remoteAddress: '::1', results: [{ outcome: 'delivered' }] }]);
  t.same(seen.asked, [1, 0], 'nor later');
});

t.test('if both answer at once, one is greeted and the other closed without a word', async (t) => {
  const { v4, v6, port } = await startBoth(t, accept);
  const late = new Socket();
  let dialLate = () => {};
  const { dials, connect } = dialler((options) => {
    if (isIPv6(options.host ?? '')) {
      dialLate = () => late.connect(options);
      return late;
    }
    dialLate();
    return netConnect(options);
  });
  const { send, transport } = await startScene(t, port, both, { connect });
  const { sessions } = await send();
  t.match(sessions, [{ results: [{ outcome: 'delivered' }] }]);
  const [greeted, left] = sessions[0]?.remoteAddress === '::1' ? [v6, v4] : [v4, v6];
  t.equal(greeted.peers.length, 1);
  const open = left.peers.filter(({ socket }) => !socket.closed);
  await Promise.all(open.map(({ socket }) => once(socket, 'close')));
  for (const peer of left.peers) t.equal(peer.received.toString(), '');
  t.equal(dials.filter(({ socket }) => !socket.destroyed).length, 1, 'the one that is kept for the next message');
  await transport.close();
  t.equal(dials.filter(({ socket }) => !socket.destroyed).length, 0);
});

t.test('if nobody answers, that is one deferral, which says what each address did', async (t) => {
  const { connect } = dialler((options) => (isIPv6(options.host ?? '') ? blackHole() : netConnect(options)));
  const { send } = await startScene(t, await freePort(), both, { connect, deadlines: { connect: 1_500 } });
  const delivery = await send();
  t.equal(delivery.sessions.length, 1);
  t.match(delivery.sessions, [{ host: 'mx.example.test', remoteAddress: null, localAddress: null }]);
  const { reason, ...result } = resultOf(delivery);
  t.match(result, { outcome: 'deferred', phase: 'connect', class: 'network', reply: null, uncertain: false });
  const [, each = ''] = /^No address of mx\.example\.test answers: (.*)\.$/.exec(reason) ?? [];
  // In the order in which they failed, which is reversed if the machine stalled.
  t.same(each.split(', ').toSorted(), [
    '127.0.0.1 could not be reached (ECONNREFUSED)',
    '::1 did not accept the connection in time',
  ]);
  t.match(notesOf(delivery).join('\n'), /^::1 did not accept the connection in time after \d+ ms$/m);
});

/** A socket that this host cannot open. */
function unopened(code: string) {
  const socket = new Socket();
  process.nextTick(() => socket.destroy(Object.assign(new Error(`connect ${code}`), { code })));
  return socket;
}

t.test('trouble of this host alone is called that, and blamed on no server', async (t) => {
  const ours = { outcome: 'deferred', phase: 'connect', class: 'sender', reply: null, uncertain: false };
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']) {
    const { send } = await startScene(t, await freePort(), both, { connect: () => unopened(code) });
    const { reason, ...result } = resultOf(await send());
    t.match(result, ours, code);
    t.match(reason, new RegExp(`^mx\\.example\\.test was not reached: this server .*\\(${code}\\)\\.$`));
  }
  const mixed = await startScene(t, await freePort(), both, {
    connect: (options) => (isIPv6(options.host ?? '') ? unopened('EMFILE') : netConnect(options)),
  });
  const { reason, ...result } = resultOf(await mixed.send());
  t.match(result, { ...ours, class: 'network' }, 'a server that refuses over the other family cannot be reached');
  t.match(
    reason,
    /^No address of mx\.example\.test answers: ::1 was not reached: this server .*, 127\.0\.0\.1 could not/,
  );
  for (const code of ['EADDRNOTAVAIL', 'EACCES', 'EPERM']) {
    const { send } = await startScene(t, await freePort(), {}, { connect: () => unopened(code) });
    t.match(resultOf(await send()), { ...ours, class: 'network' }, `${code} may be about this one address`);
  }
});

t.test('an attempt that is aborted meanwhile closes what it dialled, and dials no more', async (t) => {
  const ended = new AbortController();
  let endedAt = 0;
  const { dials, connect } = dialler((_options, number) => {
    if (number === 1)
      setTimeout(() => {
        endedAt = performance.now();
        ended.abort();
      }, 100);
    return blackHole();
  });
  const zone = { 'mx.example.test': { AAAA: ['::1'], A: ['127.0.0.1', '127.0.0.2'] } };
  const { send } = await startScene(t, 9, zone, { connect });
  const delivery = await send({ signal: ended.signal });
  t.ok(endedAt > 0 && performance.now() - endedAt < 10_000, 'at once');
  t.match(resultOf(delivery), { outcome: 'deferred', phase: 'connect', class: 'other', reason: /ended the attempt/ });
  await new Promise((resolve) => setTimeout(resolve, 300));
  t.equal(dials.length, 2);
  t.ok(dials.every(({ socket }) => socket.destroyed));
});

t.test('if the one that answered takes no mail, the others are tried, the slower one last', async (t) => {
  const first = await startMx(t, refuse);
  const second = await startMx(t, accept, { host: '127.0.0.2', port: first.port });
  const hole6 = dialler((options) => (isIPv6(options.host ?? '') ? blackHole() : netConnect(options)));
  const three = { 'mx.example.test': { AAAA: ['::1'], A: ['127.0.0.1', '127.0.0.2'] } };
  const { send } = await startScene(t, first.port, three, { connect: hole6.connect });
  // The name server decides the order within a family; both of these lead to the one that takes it.
  const { sessions } = await send();
  t.match(sessions.at(-1), { remoteAddress: '127.0.0.2', results: [{ outcome: 'delivered' }] });
  t.equal(second.peers.length, 1);

  const { v6, port } = await startBoth(t, refuse, accept);
  const slow6 = dialler((options, number) => (number === 0 ? blackHole() : netConnect(options)));
  const again = await startScene(t, port, both, { connect: slow6.connect });
  t.match((await again.send()).sessions, [
    { remoteAddress: '127.0.0.1', results: [{ outcome: 'deferred', phase: 'greeting' }] },
    { remoteAddress: '::1', results: [{ outcome: 'delivered' }] },
  ]);
  t.equal(v6.peers.length, 1);
});

t.test('DOS-11: an attempt dials at most five times, each time from an address of the right family', async (t) => {
  const { dials, connect } = dialler();
  const zone = {
    'mx.example.test': { AAAA: ['::1'], A: Array.from({ length: 200 }, (_, at) => `127.0.1.${at}`) },
  };
  const { send } = await startScene(t, await freePort(), zone, { connect, sendingIps: ['127.0.0.7', '::1'] });
  const delivery = await send();
  t.equal(delivery.sessions.length, 1);
  t.equal(resultOf(delivery).reason.match(/ECONNREFUSED/g)?.length, 5);
  t.equal(dials.length, 5);
  for (const { host, from } of dials) t.equal(from, isIPv6(host) ? '::1' : '127.0.0.7');
});

t.test('addresses that were only slower do not count against those that are still to be dialled', async (t) => {
  const mx = await startMx(t, async (peer, number) => {
    if (number > 0) return accept(peer);
    await peer.greet('STARTTLS');
    await peer.until('STARTTLS\r\n');
    peer.send('454 4.7.0 not now\r\n');
  });
  const { connect } = dialler((options, number) =>
    number < 4 ? blackHole() : netConnect({ ...options, host: '127.0.0.1' }),
  );
  const five = { 'mx.example.test': { A: Array.from({ length: 5 }, (_, at) => `127.0.0.${at + 1}`) } };
  const { send } = await startScene(t, mx.port, five, { connect });
  t.match(
    (await send()).sessions.at(-1),
    { tls: null, results: [{ outcome: 'delivered' }] },
    'in clear text, because TLS failed',
  );
});
