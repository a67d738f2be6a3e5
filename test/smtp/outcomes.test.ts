import t from 'tap';
import type { RecipientResult } from '../../src/smtp/deliver.ts';
import { createTransport } from '../../src/smtp/transport.ts';
import { figure } from '../support/figure.ts';
import type { Peer } from '../support/mx.ts';
import { message, resultOf, startScripted } from './scene.ts';

type Script = (peer: Peer) => Promise<unknown>;

const pipelining = async (peer: Peer) => peer.greet('PIPELINING', 'ENHANCEDSTATUSCODES');
const plain = async (peer: Peer) => peer.greet();

t.test('a message arrives once, and the report says how', async (t) => {
  for (const [name, greet] of Object.entries({ pipelining, plain })) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await greet(peer);
      await peer.message({ dot: '250 2.0.0 queued as 1' });
    });
    const { sessions } = await send();
    t.equal(sessions.length, 1, name);
    t.match(sessions[0], {
      host: 'mx.example.test',
      remoteAddress: '127.0.0.1',
      localAddress: '127.0.0.1',
      tls: null,
      reused: false,
    });
    t.ok((sessions[0]?.durationMs ?? -1) >= 0);
    const { reason, ...result } = resultOf({ sessions });
    t.match(reason, /mx\.example\.test.*250 2\.0\.0 queued as 1/);
    t.same(result, {
      recipient: 'b@example.test',
      outcome: 'delivered',
      phase: 'dot',
      reply: { code: 250, enhanced: '2.0.0', text: 'queued as 1' },
      enhanced: '2.0.0',
      class: null,
      uncertain: false,
    });
    const lines = mx.peers[0]?.received.toString('latin1') ?? '';
    const commands = 'EHLO client.test\r\nMAIL FROM:<a@sender.test>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n';
    t.equal(lines, `${commands}${message().toString()}.\r\n`);
  }
});

t.test('MX-01: a late reply to the dot is waited for', async (t) => {
  const { send } = await startScripted(t, async (peer) => {
    await plain(peer);
    await peer.message({ dot: null });
    await new Promise((resolve) => setTimeout(resolve, 150));
    peer.send('250 at last\r\n');
  });
  t.match(resultOf(await send()), { outcome: 'delivered', uncertain: false });
});

t.test(
  'MX-01: the reply to the dot has all of its time, whatever the message took of the time for a transaction',
  async (t) => {
    const once = async (ms: number) => {
      const { send } = await startScripted(
        t,
        async (peer) => {
          await plain(peer);
          await peer.message({ dot: null });
          await new Promise((resolve) => setTimeout(resolve, 1.2 * ms));
          peer.send('250 at last\r\n');
        },
        { deadlines: { transaction: ms } },
      );
      return resultOf(await send());
    };
    let ms = 1_000;
    let result = await once(ms);
    // If the machine stalled, time may run out before the dot.
    for (; ms < 9_000 && result.outcome !== 'delivered' && !result.uncertain; ms *= 3) result = await once(3 * ms);
    t.match(result, { outcome: 'delivered', uncertain: false });
  },
);

t.test('MX-01, DOS-10: how long each step may take if nothing else is said', async (t) => {
  const { transaction, dot, content, minBytesPerSecond, ...steps } = createTransport({
    ehloName: 'client.test',
  }).deadlines;
  t.equal(dot, 10 * 60_000, 'RFC 5321 section 4.5.3.2.6: giving up earlier means a second copy');
  t.ok(content >= 3 * 60_000, 'section 4.5.3.2.5');
  t.ok(transaction <= 20 * 60_000 && transaction > content, 'no server holds a connection for longer');
  t.ok(minBytesPerSecond >= 10_000, 'or for much longer because its message is large');
  for (const [step, ms] of Object.entries(steps)) t.ok(ms >= 30_000 && ms <= 5 * 60_000, step);
});

t.test('MX-02, MX-03: without a reply to the dot the message may have arrived', async (t) => {
  const endings: Record<string, Script> = {
    silence: async () => {},
    'a closed connection': async (peer) => peer.socket.end(),
    'a reset': async (peer) => peer.socket.resetAndDestroy(),
    'half a reply': async (peer) => peer.send('250'),
    'half a reply of many lines': async (peer) => peer.socket.end('250-queued\r\n'),
    garbage: async (peer) => peer.send('thank you\r\n'),
  };
  for (const [name, ending] of Object.entries(endings)) {
    const { send, mx } = await startScripted(
      t,
      async (peer) => {
        await plain(peer);
        await peer.message({ dot: null });
        await ending(peer);
      },
      { deadlines: { dot: 400 } },
    );
    const delivery = await send();
    t.match(resultOf(delivery), { outcome: 'deferred', phase: 'dot', reply: null, uncertain: true }, name);
    t.equal(mx.peers.length, 1, 'not again in the same attempt');
  }
});

