import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { type Answer, type Answers, first, startHosts } from '../support/hosts.ts';
import { mayCloseAfterMs } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

const hangUp: Answer = (_, peer) => {
  peer.socket.destroy();
  return null;
};

/**
 * Refuses an unknown combination of source, sender and recipient, and closes the connection; the third time it is
 * known.
 */
function greylisting(): Answer {
  const known = new Map<string, number>();
  return (to, peer, from) => {
    const triplet = `${peer.socket.remoteAddress} ${from} ${to}`;
    const times = (known.get(triplet) ?? 0) + 1;
    known.set(triplet, times);
    if (times > 2) return undefined;
    setImmediate(() => peer.socket.end());
    return '451 4.7.1 greylisted, come back later';
  };
}

/** One connection: it refuses its first message, answers the third with 421 and breaks off in the fourth. */
function reused(): Answers {
  let mails = 0;
  return {
    MAIL: () => (++mails === 3 ? '421 4.3.2 going down' : undefined),
    DATA: (...asked) => (mails === 5 ? hangUp(...asked) : undefined),
    dot: () => (mails === 1 ? '554 5.6.0 no' : undefined),
  };
}

const reusedHosts = ['reused', 'reused-2', 'reused-3'];

/** Whether so much time was between two attempts that the connection of the first may have been closed. */
function isSlow(attempts: { at: string }[] = []): boolean {
  const begun = attempts.map(({ at }) => Date.parse(at));
  return begun.some((time, n) => n > 0 && time - (begun[n - 1] ?? 0) >= mayCloseAfterMs);
}

const phases = ['greeting', 'EHLO', 'MAIL', 'RCPT', 'DATA', 'dot'] as const;
const codes = [421, 451, 554] as const;
const cases = phases.flatMap((phase) =>
  codes.map((code) => ({ phase, code, name: `at-${phase.toLowerCase()}-${code}` })),
);
const refusing = cases.map(({ phase, code, name }): [string, Answers] => {
  const answer = () => first(`${code} no`);
  return [name, phase === 'EHLO' ? { EHLO: answer(), HELO: answer() } : { [phase]: answer() }];
});

const garbage = ['999 ok', 'ok', '250-a\r\n550 b', '350 ok', '\0\0\0'];
const odd = ['250', '250 5.1 caf\xe9 \xff', '250-one\n250 two'];

const mixed: Record<string, Answer> = {
  'later@mixed.test': first('450 4.2.1 later'),
  'gone@mixed.test': () => '550 5.1.1 no such user',
};

