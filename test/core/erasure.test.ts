import t, { type Test } from 'tap';
import * as destinations from '../../src/core/destinations/destinations.ts';
import { wakeDue } from '../../src/core/emails/mail-lines.ts';
import { list } from '../../src/core/log/email-log.ts';
import { rotate } from '../../src/core/operations/encryption-key-rotation.ts';
import { erase, eraseDue } from '../../src/core/privacy/erasing.ts';
import * as erasures from '../../src/core/privacy/erasures.ts';
import type { AttemptRow } from '../../src/core/recipients/attempts.ts';
import { type Claim, claim } from '../../src/core/recipients/recipients.ts';
import { type Settlement, settle } from '../../src/core/recipients/settlement.ts';
import * as returns from '../../src/core/returns/returns.ts';
import * as suppressions from '../../src/core/returns/suppressions.ts';
import { unsubscribe } from '../../src/core/returns/unsubscribe.ts';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import * as webhooks from '../../src/core/webhooks/webhooks.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { Queue } from '../../src/queue.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildNode, buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { decided } from '../support/decided.ts';
import { testKey } from '../support/keys.ts';
import { untilOneWaits } from '../support/locks.ts';
import { anyTime } from './retention-scene.ts';

const keyring = new Keyring(testKey(5));
const person = 'ann@x.test';
const never = new AbortController().signal;

async function prepare(t: Test) {
  const { db, queue } = await openQueue(t);
  const sender = await buildSender(db, testKey(5));
  const holder = holderOf(sender.account);
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const send = async (...to: string[]): Promise<string> => {
    const [accepted] = await accept(db, queue, holder, [requestOf(sender.from, to)]);
    if (!accepted || !('email' in accepted)) throw new Error('not accepted');
    return accepted.email.id;
  };
  const ask = (address = person) => erasures.ask(db, sender.account.id, { address, keepsSuppression: true }, keys);
  const nodeId = newId();
  await buildNode(db, nodeId);
  const take = () => db.transaction(async (tx) => claim(tx, nodeId, await queue.take(tx, 100, [])));
  const get = (id: string) => erasures.get(db, sender.account.id, id);
  const email = (id: string) => db.prisma.email.findUniqueOrThrow({ where: { id } });
  const recipients = (emailId: string) =>
    db.prisma.recipient.findMany({ where: { emailId }, orderBy: { position: 'asc' } });
  return { db, queue, sender, send, ask, take, get, email, recipients, accountId: sender.account.id };
}

const settlement = (
  held: Claim,
  index: number,
  status: Settlement['status'],
  { at, ...more }: { at?: Date } & Partial<Pick<Settlement, 'lastResponse' | 'suppress'>> = {},
): Settlement => ({
  ...decided(status, at),
  nodeId: held.nodeId,
  jobId: held.jobId,
  emailId: held.emailId,
  position: held.recipients[index]?.position ?? 0,
  attempts: 1,
  waitingFor: null,
  uncertain: false,
  lastResponse: '250 ok',
  suppress: null,
  ...more,
});

const attempt = (emailId: string, recipient: string, fields: Partial<AttemptRow> = {}): AttemptRow => ({
  ...{
    emailId,
    recipient,
    number: 1,
    at: new Date(),
    durationMs: 5,
    mxHost: 'mx.x.test',
    remoteAddress: null,
    localAddress: null,
  },
  ...{ tlsVersion: null, tlsCipher: null, verification: 'none', phase: 'rcpt', outcome: 'delivered', uncertain: false },
  ...{ replyCode: 250, enhancedCode: null, reply: '250 ok', reason: 'taken', classification: null, conversation: null },
  ...fields,
});

