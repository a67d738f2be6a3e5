import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { buildSender } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { type Peer, startScriptedMx, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import type { ZoneEntry } from '../support/zone.ts';

type Node = Awaited<ReturnType<typeof startDirectNode>>;

const sendMany = (node: Node, emails: number, to: (n: number) => string) =>
  Promise.all(Array.from({ length: emails }, (_, n) => node.send({ to: to(n) })));

const operator = async (node: Node) =>
  (
    await node.call('POST', '/api/v1/auth/login', {
      body: { email: 'admin@example.test', password: node.adminPassword },
    })
  ).body.token;

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the service answered
async function destinationsOf(node: Node, token: string): Promise<Map<string, any>> {
  const { body } = await node.call('GET', '/api/v1/admin/destinations', { token });
  return new Map(body.destinations.map((one: { site: string }) => [one.site, one]));
}

/**
 * Pauses the destination, and returns once the node goes by that. It reads all orders together, so it is enough that it
 * parks mail to a domain that was paused afterwards.
 */
async function pause(t: Test, node: Node, mxPort: number, token: string, name: string) {
  const sink = await startSink({ host: '127.0.0.9', port: mxPort });
  t.teardown(() => sink.close());
  node.zone.set('canary.test', { A: ['127.0.0.9'] });
  const order = (name: string) => node.call('POST', `/api/v1/admin/destinations/${name}/pause`, { token });
  const answer = await order(name);
  await order('canary.test');
  await eventually(async () => {
    const { id } = await node.send({ to: 'a@canary.test' });
    const recipient = await eventually(async () => {
      const [one] = (await node.read(id)).recipients;
      return (one.status !== 'queued' || one.waiting_for) && one;
    });
    return recipient.waiting_for === 'paused: canary.test';
  });
  return answer;
}

t.test('a server that wants fewer connections gets fewer, and all mail arrives', async (t) => {
  let open = 0;
  let refused = 0;
  const tooMany = Promise.withResolvers<void>();
  const mx = await startScriptedMx(async (peer, number) => {
    open += 1;
    peer.socket.once('close', () => (open -= 1));
    if (open > 3) {
      refused += 1;
      tooMany.resolve();
      peer.socket.end('421 4.7.0 too many connections from your address\r\n');
      return;
    }
    await peer.greet();
    for (;;) {
      for (const answer of ['250 ok', '250 ok', '354 go']) await peer.answer(answer);
      await peer.until('\r\n.\r\n');
      // Otherwise a slow machine could finish one before it begins another.
      await tooMany.promise;
      await new Promise((resume) => setTimeout(resume, 10 + (number % 2)));
      peer.send('250 taken\r\n');
    }
  });
  t.teardown(() => mx.close());
  const node = await startDirectNode(t, { zone: { 'busy.test': { A: ['127.0.0.1'] } }, mxPort: mx.port });
  await sendMany(node, 60, (n) => `r${n}@busy.test`);
  await eventually(async () => (await node.db.prisma.email.count({ where: { status: 'sent' } })) === 60);
  t.ok(refused > 0 && refused < 40, `${refused} refused`);
  const token = await operator(node);
  const busy = await eventually(async () => {
    const found = (await destinationsOf(node, token)).get('busy.test');
    return found?.reason && found;
  });
  t.match(busy, { reason: /wanted less mail at a time/, last_reply: String });
  t.ok((busy.connections as number) < 20);
  t.match(busy, { most_connections: 20, destinations: ['busy.test'], queued: 0, deferred: 0, paused_at: null });
});

t.test('a server that cannot be reached costs only the first message an attempt', async (t) => {
  const port = await freePort();
  const zone = { 'away.test': { A: ['127.0.0.1'] } };
  const node = await startDirectNode(t, { zone, mxPort: port, env: { RETRY_SCHEDULE: '30s' } });
  const first = await node.send({ to: 'first@away.test' });
  await eventually(async () => (await node.read(first.id)).recipients[0].status === 'deferred');
  const others: { id: string }[] = await sendMany(node, 20, (n) => `r${n}@away.test`);
  const token = await operator(node);
  const standing = await eventually(async () => {
    const found = (await destinationsOf(node, token)).get('away.test');
    return found?.deferred === 21 && found.reason && found;
  });
  t.match(standing, { connections: 1, reason: 'the server could not be reached', last_reply: /ECONNREFUSED|refused/ });
  t.ok(standing.backoff_until);
  for (const { id } of others) t.match((await node.read(id)).recipients[0], { status: 'queued', attempts: 0 });
  const { body } = await node.call('GET', `/api/v1/emails/${others[0]?.id}/explain`, { key: node.key });
  t.match(body.recipients[0], {
    cause: 'held_back',
    sentence: /away\.test: the server could not be reached/,
    next_attempt_at: String,
  });

  const sink = await startSink({ port });
  t.teardown(() => sink.close());
  t.equal((await node.call('POST', '/api/v1/admin/destinations/away.test/flush', { token })).status, 200);
  await eventually(async () => sink.messages.length === 21);
  const begun = sink.messages[0]?.at.toISOString() ?? '';
  t.ok(begun < standing.backoff_until, `${begun}: without the flush, not before ${standing.backoff_until}`);
  await eventually(async () => (await node.read(others[0]?.id ?? '')).recipients[0].attempts === 1);
});

t.test('a domain whose MX record names a dead host of a provider holds up only its own mail', async (t) => {
  const sink = await startSink({ host: '127.0.0.2' });
  t.teardown(() => sink.close());
  const zone = {
    'wrong.test': { MX: [[10, 'dead.google.com']] as [number, string][] },
    'dead.google.com': { A: ['127.0.0.7'] },
    'right.test': { MX: [[10, 'mx.google.com']] as [number, string][] },
    'mx.google.com': { A: ['127.0.0.2'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env: { RETRY_SCHEDULE: '1h' } });
  const begunAt = Date.now();
  const wrong: { id: string }[] = await sendMany(node, 40, (n) => `r${n}@wrong.test`);
  const token = await operator(node);
  await eventually(async () => (await destinationsOf(node, token)).get('wrong.test')?.deferred === 40);
  const tried = await node.db.query<{ tried: number }>({
    text: 'SELECT count(*)::int AS tried FROM recipients WHERE attempts > 0',
  });
  t.ok((tried[0]?.tried ?? 40) <= 5, `${tried[0]?.tried} of 40 were tried`);

  const right = await node.send({ to: 'a@right.test' });
  await eventually(async () => sink.messages.length === 1);
  const { body: why } = await node.call('GET', `/api/v1/emails/${wrong[39]?.id}/explain`, { key: node.key });
  t.match(why.recipients[0].sentence, /wrong\.test: the server could not be reached/);
  t.notMatch(JSON.stringify(why), /Google/, 'which is not to blame');
  // Nodes report every five seconds.
  const all = await eventually(async () => {
    const found = await destinationsOf(node, token);
    // Earlier reports, from before it accepted any mail, do not count.
    return found.get('Google')?.last_reply?.startsWith('250') && found.get('wrong.test')?.reason && found;
  });
  t.match(all.get('Google'), { reason: null, backoff_until: null, last_reply: /^250/ });
  t.match(all.get('wrong.test'), { reason: 'the server could not be reached', backoff_until: String });
  const backoffMs = Date.parse(String(all.get('wrong.test')?.backoff_until)) - Date.now();
  // It begins with half a minute and doubles with each failure, so that it is half a minute longer than all before together.
  const most = 30_000 + Date.now() - begunAt;
  t.ok(backoffMs <= most, `simultaneous failures count once: ${backoffMs} ms of ${most}`);
  t.equal((await node.read(right.id)).status, 'sent');

  // An operator's limits for the provider still hold for all whose record names it.
  const awake = await startSink({ host: '127.0.0.7', port: sink.port });
  t.teardown(() => awake.close());
  t.equal((await node.call('POST', '/api/v1/admin/destinations/Google/pause', { token })).status, 200);
  t.equal((await node.call('POST', '/api/v1/admin/destinations/wrong.test/flush', { token })).status, 200);
  await eventually(async () => (await node.read(wrong[39]?.id ?? '')).recipients[0].waiting_for === 'paused: Google');
  t.equal(awake.messages.length, 0);
  t.equal((await node.call('POST', '/api/v1/admin/destinations/Google/resume', { token })).status, 200);
  await eventually(async () => awake.messages.length === 40);
});

t.test('an operator can set how much a provider gets', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const folder = t.testdir({
    'providers.json': JSON.stringify([
      { name: 'Ours', mx: ['mx.limited.test'], connections: 1, messages_per_connection: 2 },
    ]),
  });
  const zone = {
    'a.test': { MX: [[10, 'mx.limited.test']] as [number, string][] },
    'b.test': { MX: [[10, 'mx.limited.test']] as [number, string][] },
    'mx.limited.test': { A: ['127.0.0.1'] },
  };
  const node = await startDirectNode(t, {
    zone,
    mxPort: sink.port,
    env: { PROVIDERS_FILE: `${folder}/providers.json` },
  });
  await sendMany(node, 6, (n) => (n % 2 ? 'r@a.test' : 'r@b.test'));
  await eventually(async () => sink.messages.length === 6);
  t.equal(sink.connections, 3, 'two messages each');
  const token = await operator(node);
  t.match(
    await eventually(async () => {
      const found = (await destinationsOf(node, token)).get('Ours');
      return found?.destinations.length === 2 && found;
    }),
    { most_connections: 1, connections: 1 },
  );
});

t.test('a provider with a host per customer has no more connections than allowed', async (t) => {
  const peers: Peer[] = [];
  let most = 0;
  const mx = await startScriptedMx(async (peer) => {
    peers.push(peer);
    await peer.greet();
    const isOpen = ({ socket, received }: Peer) => !socket.destroyed && !received.toString().includes('QUIT\r\n');
    most = Math.max(most, peers.filter(isOpen).length);
    for (;;) await peer.message();
  });
  t.teardown(() => mx.close());
  const folder = t.testdir({
    'providers.json': JSON.stringify([{ name: 'Ours', mx: ['hosted.test'], connections: 2 }]),
  });
  const customers = Array.from({ length: 10 }, (_, n) => `c${n}.test`);
  const zone = Object.fromEntries(
    customers.flatMap((name): [string, ZoneEntry][] => [
      [name, { MX: [[10, `${name}.hosted.test`]] }],
      [`${name}.hosted.test`, { A: ['127.0.0.1'] }],
    ]),
  );
  const env = { PROVIDERS_FILE: `${folder}/providers.json` };
  const node = await startDirectNode(t, { zone, mxPort: mx.port, env });
  await sendMany(node, 60, (n) => `r@${customers[n % 10]}`);
  await eventually(async () => (await node.db.prisma.email.count({ where: { status: 'sent' } })) === 60);
  t.equal(most, 2);
});

t.test("mail past its time limit keeps to a provider's rate like any other", async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const folder = t.testdir({
    'providers.json': JSON.stringify([{ name: 'Slow', mx: ['mx.slow.test'], connections: 2, per_minute: 6 }]),
  });
  const zone = {
    'old.test': { MX: [[10, 'mx.slow.test']] as [number, string][] },
    'mx.slow.test': { A: ['127.0.0.1'] },
  };
  const env = { PROVIDERS_FILE: `${folder}/providers.json`, RETRY_FOR: '2s', RETRY_SCHEDULE: '1s' };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env });
  const token = await operator(node);
  t.equal((await pause(t, node, sink.port, token, 'old.test')).status, 200);
  await sendMany(node, 30, () => 'r@old.test');
  // Until all of it is past its limit.
  await sleep(2_500);
  t.equal(sink.messages.length, 0);
  const resumedAt = performance.now();
  t.equal((await node.call('POST', '/api/v1/admin/destinations/old.test/resume', { token })).status, 200);
  await eventually(async () => sink.messages.length > 0);
  await sleep(3_000);
  const most = 1 + Math.floor((performance.now() - resumedAt) / 10_000);
  t.ok(sink.messages.length <= most, `${sink.messages.length} of ${most}`);
  t.equal(await node.db.prisma.email.count({ where: { status: 'failed' } }), 0);
});

