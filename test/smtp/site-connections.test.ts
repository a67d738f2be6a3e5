import t, { type Test } from 'tap';
import { Connection } from '../../src/smtp/connections/connection.ts';
import { SiteConnections, type SiteLimits } from '../../src/smtp/connections/site-connections.ts';
import type { Peer } from '../support/mx.ts';
import type { ZoneEntry } from '../support/zone.ts';
import { resultOf, startMx, startScene, twoHosts } from './scene.ts';

const site = (connections: number, name = 'Provider'): SiteLimits => ({ name, connections, perConnection: null });
const said = (peer: Peer, text: string) => peer.received.toString('latin1').includes(text);

/**
 * Servers on several loopback addresses, each with its own host and domain, which record how many connections they had
 * at once.
 */
async function startProvider(
  t: Test,
  hosts: Record<string, string>,
  zoneOf: Record<string, ZoneEntry> = {},
  beforeGreeting = async (_peers: Peer[]) => {},
) {
  let most = 0;
  let port = 0;
  const peers: Peer[] = [];
  const script = async (peer: Peer) => {
    peers.push(peer);
    await beforeGreeting(peers);
    await peer.greet();
    // The closed ones had said QUIT before this one was dialled: its EHLO has been read.
    most = Math.max(most, peers.filter((one) => !one.socket.destroyed && !said(one, 'QUIT\r\n')).length);
    for (;;) await peer.message();
  };
  const zone: Record<string, ZoneEntry> = {};
  for (const [name, address] of Object.entries(hosts)) {
    ({ port } = await startMx(t, script, { host: address, port }));
    zone[`mx.${name}`] = { A: [address] };
    zone[name] = { MX: [[10, `mx.${name}`]] };
  }
  const scene = await startScene(t, port, { ...zone, ...zoneOf });
  const sendTo = async (destination: string, limits: SiteLimits, outcome = 'delivered') => {
    const to = `b@${destination}`;
    const delivery = await scene.send({ destination, to: [to], site: limits });
    t.equal(resultOf(delivery, to).outcome, outcome);
    return delivery.sessions;
  };
  return { sendTo, peers, transport: scene.transport, most: () => most };
}

const customers = {
  'a.test': '127.0.0.1',
  'b.test': '127.0.0.2',
  'c.test': '127.0.0.3',
  'd.test': '127.0.0.4',
};

t.test('a site with a host per customer has no more connections than allowed, including idle ones', async (t) => {
  const { sendTo, transport, most } = await startProvider(t, customers);
  const names = Object.keys(customers);
  // Two at a time, which is what the site allows: each goes through all hosts, in a different order.
  const round = async (order: string[]) => {
    for (const name of [...order, ...order, ...order]) await sendTo(name, site(2));
  };
  await Promise.all([round(names), round(names.toReversed())]);
  t.equal(most(), 2);
  t.ok(transport.pool.size <= 2, `${transport.pool.size} idle`);
});

t.test('the connection that was idle longest is closed; other sites keep their own', async (t) => {
  const { sendTo, transport } = await startProvider(t, customers);
  for (const name of ['a.test', 'b.test', 'c.test']) await sendTo(name, site(2));
  t.equal(transport.pool.size, 2);
  t.match(await sendTo('c.test', site(2)), [{ reused: true }]);
  t.match(await sendTo('b.test', site(2)), [{ reused: true }]);
  t.match(await sendTo('a.test', site(2)), [{ reused: false }], 'it had to be closed');
  await sendTo('d.test', site(2, 'Another'));
  t.equal(transport.pool.size, 3);
});

t.test('a connection that another site takes over belongs to that site from then on', async (t) => {
  const { sendTo, transport } = await startProvider(t, customers);
  await sendTo('a.test', site(1, 'First'));
  t.match(await sendTo('a.test', site(1, 'Second')), [{ reused: true }]);
  await sendTo('b.test', site(1, 'Second'));
  t.equal(transport.pool.size, 1, 'it had to be closed');
  await sendTo('c.test', site(1, 'First'));
  t.equal(transport.pool.size, 2, 'and the first has room again');
});

