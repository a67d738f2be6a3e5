import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { sealContext } from '../../src/core/domains/domains.ts';
import * as nodes from '../../src/core/nodes/nodes.ts';
import { Unanswered } from '../../src/core/nodes/unanswered.ts';
import type { OutgoingEmail } from '../../src/core/outgoing/outgoing.ts';
import { Keyring, seal } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { attempt, withoutRoom } from '../../src/delivery/attempt/attempt.ts';
import { Journal, type JournalLine } from '../../src/delivery/attempt/journal.ts';
import { Lease } from '../../src/delivery/claims/lease.ts';
import { MessageBuilder } from '../../src/delivery/message/message.ts';
import { WindingDown } from '../../src/delivery/outcome/winding-down.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { Metrics } from '../../src/process/metrics.ts';
import { opportunistic } from '../../src/smtp/policies/tls-policy.ts';
import { startMx, startScene, startScripted } from '../smtp/scene.ts';
import { unheard } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import type { Peer } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import type { ZoneEntry, ZoneRecords } from '../support/zone.ts';

const keyring = new Keyring(testKey(1));
const places = { key: randomBytes(32), baseUrl: 'https://out.test', host: 'out.test' };
const { privateKey } = generateKeyPairSync('ed25519');

function emailOf(): OutgoingEmail {
  const [id, domainId] = [newId(), newId()];
  const sealed = seal(keyring.first, privateKey.export({ type: 'pkcs8', format: 'der' }), sealContext(domainId));
  return {
    ...{ id, accountId: newId(), type: 'transactional' as const, from: 'a@shop.test', to: ['b@example.test'] },
    ...{ cc: [], replyTo: [], subject: 's', messageId: `${id}@shop.test`, tls: opportunistic, pool: null },
    ...{ onUncertain: 'retry' as const, html: null, text: 'text', headers: [], attachments: [], dueAt: new Date() },
    ...{ revoked: false, suspended: false, suppressed: new Set<string>() },
    signing: { domainId, domain: 'shop.test', keys: [{ selector: 'sw1', sealed }] },
  };
}

/** What happens to the node, and at which point of the transaction. */
interface Mishap {
  beforeData?: (db: Database, lease: Lease) => Promise<void>;
  beforeDot?: (lease: Lease) => Promise<void>;
  /** What the email asks for; its claim is in no row. */
  onUncertain?: OutgoingEmail['onUncertain'];
}