t.test('what is being sent is waited for; what is waiting is canceled at once', async (t) => {
  const { db, queue, ask, send, take, get, email, recipients } = await prepare(t);
  const sending = await send(person, 'bob@x.test');
  const [held] = await take();
  if (!held) throw new Error('nothing was claimed');
  const waiting = await send(person, 'bob@y.test');
  const { id } = await ask('ANN@x.test');
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: null, counts: { emails: 1, canceled: 1 } });
  t.match(await recipients(waiting), [{ address: 'erased-1', status: 'canceled', jobId: null }, { status: 'queued' }]);
  t.match(await email(waiting), { status: 'queued', pending: 1, to: ['erased-1', 'bob@y.test'] });
  t.match(await recipients(sending), [{ address: person, status: 'queued' }, {}], 'this one is being sent');
  t.equal((await take()).flatMap((one) => one.recipients.map(({ address }) => address)).join(), 'bob@y.test');

  // The server refuses her in words that name her, and the other recipient in other words.
  const said = `550 5.1.1 <${person}> Ann Example has left`;
  const conversation: AttemptRow['conversation'] = [
    [1, 'us', `RCPT TO:<${person}>`],
    [2, 'server', said],
    [3, 'us', 'RCPT TO:<bob@x.test>'],
    [4, 'server', '451 4.2.0 later, Bob'],
    [5, 'note', `nothing for Ann@X.test`],
  ];
  const refusal = { outcome: 'bounced', replyCode: 550, reply: said, reason: said } as const;
  await db.transaction((tx) =>
    settle(
      tx,
      queue,
      [
        settlement(held, 0, 'failed', { lastResponse: said }),
        settlement(held, 1, 'deferred', { at: new Date(), lastResponse: '451' }),
      ],
      [
        attempt(sending, person, { ...refusal, conversation }),
        attempt(sending, 'bob@x.test', {
          reply: '451 4.2.0 later, Bob',
          outcome: 'deferred',
          reason: `like ${person}`,
        }),
      ],
    ),
  );
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { sealedAddress: null, doneAt: Date, counts: { emails: 2, canceled: 1, attempts: 2 } });
  t.match(await email(sending), {
    to: ['erased-1', 'bob@x.test'],
    error: null,
    status: 'queued',
    failed: 1,
    pending: 1,
  });
  t.match(await recipients(sending), [
    { address: 'erased-1', lastResponse: null },
    { address: 'bob@x.test', lastResponse: '451' },
  ]);
  const log = await db.prisma.attempt.findMany({ where: { emailId: sending }, orderBy: { recipient: 'asc' } });
  t.match(log, [
    { recipient: 'bob@x.test', reply: '451 4.2.0 later, Bob', reason: 'like erased-1', replyCode: 250 },
    { recipient: 'erased-1', reply: null, reason: 'erased', replyCode: 550 },
  ]);
  t.strictSame(
    ((log[1]?.conversation ?? []) as [number, string, string][]).map(([, , text]) => text),
    ['RCPT TO:<erased-1>', '550 erased', 'RCPT TO:<bob@x.test>', '451 4.2.0 later, Bob', 'nothing for erased-1'],
  );
});

t.test('a waiting recipient is canceled while another is being sent to, before the email can be erased', async (t) => {
  const { db, ask, send, take, get, recipients, email } = await prepare(t);
  const id = await send(person, 'bob@y.test');
  await take();
  // Her server is busy: her part was put back.
  await db.query({
    text: `UPDATE recipients SET job_id = NULL, claimed_by = NULL, waiting_for = 'mail from before' WHERE address = $1`,
    values: [person],
  });
  const asked = await ask();
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(asked.id), { doneAt: null, counts: { emails: 0, canceled: 1 } });
  const canceled = { status: 'canceled', nextAttemptAt: null, waitingFor: null, settledAt: Date };
  t.match(await recipients(id), [canceled, { status: 'queued', settledAt: null }]);
  t.match(await email(id), { status: 'queued', pending: 1 });
});

t.test(
  'an email that ends because the erased recipient was the last has its event, which does not name that one',
  async (t) => {
    const { db, queue, ask, send, take, get, accountId, email } = await prepare(t);
    const ids = [await send(person, 'bob@x.test'), await send(person, 'bob@x.test'), await send(person)];
    await webhooks.create(db, accountId, { url: 'https://a.test/', events: [...webhooks.eventTypes] }, keyring);
    const held = (await take()).filter(({ recipients }) => recipients.length > 1);
    const later = { at: new Date(Date.now() + 60_000), lastResponse: '451 later' };
    const outcomes = [
      ['failed', `550 5.1.1 as for <${person}>`],
      ['delivered', '250 ok'],
    ] as const;
    const settlements = held.flatMap((one, at) => {
      const [status, lastResponse] = outcomes[at] ?? outcomes[0];
      return [settlement(one, 0, 'deferred', later), settlement(one, 1, status, { lastResponse })];
    });
    await db.transaction((tx) => settle(tx, queue, settlements, []));
    await db.query({ text: 'UPDATE recipients SET job_id = NULL, claimed_by = NULL' });
    const before = await db.prisma.webhookDelivery.findMany();
    const { id } = await ask();
    await eraseDue(db, keyring, silentLog, never);
    t.match(await get(id), { doneAt: Date, counts: { canceled: 3, emails: 3 } });
    const statuses = await Promise.all(ids.map(async (one) => (await email(one)).status));
    t.strictSame(statuses, ['failed', 'sent', 'canceled']);
    const all = await db.prisma.webhookDelivery.findMany({ orderBy: { emailId: 'asc' } });
    t.notMatch(JSON.stringify(all), person);
    const told = all.filter((one) => before.every((old) => old.id !== one.id));
    t.match(told, [
      { event: 'email.failed', emailId: ids[0], status: 'pending', nextAttemptAt: Date, jobId: null },
      { event: 'email.delivered', emailId: ids[1] },
    ]);
    t.equal(told.length, 2);
    t.match(
      told.map(({ payload }) => JSON.parse(payload).data),
      [
        {
          status: 'failed',
          to: ['erased-1', 'bob@x.test'],
          recipients: [{ address: 'bob@x.test', status: 'failed', response: '550 5.1.1 as for <erased-1>' }],
        },
        { status: 'delivered', to: ['erased-1', 'bob@x.test'], recipients: [{ address: 'bob@x.test' }] },
      ],
    );
  },
);