t.test('a site that takes over a connection makes room for it as for one of its own', async (t) => {
  const { sendTo, transport } = await startProvider(t, customers);
  await sendTo('a.test', site(1, 'First'));
  await sendTo('b.test', site(1, 'Second'));
  t.match(await sendTo('a.test', site(1, 'Second')), [{ reused: true }]);
  t.equal(transport.pool.size, 1, 'the one to the other host had to be closed');
});

t.test("a connection that another site has used counts toward this site's limit of messages", async (t) => {
  const { sendTo } = await startProvider(t, customers);
  const few = { ...site(5, 'Second'), perConnection: 2 };
  await sendTo('a.test', site(5, 'First'));
  t.match(await sendTo('a.test', few), [{ reused: true }]);
  for (let count = 0; count < 2; count += 1) await sendTo('b.test', site(5, 'First'));
  t.match(await sendTo('b.test', few), [{ reused: false }]);
  t.match(await sendTo('b.test', site(5, 'First')), [{ reused: true }]);
});

t.test('a site whose limit is lowered keeps no more connections than that, even if none is opened', async (t) => {
  const { sendTo, transport } = await startProvider(t, customers);
  for (const name of ['a.test', 'b.test', 'c.test', 'd.test']) await sendTo(name, site(5));
  t.equal(transport.pool.size, 4, 'none is closed while there is room');
  t.match(await sendTo('a.test', site(2)), [{ reused: true }]);
  t.equal(transport.pool.size, 2);
  t.match(await sendTo('d.test', site(1)), [{ reused: true }], 'those that were idle longest had been closed');
  t.equal(transport.pool.size, 1);
});

t.test('failed, refused and lost connections do not count', async (t) => {
  const busy = (peer: Peer) => void peer.socket.end('421 4.7.0 too busy\r\n');
  const { sendTo, transport } = await startProvider(t, customers, {
    'dead.test': { A: ['127.0.0.9'] },
    'busy.test': { A: ['127.0.0.8'] },
  });
  await startMx(t, busy, { host: '127.0.0.8', port: transport.mxPort });
  const limits = site(2);
  for (const destination of ['dead.test', 'busy.test', 'dead.test', 'busy.test'])
    await sendTo(destination, limits, 'deferred');
  await sendTo('a.test', limits);
  await sendTo('b.test', limits);
  t.match(await sendTo('a.test', limits), [{ reused: true }], 'there was room for both');
});

t.test('of equal hosts, the one with an open connection comes first', async (t) => {
  const equal: ZoneEntry = { MX: Object.keys(customers).map((name) => [10, `mx.${name}`]) };
  const { sendTo, peers, most } = await startProvider(t, customers, { 'all.test': equal });
  const row = async () => {
    for (let message = 0; message < 20; message += 1) await sendTo('all.test', site(2));
  };
  await Promise.all([row(), row()]);
  t.equal(peers.length, 2);
  t.equal(most(), 2);
});

t.test('an open connection to an equal host that defers mail does not attract any', async (t) => {
  const putOff = await startMx(t, async (peer) => {
    await peer.greet();
    for (;;) await peer.answer('451 4.3.0 local error');
  });
  const { port } = putOff;
  await startMx(
    t,
    async (peer) => {
      await peer.greet();
      for (;;) await peer.message();
    },
    { host: '127.0.0.2', port },
  );
  const equal: ZoneEntry = {
    MX: [
      [10, 'mx.a.test'],
      [10, 'mx.b.test'],
    ],
  };
  const zone = { 'all.test': equal, 'mx.a.test': { A: ['127.0.0.1'] }, 'mx.b.test': { A: ['127.0.0.2'] } };
  // If all draw the same, they come in the order in which they are written.
  const { send } = await startScene(t, port, zone, { random: () => 0 });
  const sendOne = async () => (await send({ destination: 'all.test', to: ['b@all.test'] })).sessions;
  t.match(await sendOne(), [{ host: 'mx.a.test' }, { host: 'mx.b.test', results: [{ outcome: 'delivered' }] }]);
  t.match(await sendOne(), [{ host: 'mx.b.test', reused: true, results: [{ outcome: 'delivered' }] }]);
  t.equal(putOff.peers.length, 1);
});