/** An attempt of a live node to a server that accepts everything, and what the server received after DATA. */
async function tryOnce(t: Test, db: Database, { beforeData, beforeDot, onUncertain = 'retry' }: Mishap) {
  const lease = new Lease(db, silentLog, { roles: ['mta'], heldListener: unheard });
  await lease.start(false);
  t.teardown(() => lease.stop());
  const claim = buildClaim({ nodeId: lease.nodeId, to: ['b@example.test'] });
  let content = '';
  const { transport } = await startScripted(t, async (peer) => {
    await peer.greet();
    await peer.answer('250 ok');
    await peer.answer('250 ok');
    await peer.until('DATA\r\n');
    await beforeData?.(db, lease);
    const before = peer.received.length;
    peer.socket.on('data', () => (content = peer.received.toString('latin1', before)));
    peer.send('354 go\r\n');
    await peer.until('\r\n.\r\n');
    peer.send('250 taken\r\n');
  });
  const folder = mkdtempSync(join(tmpdir(), 'sendwright-attempt-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  /** A slow server, with something happening meanwhile. */
  const journal = new (class extends Journal {
    override async dot(...about: Parameters<Journal['dot']>): Promise<void> {
      await super.dot(...about);
      await beforeDot?.(lease);
    }
  })(folder, silentLog);
  const tools = {
    ...{ transport, lease, clock: lease.clock, journal, log: silentLog, metrics: new Metrics() },
    messages: new MessageBuilder(keyring, places),
    unanswered: new Unanswered(db),
    policy: { scheduleMs: [60_000], forMs: 3_600_000 },
    returnPath: { key: randomBytes(32), host: 'out.test' },
  };
  const made = await attempt(
    tools,
    claim,
    { ...emailOf(), onUncertain },
    {
      site: { name: 'example.test', connections: 20, perConnection: null },
      remark: null,
      source: null,
      ending: new WindingDown(),
    },
  );
  journal.close();
  return { ...made, content, noted: notedIn(folder) };
}

/** What the journal says, line by line: the recipients of a dot, or the results of one. */
const notedIn = (folder: string) =>
  readdirSync(folder)
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    .map((text) => JSON.parse(text) as JournalLine)
    .map((line) =>
      'dot' in line
        ? line.dot.claim.recipients.length
        : line.results.map(({ outcome, uncertain }) => ({ outcome, uncertain })),
    );

t.test('a node whose claims were given to others writes no final dot: QUE-07', async (t) => {
  const db = await openDatabase(t);
  const [living, buried, over, late, freed] = await Promise.all([
    tryOnce(t, db, {}),
    tryOnce(t, db, {
      // What another node does to one that was frozen; that one notices at its next beat, and takes a new name.
      async beforeData(db, lease) {
        const { nodeId } = lease;
        await nodes.unregister(db, nodeId, unheard);
        await eventually(async () => lease.nodeId !== nodeId && lease.valid());
      },
    }),
    tryOnce(t, db, { beforeData: (_, lease) => lease.stop() }),
    tryOnce(t, db, { beforeDot: (lease) => lease.stop() }),
    tryOnce(t, db, { onUncertain: 'hold' }),
  ]);
  t.match(living, { accountId: String, settlements: [{ status: 'delivered' }], content: /\r\n\.\r\n$/ });
  const said =
    'This server stopped before the end of the message: it had lost its claim, could not record the attempt, or was shutting down.';
  for (const [what, { settlements, content, noted }, dots] of [
    ['declared dead, and back under a new name', buried, []],
    ['silent for too long', over, []],
    ['silent for too long in the moment after the check', late, [1, [{ outcome: 'deferred', uncertain: false }]]],
    ['not recorded for those who would release the claim', freed, []],
  ] as const) {
    t.match(settlements, [{ status: 'deferred', lastResponse: said, uncertain: false }], what);
    t.equal(content, '', what);
    t.strictSame(noted, dots, `${what}: content of the journal`);
  }
});

/**
 * An attempt for these recipients of `example.test` by an undisturbed node, and which recipients the server was asked
 * about.
 */
async function tryFor(
  t: Test,
  names: string[],
  {
    email = emailOf(),
    keys = keyring,
    replies = {} as Record<string, string>,
    ending = new WindingDown(),
    attempts = 0,
    slow = false,
    valid = (): boolean => true,
    greeting = null as string | null,
    firstMail = '250 ok',
    zone = {} as Record<string, ZoneEntry>,
  } = {},
) {
  const lease = { nodeId: newId(), valid } as unknown as Lease;
  const to = names.map((name) => `${name}@example.test`);
  const claim = buildClaim({ nodeId: lease.nodeId, emailId: email.id, to, attempts });
  const asked: string[] = [];
  let mails = 0;
  const script = async (peer: Peer) => {
    if (greeting !== null) return peer.send(`${greeting}\r\n`);
    await peer.greet();
    for (;;) {
      const line = await peer.line();
      const name = /^RCPT TO:<(\w+)@/.exec(line)?.[1];
      if (name !== undefined) asked.push(name);
      if (slow && name !== undefined) await setTimeout(500);
      const isFirstMail = line.startsWith('MAIL') && mails++ === 0;
      const reply = isFirstMail ? firstMail : (replies[name ?? ''] ?? '250 ok');
      peer.send(`${line === 'DATA' ? '354 go' : reply}\r\n`);
      if (line !== 'DATA') continue;
      await peer.until('\r\n.\r\n');
      peer.send('250 taken\r\n');
    }
  };
  const mx = await startMx(t, script);
  const { transport } = await startScene(t, mx.port, zone, slow ? { deadlines: { rcpt: 200 } } : {});
  const folder = mkdtempSync(join(tmpdir(), 'sendwright-attempt-'));
  const journal = new Journal(folder, silentLog);
  t.teardown(() => {
    journal.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const clock = { now: () => new Date() };
  const policy = { scheduleMs: [60_000], forMs: 3_600_000 };
  const messages = new MessageBuilder(keys, places);
  const tools = {
    ...{ transport, lease, clock, journal, messages, policy, log: silentLog, metrics: new Metrics() },
    returnPath: { key: randomBytes(32), host: 'out.test' },
    unanswered: { note: () => Promise.reject(new Error('a statement for an email that does not ask for it')) },
  };
  const how = {
    site: { name: 'example.test', connections: 20, perConnection: null },
    remark: null,
    source: null,
    ending,
  };
  const made = await attempt(tools, claim, email, how);
  journal.close();
  return { ...made, asked, claim, tools, noted: notedIn(folder), visits: mx.peers.length };
}

t.test('a message that is given up before its dot is noted leaves the answer to an earlier dot as it is', async (t) => {
  // More than one transaction has, and the node is asked twice around each dot.
  const names = Array.from({ length: 101 }, (_, at) => `r${at}`);
  let asked = 0;
  const { settlements, noted } = await tryFor(t, names, { valid: () => ++asked <= 2 });
  t.match(settlements, [...Array(100).fill({ status: 'delivered' }), { status: 'deferred', uncertain: false }]);
  t.strictSame(noted, [100, Array(100).fill({ outcome: 'delivered', uncertain: false })]);
});

t.test('a verdict on one mailbox does not decide about any other copy of a marketing email', async (t) => {
  const names = ['busy', 'ann', 'bob'];
  const taken = { status: 'delivered' };
  const table: [reply: string, expected: { status: string }[], asked: string[]][] = [
    [
      '550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.',
      [{ status: 'failed' }, taken, taken],
      names,
    ],
    ['450 4.2.1 The user is receiving mail too quickly.', [{ status: 'deferred' }, taken, taken], names],
    // About us, but permanent: the others are tried anyway.
    ['550 Ip frequency limited.', [{ status: 'failed' }, taken, taken], names],
    ['451 4.7.1 Rate limit exceeded for 192.0.2.1. Try again later.', Array(3).fill({ status: 'deferred' }), ['busy']],
  ];
  for (const [reply, expected, whom] of table) {
    const email = { ...emailOf(), type: 'marketing' as const };
    const { settlements, asked } = await tryFor(t, names, { email, replies: { busy: reply } });
    t.match(settlements, expected, reply);
    t.strictSame(asked, whom, reply);
  }
});

t.test('a server that takes nobody is asked once, and not for each copy of a marketing email', async (t) => {
  const email = { ...emailOf(), type: 'marketing' as const };
  const { settlements, visits } = await tryFor(t, ['ann', 'bob', 'cid'], { email, greeting: '554 go away' });
  t.match(settlements, Array(3).fill({ status: 'deferred', attempts: 1, lastResponse: '554 go away' }));
  t.equal(visits, 1);
});

t.test('a copy that one host deferred while the other could not be reached decides nothing for the next', async (t) => {
  const email = { ...emailOf(), type: 'marketing' as const };
  const MX: ZoneRecords['MX'] = [
    [10, 'mx.example.test'],
    [20, 'away.example.test'],
  ];
  // Nothing listens at the second address.
  const zone = { 'example.test': { MX }, 'away.example.test': { A: ['127.0.0.9'] } };
  const { settlements, asked } = await tryFor(t, ['ann', 'bob'], { email, zone, firstMail: '451 4.3.0 try later' });
  t.match(settlements, [{ status: 'deferred', lastResponse: /could not be reached|refused/ }, { status: 'delivered' }]);
  t.strictSame(asked, ['bob']);
});

t.test('a server that takes longer than the usual deadlines gets the mail at the third attempt', async (t) => {
  for (const [attempts, status] of [
    [0, 'deferred'],
    [1, 'deferred'],
    [2, 'delivered'],
  ] as const) {
    const begun = performance.now();
    const made = await tryFor(t, ['ann'], { attempts, slow: true });
    t.match(made.settlements, [{ status }], `after ${attempts}`);
    const [{ durationMs } = { durationMs: -1 }] = made.attempts;
    t.ok(durationMs >= 195 && durationMs <= performance.now() - begun + 1, `it took ${durationMs} ms`);
  }
});

t.test('a node that winds down starts no copy for another reader, and at the end completes no message', async (t) => {
  const email = { ...emailOf(), type: 'marketing' as const };
  const names = ['ann', 'bob', 'cid'];
  const undone = { status: 'deferred', attempts: 0, undone: true, uncertain: false };
  const ending = new WindingDown();
  t.teardown(() => ending.done());
  ending.begin();
  const first = await tryFor(t, names, { email, ending });
  t.match(first.settlements, [{ status: 'delivered', attempts: 1 }, undone, undone]);
  t.strictSame(
    first.attempts.map(({ recipient }) => recipient),
    ['ann@example.test'],
    'recipients who did not get a turn were not tried',
  );
  t.strictSame(first.asked, ['ann']);
  const late = new WindingDown({ drainMs: 20_000, answerMs: 20_001 });
  t.teardown(() => late.done());
  late.begin();
  const last = await tryFor(t, names, { email, ending: late });
  t.match(last.settlements, [undone, undone, undone]);
  for (const { nextAttemptAt } of last.settlements) t.ok(Number(nextAttemptAt) <= Date.now(), 'due immediately');
});

t.test(
  'a recipient that was put on the suppression list is settled for good, whatever became of the email',
  async (t) => {
    const email = { ...emailOf(), suppressed: new Set(['b@example.test']) };
    // Sealed with another key: it cannot be built.
    const keys = new Keyring(testKey(2));
    const { settlements, claim, tools } = await tryFor(t, ['b', 'c'], { email, keys });
    const expected = [
      { status: 'suppressed', nextAttemptAt: null },
      { status: 'deferred', nextAttemptAt: Date },
    ];
    t.match(settlements, expected, 'it could not be built');
    t.match(withoutRoom(tools, claim, email, 'no room').settlements, expected, 'its pool had no room');
  },
);

t.test('a copy that cannot be handed over does not undo those that were delivered', async (t) => {
  const email = { ...emailOf(), type: 'marketing' as const };
  // The second address fits into no command.
  const { settlements, asked } = await tryFor(t, ['ann', 'b b', 'cid'], { email });
  const [delivered, failed] = [{ status: 'delivered' }, { status: 'deferred', lastResponse: /could not be built/ }];
  t.match(settlements, [delivered, failed, delivered]);
  t.strictSame(asked, ['ann', 'cid']);
});