t.test('an email that ends like this counts as suppressed if its other recipient was', async (t) => {
  const { db, queue, ask, send, take, email } = await prepare(t);
  const id = await send(person, 'bob@x.test');
  const [held] = await take();
  if (!held) throw new Error('nothing was claimed');
  const settlements = [
    settlement(held, 0, 'deferred', { at: new Date(Date.now() + 60_000), lastResponse: '451 later' }),
    settlement(held, 1, 'suppressed', { lastResponse: 'bob is on the suppression list' }),
  ];
  await db.transaction((tx) => settle(tx, queue, settlements, []));
  t.match(await email(id), { status: 'queued', pending: 1, suppressed: 1 });
  await ask();
  await eraseDue(db, keyring, silentLog, never);
  t.match(await email(id), { status: 'suppressed', pending: 0 });
});

t.test('if one of several requests wants the suppression gone as well, it goes', async (t) => {
  const { db, get, accountId } = await prepare(t);
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  for (const keepsSuppression of [
    [false, true],
    [true, false],
    [true, true],
  ]) {
    await suppressions.add(db, accountId, { address: person, reason: 'manual' });
    const asked = [];
    for (const keeps of keepsSuppression)
      asked.push(await erasures.ask(db, accountId, { address: person, keepsSuppression: keeps }, keys));
    const [first, second] = asked;
    t.equal(first?.id, second?.id);
    await eraseDue(db, keyring, silentLog, never);
    const gone = keepsSuppression.every(Boolean) ? 0 : 1;
    t.match(await get(first?.id ?? ''), { doneAt: Date, counts: { suppressions: gone } }, `${keepsSuppression}`);
    t.equal(await db.prisma.suppression.count(), 1 - gone);
  }
});

t.test("what blocks mail to others, and other accounts' mail to the same address, stays as it is", async (t) => {
  const { db, accountId, send } = await prepare(t);
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const theirs = (await buildSender(db, testKey(5))).account.id;
  const emailId = await send('carl@x.test');
  const listed = [
    { accountId, address: person },
    { accountId, address: 'bob@x.test' },
    { accountId: theirs, address: person },
  ];
  await suppressions.addAll(
    db,
    listed.map((one) => ({ ...one, reason: 'bounce' as const, emailId })),
  );
  const left = async () => {
    const rows = await db.prisma.suppression.findMany({ orderBy: { id: 'asc' } });
    return rows.map(({ accountId: of, address, emailId: about }) => ({ accountId: of, address, emailId: about }));
  };
  const [own, ...others] = listed.map((one) => ({ ...one, emailId: emailId as string | null }));
  const kept = { ...own, emailId: null };
  for (const keepsSuppression of [true, false]) {
    await erasures.ask(db, accountId, { address: person, keepsSuppression }, keys);
    await eraseDue(db, keyring, silentLog, never);
    t.strictSame(new Set(await left()), new Set(keepsSuppression ? [kept, ...others] : others), `${keepsSuppression}`);
  }
});