t.test("the behaviour of MX hosts, as the emails' log shows it", async (t) => {
  const heartbeat = Promise.withResolvers<void>();
  const { port, zone, hosts } = await startHosts<string>(t, {
    ...Object.fromEntries(refusing),
    ...Object.fromEntries(garbage.map((RCPT, at) => [`garbage-${at}`, { RCPT: first(RCPT) }])),
    ...Object.fromEntries(odd.map((dot, at) => [`odd-${at}`, { dot }])),
    late: { dot: () => heartbeat.promise.then(() => '250 at last') },
    silent: { dot: first(hangUp, 2) },
    unclear: { dot: first('999 ok') },
    mixed: { RCPT: (to, ...rest) => mixed[to]?.(to, ...rest) },
    grey: { RCPT: greylisting() },
    old: { EHLO: '502 what' },
    small: { EHLO: '250-small\r\n250 SIZE 500' },
    refuses: { greeting: '554 no' },
    takes: {},
    reset: {
      reading: ({ socket }) => {
        socket.pause();
        setTimeout(() => socket.resetAndDestroy(), 100);
      },
    },
    ...Object.fromEntries(reusedHosts.map((name) => [name, reused()])),
  });
  zone['next.test'] = {
    MX: [
      [10, 'mx.refuses.test'],
      [20, 'mx.takes.test'],
    ],
  };
  zone['equal.test'] = {
    MX: [
      [10, 'mx.dead.test'],
      [10, 'mx.takes.test'],
    ],
  };
  zone['mx.dead.test'] = { A: ['127.0.0.250'] };
  const { A: four = [] } = zone['mx.takes.test'] as { A: string[] };
  zone['dual.test'] = { MX: [[10, 'mx.dual.test']] };
  zone['mx.dual.test'] = { AAAA: ['::1'], A: four };

  const env = { SENDING_IPS: '127.0.0.1,127.0.0.2,::1,marketing=127.0.0.3' };
  const node = await startDirectNode(t, { zone, mxPort: port, env });
  const host = (name: string) => {
    const found = hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };
  const seenAt = async () =>
    (await node.db.query<{ seen_at: Date }>({ text: 'SELECT seen_at FROM nodes' }))[0]?.seen_at;
  const late = node.send({ to: 'a@late.test' });

  /** Waits until an email is settled: its record, its attempts, and each of these in a few words. */
  const end = async (id: string) => {
    await eventually(async () => {
      const open = { where: { id, status: 'queued' } } as const;
      return (await node.db.prisma.email.count(open)) === 0;
    });
    const email = await node.read(id);
    const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body;
    const story = attempts.map((one: Record<string, unknown>) =>
      [one.phase, one.outcome, one.reply_code, one.uncertain ? 'uncertain' : null].filter(Boolean).join(' '),
    );
    return { email, attempts, status: email.status, story };
  };
  t.jobs = 12;
  const mail = async (to: string, fields: object = {}) => end((await node.send({ to, ...fields })).id);

  t.test('MX-04: each phase and code has its outcome; 421 ends the connection', { buffered: true }, async (t) => {
    const ends = await Promise.all(cases.map(({ name }) => mail(`a@${name}.test`)));
    for (const [at, { phase, code, name }] of cases.entries()) {
      const early = phase === 'greeting' || phase === 'EHLO';
      const forGood = code === 554 && !early;
      const failed = `${phase.toLowerCase()} ${forGood ? 'bounced' : 'deferred'} ${code}`;
      const { status, story } = ends[at] ?? {};
      t.same(story, forGood ? [failed] : [failed, 'dot delivered 250'], name);
      t.equal(status, forGood ? 'failed' : 'sent', name);
      if (forGood) continue;
      const { length } = host(name).peers;
      const isEnded = code === 421 || early;
      t.ok(
        length === (isEnded ? 2 : 1) || (length === 2 && isSlow(ends[at]?.attempts)),
        `${name}: ${length} connections`,
      );
    }
  });

  t.test(
    'MX-03: if the dot is not answered, delivery is in doubt, and the same message is sent again',
    { buffered: true },
    async (t) => {
      const { story, status } = await mail('a@silent.test');
      t.same(story, ['dot deferred uncertain', 'dot deferred uncertain', 'dot delivered 250']);
      t.equal(status, 'sent');
      const ids = host('silent').copies.map(({ content }) => /^Message-ID: (.*)\r$/im.exec(content)?.[1]);
      t.equal(ids.length, 3, 'one extra copy for each lost reply');
      t.equal(new Set(ids).size, 1);
    },
  );

  t.test('MX-05: only the deferred recipient is retried', { buffered: true }, async (t) => {
    const { email, status } = await mail('ok@mixed.test', { cc: ['later@mixed.test', 'gone@mixed.test'] });
    t.equal(status, 'failed');
    t.match(email.recipients, [
      { address: 'ok@mixed.test', status: 'delivered', attempts: 1 },
      { address: 'later@mixed.test', status: 'delivered', attempts: 2 },
      { address: 'gone@mixed.test', status: 'failed', attempts: 1 },
    ]);
    t.same(host('mixed').asked, ['ok@mixed.test', 'later@mixed.test', 'gone@mixed.test', 'later@mixed.test']);
    t.same(
      host('mixed').copies.map(({ to }) => to),
      [['ok@mixed.test'], ['later@mixed.test']],
    );
  });

  t.test(
    'MX-06: a greylisting server sees the same source address and envelope again',
    { buffered: true },
    async (t) => {
      const ends = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((local) => mail(`${local}@grey.test`)));
      for (const { story, attempts } of ends) {
        t.same(story, ['rcpt deferred 451', 'rcpt deferred 451', 'dot delivered 250']);
        t.equal(new Set(attempts.map((one: { local_address: string }) => one.local_address)).size, 1);
      }
    },
  );

  t.test('MX-07: garbage is never success, and unusual replies are understood', { buffered: true }, async (t) => {
    const ends = await Promise.all(garbage.map((_, at) => mail(`a@garbage-${at}.test`)));
    for (const [at, { story, attempts }] of ends.entries()) {
      t.same(story.at(-1), 'dot delivered 250', `garbage ${at}`);
      t.match(attempts[0], { phase: 'rcpt', outcome: 'deferred', classification: 'protocol', uncertain: false });
      t.equal(host(`garbage-${at}`).copies.length, 1);
    }
    for (const [at, { story }] of (await Promise.all(odd.map((_, at) => mail(`a@odd-${at}.test`)))).entries()) {
      t.same(story, ['dot delivered 250'], `odd ${at}`);
    }
    t.same((await mail('a@unclear.test')).story, ['dot deferred uncertain', 'dot delivered 250']);
  });

  t.test('MX-08: a server gets only what it supports', { buffered: true }, async (t) => {
    const old = await mail('a@old.test', { subject: 'Grüße', text: 'Schöne Grüße' });
    t.same(old.story, ['dot delivered 250']);
    t.match(host('old').copies[0]?.content, /^[\r\n\x20-\x7e]*$/);
    const large = await mail('a@small.test', { text: 'x'.repeat(600) });
    t.match(large.attempts, [{ phase: 'local', outcome: 'bounced', enhanced_code: '5.3.4' }]);
    t.notMatch(host('small').peers[0]?.received.toString(), 'MAIL');
    const foreign = await mail('bé@takes.test');
    t.match(foreign.attempts, [{ phase: 'local', outcome: 'bounced', enhanced_code: '5.6.7' }]);
    t.same([large.status, foreign.status], ['failed', 'failed']);
    t.equal(host('takes').copies.filter(({ to }) => to.length === 0 || to[0]?.startsWith('b')).length, 0);
  });

  t.test(
    'MX-09: the next host, an equal one or the other family receives it in the same attempt',
    { buffered: true },
    async (t) => {
      const [next, equal, dual] = await Promise.all(['next', 'equal', 'dual'].map((name) => mail(`a@${name}.test`)));
      t.same(next?.story, ['greeting deferred 554', 'dot delivered 250']);
      t.same(dual?.story, ['dot delivered 250']);
      const notes = dual?.attempts[0].conversation.map(({ text }: { text: string }) => text).join('\n');
      t.match(notes, /^::1 could not be reached \(ECONNREFUSED\) after \d+ ms$/m);
      for (const one of [next, equal, dual]) t.match(one?.email, { status: 'sent', recipients: [{ attempts: 1 }] });
    },
  );

  t.test('MX-10: a reset in the middle of the message leaves no doubt', { buffered: true }, async (t) => {
    // More than the system buffers without anybody reading.
    const attachments = [{ filename: 'a.bin', content: Buffer.alloc(6_000_000).toString('base64') }];
    const { id } = await node.send({ to: 'a@reset.test', attachments });
    const [attempt] = await eventually(async () => {
      const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body;
      return attempts.length > 0 && attempts;
    });
    t.match(attempt, { phase: 'data', outcome: 'deferred', uncertain: false, reply_code: null });
    t.equal(host('reset').copies.length, 0);
  });

  t.test('MX-11: on a reused connection no message suffers from another', { buffered: true }, async (t) => {
    // In a pool with one address of that family, so that all use the same connection.
    const names = ['one', 'two', 'three', 'four'];
    for (const at of reusedHosts) {
      const connections: number[] = [];
      const ends: Awaited<ReturnType<typeof mail>>[] = [];
      for (const name of names) {
        ends.push(await mail(`${name}@${at}.test`, { type: 'marketing' }));
        connections.push(host(at).peers.length);
      }
      // Otherwise it says nothing, and another host is asked.
      if (isSlow(ends.flatMap(({ attempts }) => attempts)) && at !== reusedHosts.at(-1)) continue;
      const [one, two, three, four] = ends.map(({ story }) => story);
      t.same(one, ['dot bounced 554']);
      t.same(two, ['dot delivered 250']);
      t.equal(connections[1], 1);
      t.match(host(at).peers[0]?.received.toString(), /\r\n\.\r\nRSET\r\nMAIL FROM/);
      t.same(three, ['dot delivered 250'], 'a 421 between messages costs no attempt');
      t.same(four, ['data deferred', 'dot delivered 250']);
      t.same(
        host(at).copies.map(({ to }) => to[0]),
        names.map((name) => `${name}@${at}.test`),
      );
      break;
    }
  });

  t.test(
    'MX-01: a reply that takes longer than a heartbeat is waited for, and the message is sent once',
    { buffered: true },
    async (t) => {
      const { id } = await late;
      await eventually(async () => host('late').copies.length === 1);
      const waitingSince = await seenAt();
      await eventually(async () => ((await seenAt()) ?? 0) > (waitingSince ?? 0));
      heartbeat.resolve();
      const { story, status } = await end(id);
      t.same(story, ['dot delivered 250']);
      t.equal(status, 'sent');
      t.equal(host('late').copies.length, 1);
    },
  );
});