t.test('an open connection to a host of lower preference attracts no mail from a better one', async (t) => {
  let restarts = 1;
  const better = await startMx(t, async (peer) => {
    await peer.greet();
    if (restarts-- > 0) return peer.send('421 4.3.2 restarting\r\n');
    for (;;) await peer.message();
  });
  const taking = async (peer: Peer) => {
    await peer.greet();
    for (;;) await peer.message();
  };
  await startMx(t, taking, { host: '127.0.0.2', port: better.port });
  const { send } = await startScene(t, better.port, twoHosts);
  const sendOne = async () => (await send()).sessions;
  t.match(await sendOne(), [
    { host: 'mx1.example.test' },
    { host: 'mx2.example.test', results: [{ outcome: 'delivered' }] },
  ]);
  t.match(await sendOne(), [{ host: 'mx1.example.test', results: [{ outcome: 'delivered' }] }]);
});

t.test('new connections are spread over equal hosts', async (t) => {
  const equal: ZoneEntry = { MX: Object.keys(customers).map((name) => [10, `mx.${name}`]) };
  const allHere = Promise.withResolvers<void>();
  // None is greeted before the last has connected: otherwise an early one would be reused.
  const { sendTo, peers } = await startProvider(t, customers, { 'all.test': equal }, async ({ length }) => {
    if (length === 30) allHere.resolve();
    await allHere.promise;
  });
  await Promise.all(Array.from({ length: 30 }, () => sendTo('all.test', site(40))));
  const used = new Set(peers.map(({ socket }) => socket.localAddress));
  t.equal(peers.length, 30);
  t.ok(used.size >= 3, `${used.size} of 4`);
});

t.test('a connection that said QUIT takes no place, even if its server has not hung up yet', async (t) => {
  const { sendTo, transport } = await startProvider(t, customers, { 'deaf.test': { A: ['127.0.0.8'] } });
  const deaf = async (peer: Peer) => {
    await peer.greet();
    await peer.message();
    await peer.until('never');
  };
  await startMx(t, deaf, { host: '127.0.0.8', port: transport.mxPort });
  for (const name of ['deaf.test', 'a.test', 'b.test', 'c.test']) await sendTo(name, site(2));
  t.match(await sendTo('b.test', site(2)), [{ reused: true }]);
});

t.test('a connection counts for one site at a time, until it is lost or about to say QUIT', async (t) => {
  const sites = new SiteConnections();
  const open = (name: string) => {
    const connection = new Connection({ host: 'mx.a.test', address: '127.0.0.1', port: 25 });
    sites.dialing(name);
    sites.opened(name, connection);
    return connection;
  };
  const counts = () => [sites.of('First'), sites.of('Second')];
  const [lost, left, moved] = [open('First'), open('First'), open('First')];
  sites.dialing('First');
  t.same(counts(), [4, 0]);
  sites.dialFailed('First');
  sites.ended(left);
  sites.movedTo('First', moved);
  t.same(counts(), [2, 0]);
  sites.movedTo('Second', moved);
  t.same(counts(), [1, 1]);
  t.same([sites.isOf('First', moved), sites.isOf('Second', moved)], [false, true]);
  const stranger = new Connection(moved.target);
  sites.movedTo('Second', stranger);
  t.same(counts(), [1, 2], 'one that no site had');
  for (const connection of [lost, left, moved, stranger]) connection.destroy();
  t.same(counts(), [0, 0]);
  t.same(sites.isOf('Second', moved), false);
});