t.test('a recipient that is being canceled is not claimed any more', async (t) => {
  const { db, ask, send, take, accountId, recipients } = await prepare(t);
  const emailId = await send(person);
  const { id } = await ask();
  let taking: Promise<Claim[]> | null = null;
  const watched: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          async query<Row>(statement: Parameters<typeof tx.query>[0]) {
            if (taking === null && /^WITH canceled/.test(statement.text)) {
              taking = take();
              await Promise.race([taking, untilOneWaits(db)]);
            }
            return tx.query<Row>(statement);
          },
        }),
      ),
  };
  t.equal(await erase(watched, { id, accountId, address: person }), true);
  t.strictSame(await taking, []);
  t.match(await recipients(emailId), [{ status: 'canceled', claimedBy: null }]);
});

t.test('what is heard afterwards does not bring the address back', async (t) => {
  const { db, queue, ask, send, take, accountId, email } = await prepare(t);
  const id = await send(person, 'bob@x.test');
  await webhooks.create(db, accountId, { url: 'https://a.test/', events: [...webhooks.eventTypes] }, keyring);
  const [held] = await take();
  if (!held) throw new Error('nothing was claimed');
  // The node is frozen and considered dead.
  await db.query({ text: 'UPDATE recipients SET job_id = NULL, claimed_by = NULL, claimed_at = NULL' });
  await ask();
  await eraseDue(db, keyring, silentLog, never);
  await wakeDue(db, queue);
  const conversation: AttemptRow['conversation'] = [[1, 'us', `RCPT TO:<${person}>`]];
  const suppress = { accountId, address: person };
  await db.transaction((tx) =>
    settle(
      tx,
      queue,
      [settlement(held, 0, 'failed', { suppress }), settlement(held, 1, 'delivered')],
      [attempt(id, person, { conversation }), attempt(id, 'bob@x.test', { conversation })],
    ),
  );
  const found = await returns.recordFor(db, queue, { emailId: id, withinDays: 90 }, ({ recipients }) =>
    recipients.map(({ address }) => ({
      ...{ address, kind: 'bounce', classification: 'other', enhancedCode: null, suppress: null },
      diagnostic: address === 'bob@x.test' ? 'Bob is away' : `${person} is away`,
    })),
  );
  t.match(found, [{ address: 'bob@x.test' }]);
  t.match(await email(id), { status: 'sent', pending: 0 });
  t.match(await db.prisma.attempt.findMany(), [{ recipient: 'bob@x.test', conversation: null }]);
  t.equal(await db.prisma.suppression.count(), 0);
  const told = await db.prisma.webhookDelivery.findMany();
  t.ok(told.length >= 3);
  t.notMatch(JSON.stringify([told, await db.prisma.return.findMany()]), person);
});

t.test('the payloads of its events are redacted a few milliseconds at a time', async (t) => {
  const { db, send, accountId } = await prepare(t);
  const emailId = await send('bob@x.test');
  await webhooks.create(db, accountId, { url: 'https://a.test/', events: ['email.failed'] }, keyring);
  const events = Array(100).fill({ type: 'email.failed', accountId, emailId });
  const order: string[] = [];
  const redact = (payload: string) => {
    if (order.push('redacted') === 1) setImmediate(() => order.push('other work'));
    const until = performance.now() + 1;
    while (performance.now() < until);
    return payload;
  };
  await db.transaction((tx) => webhooks.emitAbout(tx, null, events, redact));
  t.ok(order.indexOf('other work') > 0 && order.at(-1) === 'redacted');
});

/** The same database, but a transaction stops after the statement of this name until `letGo`. */
function stoppingAt(db: Database, name: string) {
  const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const stopping: Database = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          async query<Row>(statement: Parameters<typeof tx.query>[0]) {
            const rows = await tx.query<Row>(statement);
            if (statement.name === name) {
              reached.resolve();
              await gate.promise;
            }
            return rows;
          },
        }),
      ),
  };
  return { stopping, reached: reached.promise, letGo: gate.resolve };
}

interface Heard {
  db: Database;
  queue: Queue;
  held: Claim;
  accountId: string;
}

const bounce: returns.Returned = {
  ...{ kind: 'bounce', classification: 'bad_mailbox', enhancedCode: '5.1.1', suppress: 'bounce' },
  ...{ address: person, diagnostic: `550 <${person}>: unknown` },
};