t.test('MX-04: each phase and code has its outcome', async (t) => {
  const table: [name: string, script: Script, expected: Partial<RecipientResult>][] = [];
  const add = (name: string, script: Script, expected: Partial<RecipientResult>) =>
    table.push([name, script, expected]);
  for (const code of [400, 421, 450, 500, 550]) {
    const deferred = code >= 500 ? 'bounced' : 'deferred';
    add(`${code} greeting`, async (peer) => peer.send(`${code} no\r\n`), { outcome: 'deferred', phase: 'greeting' });
    for (const greet of [plain, pipelining]) {
      const rest = { mail: `${code} no`, rcpt: ['503 no mail'], data: '503 no rcpt' };
      add(
        `${code} MAIL`,
        async (peer) => {
          await greet(peer);
          await peer.message(rest);
        },
        { outcome: deferred, phase: 'mail' },
      );
      add(
        `${code} RCPT`,
        async (peer) => {
          await greet(peer);
          await peer.message({ rcpt: [`${code} no`], data: '503 no rcpt' });
        },
        { outcome: deferred, phase: 'rcpt' },
      );
      add(
        `${code} DATA`,
        async (peer) => {
          await greet(peer);
          await peer.message({ data: `${code} no` });
        },
        { outcome: deferred, phase: 'data' },
      );
      add(
        `${code} dot`,
        async (peer) => {
          await greet(peer);
          await peer.message({ dot: `${code} no` });
        },
        { outcome: deferred, phase: 'dot' },
      );
    }
  }
  add(
    'no EHLO at all',
    async (peer) => {
      peer.send('220 hi\r\n');
      await peer.answer('502 what');
      await peer.answer('502 no');
    },
    { outcome: 'deferred', phase: 'ehlo' },
  );
  add(
    '421 EHLO',
    async (peer) => {
      peer.send('220 hi\r\n');
      await peer.answer('421 busy');
    },
    { outcome: 'deferred', phase: 'ehlo' },
  );
  add('250 as a greeting', async (peer) => peer.send('250 hello\r\n'), {
    outcome: 'deferred',
    phase: 'greeting',
    class: 'protocol',
  });
  add(
    '250 to DATA',
    async (peer) => {
      await plain(peer);
      await peer.message({ data: '250 ok' });
    },
    { outcome: 'deferred', phase: 'data', class: 'protocol' },
  );
  add(
    '354 to MAIL',
    async (peer) => {
      await plain(peer);
      await peer.message({ mail: '354 go' });
    },
    { outcome: 'deferred', phase: 'mail', class: 'protocol' },
  );
  add(
    '354 to the dot',
    async (peer) => {
      await plain(peer);
      await peer.message({ dot: '354 go' });
    },
    { outcome: 'deferred', phase: 'dot', class: 'protocol' },
  );
  add('closed before a greeting', async (peer) => peer.socket.end(), { outcome: 'deferred', phase: 'greeting' });
  add(
    'closed at MAIL',
    async (peer) => {
      await plain(peer);
      await peer.line();
      peer.socket.end();
    },
    { outcome: 'deferred', phase: 'mail' },
  );
  add(
    'closed at RCPT',
    async (peer) => {
      await plain(peer);
      await peer.answer('250 ok');
      await peer.line();
      peer.socket.end();
    },
    { outcome: 'deferred', phase: 'rcpt' },
  );
  add(
    'closed at DATA',
    async (peer) => {
      await plain(peer);
      await peer.answer('250 ok');
      await peer.answer('250 ok');
      await peer.line();
      peer.socket.end();
    },
    { outcome: 'deferred', phase: 'data' },
  );
  figure('P3', `${table.length} ways to refuse or break off: each is final or retried, as it should be`);
  for (const [name, script, expected] of table) {
    const { send } = await startScripted(t, async (peer) => void (await script(peer)));
    t.match(resultOf(await send()), { ...expected, uncertain: false }, name);
  }
});

t.test('MX-05: each recipient has its own outcome', async (t) => {
  const replies = ['250 ok', '450 4.2.1 later', '550 5.1.1 no such user', '251 will forward', '452 4.3.1 no room'];
  const to = replies.map((_, at) => `r${at}@example.test`);
  for (const greet of [plain, pipelining]) {
    const { send, mx } = await startScripted(t, async (peer) => {
      await greet(peer);
      await peer.message({ rcpt: replies });
    });
    const { sessions } = await send({ to });
    t.equal(sessions.length, 1);
    t.match(sessions[0]?.results, [
      { recipient: to[0], outcome: 'delivered', phase: 'dot' },
      { recipient: to[1], outcome: 'deferred', phase: 'rcpt', enhanced: '4.2.1' },
      { recipient: to[2], outcome: 'bounced', phase: 'rcpt', class: 'bad_mailbox' },
      { recipient: to[3], outcome: 'delivered', phase: 'dot' },
      { recipient: to[4], outcome: 'deferred', phase: 'rcpt', enhanced: '4.3.1' },
    ]);
    t.equal(mx.peers.length, 1);
  }
});