t.test("each copy of a personal email counts toward a provider's rate", async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const folder = t.testdir({
    'providers.json': JSON.stringify([{ name: 'Slow', mx: ['mx.slow.test'], connections: 2, per_minute: 30 }]),
  });
  const zone = {
    'readers.test': { MX: [[10, 'mx.slow.test']] as [number, string][] },
    'mx.slow.test': { A: ['127.0.0.1'] },
  };
  const env = { PROVIDERS_FILE: `${folder}/providers.json` };
  const node = await startDirectNode(t, { zone, mxPort: sink.port, env });
  const begunAt = performance.now();
  await node.send({ to: Array.from({ length: 6 }, (_, n) => `r${n}@readers.test`), type: 'marketing' });
  await eventually(async () => sink.messages.length === 6);
  await node.send({ to: 'r@readers.test' });
  await sleep(4_000);
  const most = 1 + Math.floor((performance.now() - begunAt) / 2_000);
  t.ok(sink.messages.length <= Math.max(6, most), `${sink.messages.length} of ${most}`);
});

t.test('a paused destination gets nothing until it is resumed, and others go on', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const zone = { 'paused.test': { A: ['127.0.0.1'] }, 'fine.test': { A: ['127.0.0.1'] } };
  const node = await startDirectNode(t, { zone, mxPort: sink.port });
  const token = await operator(node);
  const give = (order: string, name = 'paused.test') =>
    node.call('POST', `/api/v1/admin/destinations/${name}/${order}`, { token });
  t.match(await pause(t, node, sink.port, token, 'paused.test'), {
    status: 200,
    body: { destination: { paused_at: String } },
  });
  const held = await node.send({ to: 'a@paused.test' });
  await node.send({ to: 'a@fine.test' });
  await eventually(async () => sink.messages.length === 1);
  const waiting = await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${held.id}/explain`, { key: node.key });
    return body.recipients[0].cause === 'held_back' && body.recipients[0];
  });
  t.match(waiting, { sentence: /paused/, next_attempt_at: null, attempts: 0 });
  t.equal((await give('pause', 'fine.test')).status, 200);
  const next = await node.send({ to: 'a@fine.test' });
  await eventually(async () => (await node.read(next.id)).recipients[0].waiting_for === 'paused: fine.test');
  t.equal(sink.messages.length, 1, 'what is sent once a pause is answered waits');
  await give('resume', 'fine.test');
  await eventually(async () => sink.messages.length === 2);
  t.equal((await give('flush')).status, 200, 'a flush does not undo a pause');
  t.match(await give('resume'), { status: 200, body: { destination: { paused_at: null } } });
  await eventually(async () => sink.messages.length === 3);
  t.same(sink.messages[2]?.to, ['a@paused.test']);

  t.equal((await give('pause', 'no site')).status, 404);
  t.equal((await node.call('POST', '/api/v1/admin/destinations/paused.test/pause', {})).status, 401);
  const member = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body.token;
  t.equal((await node.call('GET', '/api/v1/admin/destinations', { token: member })).status, 403);
});

t.test(
  'behind much mail for a slow site nobody else waits, nor does transactional mail behind marketing',
  async (t) => {
    const arrived: string[] = [];
    const opened = Promise.withResolvers<void>();
    const sink = await startSink({
      onMessage: async ({ to }) => {
        arrived.push(to[0] ?? '');
        await opened.promise;
        // The database knows of a claim before its node does: at full speed forty would go in between.
        await sleep(100);
        return null;
      },
    });
    t.teardown(() => sink.close());
    const node = await startDirectNode(t, { zone: { 'slow.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
    const other = await buildSender(node.db, testKey(7));
    const areTaken = async (...names: string[]) => {
      const address = { in: names.map((name) => `${name}@slow.test`) };
      return (await node.db.prisma.recipient.count({ where: { address, claimedBy: { not: null } } })) === names.length;
    };
    const newsletter = Array.from({ length: 60 }, (_, n) => ({
      ...{ from: node.from, to: `r${n}@slow.test`, subject: 's', text: 't', type: 'marketing' },
    }));
    const { status } = await node.call('POST', '/api/v1/emails/batch', { key: node.key, body: { emails: newsletter } });
    t.equal(status, 200);
    await eventually(async () => arrived.length === 5 && (await areTaken('r59')));

    await node.send({ to: 'reset@slow.test' });
    const body = { from: other.from, to: 'other@slow.test', subject: 's', text: 't', type: 'marketing' };
    t.equal((await node.call('POST', '/api/v1/emails', { key: other.key, body })).status, 200);
    await eventually(() => areTaken('reset', 'other'), 30_000);
    opened.resolve();
    await eventually(async () => arrived.length === 62);
    for (const to of ['reset@slow.test', 'other@slow.test']) t.ok(arrived.indexOf(to) < 40, arrived.join(' '));
  },
);

t.test('a recipient that is suppressed before the first attempt gets no mail', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'paused.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const token = await operator(node);
  await pause(t, node, sink.port, token, 'paused.test');
  const left = await node.send({ to: 'left@paused.test' });
  const stayed = await node.send({ to: 'stayed@paused.test' });
  const both = await node.send({ to: ['left@paused.test', 'other@paused.test'] });
  const member = (await node.call('POST', '/api/v1/auth/login', { body: node.account })).body.token;
  const { status } = await node.call('POST', '/api/v1/suppressions', {
    token: member,
    body: { address: 'left@paused.test' },
  });
  t.ok(status < 300, String(status));
  await sleep(2_500);
  await node.call('POST', '/api/v1/admin/destinations/paused.test/resume', { token });
  await eventually(async () => (await node.read(stayed.id)).status === 'sent');
  await eventually(async () => (await node.read(left.id)).recipients[0].status === 'suppressed');
  await eventually(async () => (await node.read(both.id)).status === 'suppressed');
  t.same(
    (await node.read(both.id)).recipients.map((one: { status: string }) => one.status),
    ['suppressed', 'delivered'],
  );
  t.same(sink.messages.map(({ to }) => to).sort(), [['other@paused.test'], ['stayed@paused.test']]);
});

t.test('servers that never answer hold up nobody else', async (t) => {
  const silent = await startScriptedMx(() => new Promise<void>(() => {}));
  const sink = await startSink({ host: '127.0.0.2', port: silent.port });
  t.teardown(() => sink.close());
  const zone = {
    ...Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`silent${n}.test`, { A: ['127.0.0.1'] }])),
    'fine.test': { A: ['127.0.0.2'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: silent.port });
  await sendMany(node, 500, (n) => `r${n}@silent${n % 60}.test`);
  await eventually(async () => silent.peers.length >= 200);
  const started = performance.now();
  await sendMany(node, 50, (n) => `r${n}@fine.test`);
  await eventually(async () => sink.messages.length === 50);
  t.comment(
    `50 messages beside ${silent.peers.length} silent connections: ${Math.round(performance.now() - started)} ms`,
  );
  // A slow machine may have given up some after a minute.
  const open = silent.peers.filter(({ socket }) => !socket.destroyed && !socket.readableEnded);
  t.ok(open.length <= 300, 'five connections for each of sixty sites');
  // So that the node need not wait for them when it stops.
  await silent.close();
});

t.test(
  'a site with little mail is not considered slow for long: a burst goes out as fast as the site accepts it',
  async (t) => {
    const sink = await startSink();
    t.teardown(() => sink.close());
    const names = Array.from({ length: 20 }, (_, n) => `d${n}.test`);
    const zone = Object.fromEntries(names.map((name) => [name, { MX: [[10, 'mx.big.test']] as [number, string][] }]));
    const node = await startDirectNode(t, {
      zone: { ...zone, 'mx.big.test': { A: ['127.0.0.1'] } },
      mxPort: sink.port,
    });
    await node.send({ to: 'r@d0.test' });
    await eventually(async () => sink.messages.length === 1);
    const batch = (number: number) => ({
      emails: Array.from({ length: 1_000 }, (_, n) => ({
        from: node.from,
        to: `b${number}.r${n}@${names[n % names.length]}`,
        subject: 's',
        text: 't',
      })),
    });
    const answers = await Promise.all(
      [1, 2].map((number) => node.call('POST', '/api/v1/emails/batch', { key: node.key, body: batch(number) })),
    );
    t.strictSame(
      answers.map(({ status }) => status),
      [200, 200],
    );
    await eventually(async () => sink.messages.length === 2_001, 300_000);
    // Deferred mail waits for one to two minutes, and nothing goes out meanwhile; a slow machine continues slowly.
    const at = sink.messages.slice(1).map(({ at }) => at.getTime());
    const longest = Math.max(...at.slice(1).map((time, n) => time - (at[n] ?? 0)));
    t.ok(longest < 55_000, `${longest} ms without a message`);
  },
);