for (const { what, read, write } of [
  {
    what: 'a bounce',
    read: 'returns-email',
    write: ({ db, queue, held: { emailId } }: Heard) =>
      returns.recordFor(db, queue, { emailId, withinDays: 90 }, () => [bounce]),
  },
  {
    what: 'an unsubscribe',
    read: 'returns-email',
    write: ({ db, queue, held: { emailId } }: Heard) => unsubscribe(db, queue, { emailId, position: 0 }),
  },
  {
    what: 'an outcome from a node that is considered dead',
    read: 'settlement-erased',
    write: ({ db, queue, held, accountId }: Heard) => {
      const outcome = settlement(held, 0, 'failed', { suppress: { accountId, address: person } });
      return db.transaction((tx) => settle(tx, queue, [outcome], [attempt(held.emailId, person)]));
    },
  },
]) {
  t.test(`${what} recorded while its recipient is being erased is erased too`, async (t) => {
    const { db, queue, send, take, accountId } = await prepare(t);
    await send(person);
    await webhooks.create(db, accountId, { url: 'https://a.test/', events: [...webhooks.eventTypes] }, keyring);
    const [held] = await take();
    if (!held) throw new Error('nothing was claimed');
    await db.query({ text: 'UPDATE recipients SET job_id = NULL, claimed_by = NULL, claimed_at = NULL' });
    const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
    const { id } = await erasures.ask(db, accountId, { address: person, keepsSuppression: false }, keys);
    const { stopping, reached, letGo } = stoppingAt(db, read);
    const writing = write({ db: stopping, queue, held, accountId });
    await reached;
    const erasing = erase(db, { id, accountId, address: person });
    await Promise.race([erasing, untilOneWaits(db)]);
    letGo();
    await writing;
    t.equal(await erasing, true);
    const { return: returned, attempt: tried, suppression, webhookDelivery } = db.prisma;
    const written = [await returned.findMany(), await tried.findMany(), await webhookDelivery.findMany()].flat();
    t.ok(written.length > 0);
    t.notMatch(JSON.stringify([written, await suppression.findMany()]), person);
  });
}

t.test('the last reply that is shown for a site names no recipient', async (t) => {
  const { db } = await prepare(t);
  const [node] = await db.prisma.node.findMany();
  const figures = { running: 0, waiting: 0, connections: 1, mostConnections: 1, perMinute: null, backoffUntil: null };
  const lastReply = `550 5.1.1 <${person}>: no such user here, ask ${person.toUpperCase()}`;
  const site = { site: 'x.test', destinations: ['x.test'], reason: null, lastSuccessAt: null, lastReply };
  await destinations.report(db, node?.id ?? '', [{ ...figures, ...site }]);
  t.match(await db.prisma.destinationReport.findMany(), [{ lastReply: '550 5.1.1 <…>: no such user here, ask …' }]);
});

t.test('an email whose last recipients are erased has none left, and keeps no content', async (t) => {
  const { db, ask, send, email, get } = await prepare(t);
  const id = await send(person, 'bob@x.test');
  await ask();
  await eraseDue(db, keyring, silentLog, never);
  t.equal(await db.prisma.emailContent.count(), 1);
  const second = await ask('bob@x.test');
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(second.id), { counts: { contents: 1, emails: 1 } });
  t.match(await email(id), { to: ['erased-1', 'erased-2'], subject: '', recipientAddresses: [], status: 'canceled' });
  t.equal(await db.prisma.emailContent.count(), 0);
});

t.test('an email with two tags that are the same without the address is counted once', async (t) => {
  const { db, queue, sender, ask, accountId } = await prepare(t);
  const tags = [`for-${person}`, `for-${person.toUpperCase()}`, 'kept'];
  await accept(db, queue, holderOf(sender.account), [requestOf(sender.from, [person, 'bob@x.test'], { tags })]);
  await ask();
  await eraseDue(db, keyring, silentLog, never);
  for (const tag of ['for-erased', 'kept']) {
    const { emails, count } = await list(db, { ...anyTime, accountId, tag }, { limit: 10, offset: 0, cursor: null });
    t.strictSame([emails.length, count], [1, 1], tag);
  }
});

t.test('mail accepted after the request does not delay it, and a second request covers that mail too', async (t) => {
  const { db, ask, send, take, get, email } = await prepare(t);
  const { id } = await ask();
  const requestedEarlier = {
    text: `UPDATE erasures SET asked_at = asked_at - interval '2 min' WHERE id = $1`,
    values: [id],
  };
  await db.query(requestedEarlier);
  const later = await send(person);
  t.equal((await take()).length, 1, 'it is being sent');
  t.equal((await ask()).id, id);
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: null });
  await db.query(requestedEarlier);
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: Date, counts: { emails: 0 } });
  t.match(await email(later), { to: [person] });
});