t.test(
  'a single refusal of a message for several recipients does not say that any of them does not exist',
  async (t) => {
    for (const [names, expected] of [
      [['r0'], 'bad_mailbox'],
      [['r0', 'r1'], 'other'],
    ] as const) {
      const { send } = await startScripted(t, async (peer) => {
        await plain(peer);
        await peer.message({ rcpt: names.map(() => '250 ok'), dot: '550 5.1.1 no such user' });
      });
      const { sessions } = await send({ to: names.map((name) => `${name}@example.test`) });
      for (const result of sessions[0]?.results ?? []) t.match(result, { outcome: 'bounced', class: expected });
    }
  },
);

t.test(
  'if recipients after accepted ones are refused because there are too many, that is no verdict on them',
  async (t) => {
    const [first, later] = ['r0@example.test', 'r1@example.test'];
    const table: [reply: string, expected: Partial<RecipientResult> | null][] = [
      ['452 4.5.3 too many recipients', null],
      ['552 too many', null],
      ['552 5.5.3 Too many recipients', null],
      ['550 5.5.3 Too many recipients', null],
      ['554 5.5.3 x', null],
      ['550 Requested mail action not taken: too much recipient', null],
      ['552 5.2.2 Mailbox full', { outcome: 'bounced', class: 'mailbox_full' }],
      ['550 5.1.1 no such user', { outcome: 'bounced', class: 'bad_mailbox' }],
      // One mailbox gets too much mail, which is permanent if the server says so.
      ['550 5.2.1 The user is receiving mail at a rate that is too high', { outcome: 'bounced', class: 'rate' }],
    ];
    for (const [reply, expected] of table) {
      for (const greet of [plain, pipelining]) {
        const { send, mx } = await startScripted(t, async (peer) => {
          await greet(peer);
          await peer.message({ rcpt: ['250 ok', reply] });
          if (expected === null) await peer.message();
        });
        const delivery = await send({ to: [first, later] });
        t.match(resultOf(delivery, first), { outcome: 'delivered' }, reply);
        t.match(resultOf(delivery, later), expected ?? { outcome: 'delivered', phase: 'dot' }, reply);
        t.equal(delivery.sessions.flatMap(({ results }) => results).length, 2);
        t.equal(mx.peers.length, 1);
      }
    }
    const tooMany = { outcome: 'deferred', class: 'rate', phase: 'rcpt' };
    for (const [name, dot, next] of [
      ['the next message takes none of them either', '250 ok', '452 4.5.3 too many recipients'],
      ['there are too many for the connection', '250 ok', null],
      ['the message is refused', '554 5.7.1 no', null],
    ] as const) {
      const { send, mx, transport } = await startScripted(t, async (peer) => {
        await plain(peer);
        const reply = `452 4.5.3 too many recipients${name.endsWith('connection') ? ' per session' : ''}`;
        await peer.message({ rcpt: ['250 ok', reply], dot });
        if (next !== null) for (const answer of ['250 ok', next]) await peer.answer(answer);
      });
      const delivery = await send({ to: [first, later] });
      t.match(resultOf(delivery, first), { outcome: dot.startsWith('250') ? 'delivered' : 'bounced' }, name);
      t.match(resultOf(delivery, later), tooMany, name);
      t.equal(mx.peers.length, 1);
      t.equal(transport.pool.size, dot.startsWith('250') ? 0 : 1, name);
    }
    // Nobody was accepted before, so it cannot be about their number.
    const { send } = await startScripted(t, async (peer) => {
      await plain(peer);
      await peer.message({ rcpt: ['552 5.5.3 Too many recipients', '250 ok'] });
    });
    t.match(resultOf(await send({ to: [first, later] }), first), { outcome: 'bounced' });
  },
);

t.test('MX-04, MX-05: a 421 between the recipients keeps what was decided before', async (t) => {
  const { send } = await startScripted(t, async (peer) => {
    await pipelining(peer);
    await peer.answer('250 ok');
    for (const reply of ['250 ok', '550 no such user', '421 4.3.2 going down']) await peer.answer(reply);
    peer.socket.end();
  });
  const { sessions } = await send({ to: ['r0', 'r1', 'r2', 'r3'].map((name) => `${name}@example.test`) });
  const [r0, r1, r2, r3] = sessions[0]?.results ?? [];
  t.match(r1, { outcome: 'bounced', reply: { code: 550 } });
  for (const result of [r0, r2, r3]) t.match(result, { outcome: 'deferred', reply: { code: 421 }, uncertain: false });
});