t.test('an erasure finishes and leaves later mail alone, even if its recipient gets more all the time', async (t) => {
  const { db, ask, send, get, accountId } = await prepare(t);
  await send(person);
  await db.query({ text: `UPDATE emails SET created_at = now() - interval '3 min'` });
  const { id } = await ask();
  await db.query({ text: `UPDATE erasures SET asked_at = now() - interval '2 min'` });
  const most = 30;
  let transactions = 0;
  const busy: Database = {
    ...db,
    async transaction(work) {
      transactions += 1;
      if (transactions <= most) await send(person);
      return db.transaction(work);
    },
  };
  t.equal(await erase(busy, { id, accountId, address: person }), true);
  t.ok(transactions < most / 2, `${transactions} transactions`);
  const { doneAt, counts } = await get(id);
  t.ok(doneAt);
  t.ok(erasures.countsOf({ counts }).canceled < transactions, 'not everything that arrived meanwhile was canceled');
});

t.test('an erasure waits for emails from before a failover to a database whose clock is behind', async (t) => {
  const { db, queue, ask, send, take, get } = await prepare(t);
  await send(person);
  const [held] = await take();
  await db.query({ text: `UPDATE emails SET created_at = now() + interval '2 weeks'` });
  const { id } = await ask();
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: null, counts: { emails: 0 } });
  await db.transaction((tx) => settle(tx, queue, held ? [settlement(held, 0, 'delivered')] : [], []));
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: Date, counts: { emails: 1 } });
});

t.test('however many emails are being sent, the others are erased', async (t) => {
  const { ask, send, take, get, db } = await prepare(t);
  for (let n = 0; n < 25; n += 1) await send(person);
  t.equal((await take()).length, 25);
  for (let n = 0; n < 3; n += 1) await send(person);
  const { id } = await ask();
  await eraseDue(db, keyring, silentLog, never);
  t.match(await get(id), { doneAt: null, counts: { emails: 3, canceled: 3 } });
});

t.test(
  'many emails are erased in batches, counted once even by two nodes, and a stop ends it between batches',
  async (t) => {
    const { db, ask, send, get, accountId } = await prepare(t);
    const emails = 50;
    for (let n = 0; n < emails; n += 1) await send(person);
    const { id } = await ask();
    const one = { id, accountId, address: person };
    const stop = new AbortController();
    const seen: number[] = [];
    const onProgress = ({ emails: done }: erasures.Counts) => {
      seen.push(done);
      if (done > 0) stop.abort();
    };
    t.equal(await erase(db, one, { onProgress, stop: stop.signal }), false);
    t.strictSame([...new Set(seen)], [0, 20]);
    t.match(await get(id), { doneAt: null, counts: { emails: 20, canceled: emails } });
    const canceled = { ...anyTime, accountId, status: 'canceled' as const };
    const found = async () => {
      const { emails: shown, count } = await list(db, canceled, { limit: 100, offset: 0, cursor: null });
      return [shown.length, count];
    };
    t.strictSame(await found(), [emails, emails], 'found as canceled, although none was scheduled');
    t.strictSame(await Promise.all([erase(db, one), erase(db, one)]), [true, true]);
    t.match(await get(id), {
      doneAt: Date,
      counts: { emails, contents: emails, recipients: emails, canceled: emails },
    });
    t.strictSame(await found(), [emails, emails], 'and once they are erased');
  },
);

t.test('an erasure whose address cannot be opened holds up no others', async (t) => {
  const { db, ask, get } = await prepare(t);
  const [broken, sound] = [await ask(), await ask('bob@x.test')];
  await db.query({ text: `UPDATE erasures SET sealed_address = 'not sealed' WHERE id = $1`, values: [broken.id] });
  const warned: unknown[] = [];
  const log = { warn: (about: unknown) => void warned.push(about) };
  await eraseDue(db, keyring, log, never);
  t.match(await get(sound.id), { doneAt: Date });
  t.equal((await get(broken.id)).doneAt, null);
  t.match(warned, [{ erasureId: broken.id }]);
});

t.test('an address that waits to be erased is sealed again with the other secrets', async (t) => {
  const { db, ask, send, get } = await prepare(t);
  await send(person);
  const { id } = await ask();
  const both = new Keyring(testKey(5), testKey(6));
  await rotate(db, both, new Keyring(testKey(6)).first);
  await eraseDue(db, new Keyring(testKey(6)), silentLog, never);
  t.match(await get(id), { doneAt: Date, counts: { emails: 1 } });
});
