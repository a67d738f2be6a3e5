import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { erase, eraseDue } from '../../src/core/privacy/erasing.ts';
import * as erasures from '../../src/core/privacy/erasures.ts';
import { tokenKeys } from '../../src/core/secrets/service-secrets.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database, Sql } from '../../src/db/client.ts';
import { ensurePartitions, listPartitions } from '../../src/db/partitions.ts';
import { floorId, newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';

const keyring = new Keyring(testKey(5));
const person = 'iris@x.test';

async function prepare(t: Test, emails: number) {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, testKey(5));
  const requests = Array.from({ length: emails }, () => requestOf(from, [person, 'bob@x.test']));
  const accepted = await accept(db, queue, holderOf(account), requests);
  const emailIds = accepted.flatMap((one) => ('email' in one ? [one.email.id] : []));
  /** Stores this many webhook calls about an email, of 50 kB each. */
  const tell = async (emailId: string | undefined, calls: number, idOf = newId) => {
    const recipients = [
      { address: person, response: `250 for ${person}` },
      ...Array(2_000).fill({ address: 'bob@x.test' }),
    ];
    const payload = JSON.stringify({
      type: 'email.sent',
      data: { to: [person, 'bob@x.test'], subject: 's', recipients },
    });
    const attempts = JSON.stringify([
      { response_status: 200, response_body: `thanks for ${person}` },
      { response_status: 410 },
    ]);
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status, attempts)
             SELECT id, $2, $3, $4, 'email.sent', $5, 'succeeded', $6 FROM unnest($1::uuid[]) id`,
      values: [Array.from({ length: calls }, idOf), account.id, newId(), emailId, payload, attempts],
    });
  };
  const input = { address: person, keepsSuppression: true };
  const { id } = await erasures.ask(db, account.id, input, { keyring, tokenKeys: await tokenKeys(db, keyring) });
  const get = () => erasures.get(db, account.id, id);
  return { db, emailIds, tell, get, one: { id, accountId: account.id, address: person } };
}

/** The same database, where this function runs each statement of a transaction. */
const around = (
  db: Database,
  query: (tx: Sql, ...statement: Parameters<Sql['query']>) => Promise<unknown[]>,
): Database => ({
  ...db,
  transaction: (work) =>
    db.transaction((tx) =>
      work({ query: async <Row>(statement: Parameters<Sql['query']>[0]) => (await query(tx, statement)) as Row[] }),
    ),
});

t.test('webhook calls are erased a few megabytes at a time, and each is counted once', async (t) => {
  const { db, emailIds, tell, get, one } = await prepare(t, 2);
  for (const emailId of emailIds) await tell(emailId, 100);
  const heaviest = { said: 0, heard: 0 };
  const weighed = around(db, async (tx, statement) => {
    const rows = await tx.query(statement);
    heaviest.said = Math.max(heaviest.said, JSON.stringify(statement.values ?? []).length);
    heaviest.heard = Math.max(heaviest.heard, JSON.stringify(rows).length);
    return rows;
  });
  const stop = new AbortController();
  const seen: number[] = [];
  const onProgress = ({ webhook_deliveries: deliveries }: erasures.Counts) => {
    seen.push(deliveries);
    if (deliveries > 0) stop.abort();
  };
  t.equal(await erase(weighed, one, { onProgress, stop: stop.signal }), false);
  t.ok((seen.at(-1) ?? 0) > 0 && (seen.at(-1) ?? 0) < 100, `${seen.at(-1)} of 200`);
  t.match(
    await get(),
    { doneAt: null, counts: { emails: 0 } },
    'the email is found again until everything about it is erased',
  );

  let [stretches, told] = [0, false];
  const interrupted = around(weighed, async (tx, statement) => {
    if (/^UPDATE webhook_deliveries/.test(statement.text)) stretches += 1;
    // A node whose clock is behind adds a call, which is sorted before those that are already erased.
    if (stretches === 2 && !told) {
      told = true;
      await tell(emailIds[0], 1, () => floorId(new Date(Date.now() - 3_600_000)));
    }
    return tx.query(statement);
  });
  t.equal(await erase(interrupted, one), true);
  t.ok(stretches > 4, `${stretches}`);
  t.match(await get(), { doneAt: Date, counts: { emails: 2, recipients: 2, webhook_deliveries: 201 } });
  t.ok(Math.max(heaviest.said, heaviest.heard) < 4 * 1024 * 1024, JSON.stringify(heaviest));
  const left = await db.prisma.webhookDelivery.findMany();
  t.equal(left.length, 201);
  t.notMatch(JSON.stringify(left), person);
  t.match(left[0]?.attempts, [{ response_status: 200, response_body: null }, { response_status: 410 }]);
  t.match(JSON.parse(left[0]?.payload ?? '').data, {
    to: ['erased-1', 'bob@x.test'],
    recipients: [{ response: null }],
  });
});

t.test('the conversations of many attempts are erased a few megabytes at a time', async (t) => {
  const { db, emailIds, get, one } = await prepare(t, 1);
  const conversation = Array.from({ length: 200 }, (_, n) => [n, 'server', `451 ${'later '.repeat(10)} ${person}`]);
  await db.query({
    text: `INSERT INTO attempts (id, email_id, recipient, number, at, duration_ms, phase, outcome, uncertain, verification, reason, conversation)
           SELECT id, $2, 'bob@x.test', 1, now(), 5, 'rcpt', 'deferred', false, 'none', 'later', $3 FROM unnest($1::uuid[]) id`,
    values: [Array.from({ length: 400 }, newId), emailIds[0], JSON.stringify(conversation)],
  });
  let heaviest = 0;
  const weighed = around(db, async (tx, statement) => {
    heaviest = Math.max(heaviest, JSON.stringify(statement.values ?? []).length);
    return tx.query(statement);
  });
  t.equal(await erase(weighed, one), true);
  t.match(await get(), { counts: { emails: 1, attempts: 400 } });
  t.ok(heaviest < 4 * 1024 * 1024, `${heaviest}`);
  const left = await db.prisma.attempt.findMany();
  t.match([left.length, left[0]?.conversation], [400, [[0, 'server', /^451 later .* erased-1$/]]]);
  t.notMatch(JSON.stringify(left), person);
});

t.test('a batch that is too large is erased email by email, wherever the error comes from', async (t) => {
  const { db, get } = await prepare(t, 3);
  const narrow = around(db, async (tx, statement) => {
    const [ids] = statement.values ?? [];
    const isTooMuch = /^DELETE FROM sandbox_messages/.test(statement.text) && Array.isArray(ids) && ids.length > 1;
    if (isTooMuch) throw new RangeError('Invalid string length');
    return tx.query(statement);
  });
  await eraseDue(narrow, keyring, silentLog, new AbortController().signal);
  t.match(await get(), { doneAt: Date, counts: { emails: 3 } });
});

t.test('the address is also erased from webhook calls that are kept longer than their email', async (t) => {
  const { db, get, one } = await prepare(t, 1);
  // As in a Turkish database, where the small letter of I is not i.
  await db.query({ text: 'ALTER TABLE webhook_deliveries ALTER payload TYPE text COLLATE "tr-x-icu"' });
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 3_600_000);
  const gone = newId(daysAgo(90));
  // Its week is kept, because other emails of that week still wait.
  const thinnedOut = newId(daysAgo(50));
  await ensurePartitions(db, daysAgo(50));
  for (const { table, name, to } of await listPartitions(db))
    if (table === 'webhook_deliveries' && to < daysAgo(30)) await db.query({ text: `DROP TABLE ${name}` });
  const told = async (
    to: string[],
    fields: { accountId?: string; emailId?: string; tags?: string[]; heard?: string; claimed?: boolean } = {},
  ) => {
    const { accountId = one.accountId, emailId = gone, tags, heard = null, claimed = false } = fields;
    const id = newId();
    const payload = JSON.stringify({ type: 'email.unsubscribed', data: { to, subject: 'For you', tags } });
    const attempts = JSON.stringify([{ response_status: 200, response_body: heard }]);
    await db.query({
      text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status, attempts, claimed_by)
             VALUES ($1, $2, $1, $3, 'email.unsubscribed', $4, 'succeeded', $5, CASE WHEN $6 THEN $1::uuid END)`,
      values: [id, accountId, emailId, payload, attempts, claimed],
    });
    return id;
  };
  const named = await told([`Iris <${person.toUpperCase()}>`, 'bob@x.test'], { heard: 'thanks' });
  const answered = await told(['erased-1', 'bob@x.test'], { heard: `thanks for ${person}` });
  const tagged = await told(['erased-1'], { tags: [`for-${person}`, 'kept'] });
  const others = [
    await told([`jo${person}`], { heard: 'thanks' }),
    await told([person], { accountId: (await buildSender(db, testKey(5))).account.id, heard: person }),
  ];
  for (let n = 0; n < 30; n += 1) others.push(await told([`jo${person}`]));
  // An email that is still there, in that week, and is not to the person.
  const waiting = newId(daysAgo(50));
  await db.query({
    text: `INSERT INTO emails (id, account_id, domain_id, "from", "to", cc, bcc, reply_to, subject, tags, message_id, pending, created_at)
           VALUES ($1, $2, $2, 'a@b.test', '{bob@x.test}', '{}', '{}', '{}', 's', '{}', 'm', 1, $3)`,
    values: [waiting, one.accountId, daysAgo(50)],
  });
  others.push(await told(['bob@x.test'], { emailId: waiting, tags: [`for-${person}`] }));
  const claimed = await told([person], { emailId: thinnedOut, claimed: true });
  const shown = () => db.prisma.webhookDelivery.findMany({ orderBy: { id: 'asc' } });
  const those = async (ids: string[]) => (await shown()).filter(({ id }) => ids.includes(id));
  const before = await those([...others, claimed]);

  t.equal(await erase(db, one), false, 'one call is being made');
  t.strictSame(await those([...others, claimed]), before);
  await db.query({ text: 'UPDATE webhook_deliveries SET claimed_by = NULL WHERE id = $1', values: [claimed] });
  t.equal(await erase(db, one), true);
  t.match(await get(), { doneAt: Date, counts: { emails: 1, webhook_deliveries: 4 } });
  t.strictSame(await those(others), before.slice(0, -1));
  const left = await those([named, answered, tagged, claimed]);
  t.notMatch(JSON.stringify(left).toLowerCase(), person);
  // Nobody knows any more whom else the email was for, so its subject goes as well.
  t.strictSame(
    left.map(({ payload }) => JSON.parse(payload).data),
    [
      { to: ['erased', 'bob@x.test'], subject: '' },
      { to: ['erased-1', 'bob@x.test'], subject: '' },
      { to: ['erased-1'], subject: '', tags: ['for-erased', 'kept'] },
      { to: ['erased'], subject: '' },
    ],
  );
  t.match(left[0]?.attempts, [{ response_status: 200, response_body: null }]);
});

t.test('so it is if the week of the email is kept because others wait, a few megabytes at a time', async (t) => {
  const { db, tell, get, one } = await prepare(t, 1);
  const at = (days: number, ms = 0) => new Date(Date.now() - days * 24 * 3_600_000 + ms);
  await ensurePartitions(db, at(50));
  const [first, gone] = [newId(at(50)), newId(at(50, 1))];
  // Calls of another account, which have to be passed over.
  await db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status)
           SELECT id, $2, $2, $3, 'email.sent', '{"data":{"to":["' || $4 || '"]}}', 'succeeded' FROM unnest($1::uuid[]) id`,
    values: [Array.from({ length: 10_050 }, () => newId(at(50))), newId(), first, person],
  });
  await tell(gone, 100, () => newId(at(50)));
  await db.query({
    text: `UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = now() WHERE email_id = $1`,
    values: [gone],
  });
  let heaviest = 0;
  const weighed = around(db, async (tx, statement) => {
    const rows = await tx.query(statement);
    heaviest = Math.max(heaviest, JSON.stringify(rows).length);
    return rows;
  });
  t.equal(await erase(weighed, one), true);
  t.match(await get(), { doneAt: Date, counts: { emails: 1, webhook_deliveries: 100 } });
  const naming = (emailId: string) =>
    db.prisma.webhookDelivery.count({ where: { emailId, payload: { contains: person } } });
  t.strictSame([await naming(gone), await naming(first)], [0, 10_050]);
  t.ok(heaviest < 4 * 1024 * 1024, `${heaviest}`);
});

t.test("somebody's many emails are looked up once, not for each batch", async (t) => {
  const { db, emailIds, get, one } = await prepare(t, 100);
  let [lookups, locked, others] = [0, false, 0];
  const watched = around(db, async (tx, statement) => {
    if (/FROM idempotency_keys/.test(statement.text)) others += 1;
    if (/^WITH named/.test(statement.text) && !/pending > 0|created_at <=/.test(statement.text)) lookups += 1;
    // Meanwhile one of the emails is being sent, and another is removed with its week.
    if (/^UPDATE emails e SET "from"/.test(statement.text) && !locked) {
      locked = true;
      await db.query({
        text: 'UPDATE recipients SET claimed_by = $2 WHERE email_id = $1',
        values: [emailIds[50], newId()],
      });
      for (const table of ['recipients', 'email_contents'])
        await db.query({ text: `DELETE FROM ${table} WHERE email_id = $1`, values: [emailIds[70]] });
      await db.query({ text: 'DELETE FROM emails WHERE id = $1', values: [emailIds[70]] });
    }
    return tx.query(statement);
  });
  t.equal(await erase(watched, one), false);
  t.equal(lookups, 1);
  t.equal(others, 0, 'while one is being sent, the idempotency keys are not searched');
  t.match(await get(), { doneAt: null, counts: { emails: 98 } });
  await db.query({ text: 'UPDATE recipients SET claimed_by = NULL' });
  t.equal(await erase(watched, one), true);
  t.ok(others > 0);
  t.match(await get(), { doneAt: Date, counts: { emails: 99 } });
});

t.test(
  'waiting emails are looked up once, not for each batch, and canceled unless a node has them in hand',
  async (t) => {
    const { db, emailIds, get, one } = await prepare(t, 650);
    await db.query({
      text: 'UPDATE recipients SET claimed_by = $2 WHERE email_id = ANY($1)',
      values: [[emailIds[300], emailIds[640]], newId()],
    });
    let lookups = 0;
    const watched = around(db, async (tx, statement) => {
      if (/^WITH named/.test(statement.text) && /pending > 0/.test(statement.text)) lookups += 1;
      return tx.query(statement);
    });
    const stop = new AbortController();
    const onProgress = ({ canceled }: erasures.Counts) => canceled === 648 && stop.abort();
    t.equal(await erase(watched, one, { onProgress, stop: stop.signal }), false);
    t.match(await get(), { doneAt: null, counts: { canceled: 648, emails: 0 } });
    t.equal(lookups, 1);
    await db.query({ text: 'UPDATE recipients SET claimed_by = NULL' });
    t.equal(await erase(watched, one), true);
    t.match(await get(), { doneAt: Date, counts: { canceled: 650, emails: 650 } });
  },
);

t.test(
  'the address is erased from display names of others, and a reply that was only about it is removed',
  async (t) => {
    const { db, queue } = await openQueue(t);
    const { account, from } = await buildSender(db, testKey(5));
    const named = (name: string, address: string) => parseMailbox(`"${name}" <${address}>`);
    const request = (to: string[]) => ({
      ...requestOf(from, to),
      from: named(`${person} via Shop`, from),
      cc: [named(`for ${person}`, 'cy@x.test')],
      replyTo: [named(person.toUpperCase(), 'ticket-1@shop.test')],
    });
    const accepted = await accept(db, queue, holderOf(account), [
      request([person, 'bob@x.test']),
      request([person, 'bob@x.test']),
    ]);
    const [first, second] = accepted.flatMap((one) => ('email' in one ? [one.email.id] : []));
    const say = (id: string | undefined, whose: string, words: string) =>
      db.query({
        text: `WITH said AS (UPDATE recipients SET last_response = $3 WHERE email_id = $1 AND address = ANY($2))
             UPDATE emails SET error = $3 WHERE id = $1`,
        values: [id, whose.split(' '), words],
      });
    await say(first, person, '550 5.1.1 Ann Example has left');
    await say(second, `${person} bob@x.test`, '550 5.7.1 no mail from you');
    const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
    const { id } = await erasures.ask(db, account.id, { address: person, keepsSuppression: true }, keys);
    t.equal(await erase(db, { id, accountId: account.id, address: person }), true);
    const left = await db.prisma.email.findMany({ orderBy: { id: 'asc' } });
    t.strictSame(
      left.map(({ from, to, cc, replyTo, error }) => [from, to, cc, replyTo, error]),
      [null, '550 5.7.1 no mail from you'].map((error) => [
        `"erased-1 via Shop" <${from}>`,
        ['erased-1', 'bob@x.test'],
        ['"for erased-1" <cy@x.test>'],
        ['"erased-1" <ticket-1@shop.test>'],
        error,
      ]),
    );
  },
);

t.test(
  'what servers said about the person goes, even without the address, and what they said of others stays',
  async (t) => {
    const { db, emailIds, get, one } = await prepare(t, 2);
    const [shared, alone] = emailIds;
    // Of the second one the other recipient was erased earlier.
    await db.query({
      text: `UPDATE recipients SET address = 'erased-2' WHERE email_id = $1 AND address = 'bob@x.test'`,
      values: [alone],
    });
    const said = (about: string, words: string) => {
      const conversation = JSON.stringify([[5, 'server', `550 5.1.1 ${words}`]]);
      return { about, reply: `550 5.1.1 ${words}`, reason: words, conversation };
    };
    const tried = [
      { emailId: shared, ...said(person, 'Ann Example has left') },
      { emailId: shared, ...said('bob@x.test', 'Bob is on holiday') },
      { emailId: shared, ...said(person, 'come back later') },
      { emailId: shared, ...said('bob@x.test', 'come back later') },
      { emailId: alone, ...said(person, 'Ann Example has left') },
      { emailId: alone, ...said('erased-2', 'erased') },
    ];
    await db.query({
      text: `INSERT INTO attempts (id, email_id, recipient, number, at, duration_ms, phase, outcome, uncertain, verification, reply, reason, conversation)
           SELECT id, e, about, 1, now(), 5, 'rcpt', 'bounced', false, 'none', reply, reason, conversation::jsonb
             FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[]) a (id, e, about, reply, reason, conversation)`,
      values: [
        tried.map(() => newId()),
        tried.map(({ emailId }) => emailId),
        tried.map(({ about }) => about),
        tried.map(({ reply }) => reply),
        tried.map(({ reason }) => reason),
        tried.map(({ conversation }) => conversation),
      ],
    });
    t.equal(await erase(db, one), true);
    t.match(await get(), { doneAt: Date, counts: { emails: 2 } });
    const left = await db.prisma.attempt.findMany({ orderBy: { id: 'asc' } });
    const nothing = { reply: null, reason: 'erased' };
    t.match(left, [
      { recipient: 'erased-1', ...nothing, conversation: [[5, 'server', '550 erased']] },
      {
        recipient: 'bob@x.test',
        reply: '550 5.1.1 Bob is on holiday',
        reason: 'Bob is on holiday',
        conversation: [[5, 'server', '550 5.1.1 Bob is on holiday']],
      },
      { recipient: 'erased-1', ...nothing, conversation: [[5, 'server', '550 5.1.1 come back later']] },
      {
        recipient: 'bob@x.test',
        reply: '550 5.1.1 come back later',
        conversation: [[5, 'server', '550 5.1.1 come back later']],
      },
      { recipient: 'erased-1', ...nothing, conversation: null },
      { recipient: 'erased-2', ...nothing, conversation: null },
    ]);
  },
);

t.test('what came back for another recipient of the same email is kept', async (t) => {
  const { db, emailIds, get, one } = await prepare(t, 1);
  await db.query({
    text: `INSERT INTO returns (account_id, email_id, recipient, kind, diagnostic)
           SELECT $1, $2, recipient, 'bounce', '550 not for ' || $3 FROM unnest(ARRAY[$3, 'bob@x.test']) recipient`,
    values: [one.accountId, emailIds[0], person],
  });
  t.equal(await erase(db, one), true);
  const left = await db.prisma.return.findMany({ orderBy: { recipient: 'asc' } });
  t.match(left, [
    { recipient: 'bob@x.test', diagnostic: '550 not for erased' },
    { recipient: 'erased-1', diagnostic: null },
  ]);
  t.equal(left.length, 2);
  t.match(await get(), { doneAt: Date, counts: { returns: 1 } });
});

t.test('an address of somebody else that ends with the erased one is kept', async (t) => {
  const { db, queue } = await openQueue(t);
  const { account, domain } = await buildSender(db, testKey(5));
  const address = `neil@${domain}`;
  const other = `o'neil@${domain}`;
  const mailboxText = `"o'neil for ${address}" <${other}>`;
  const mailbox = parseMailbox(mailboxText);
  const request = requestOf(other, [address, other], { replyTo: [mailbox] });
  const [accepted] = await accept(db, queue, holderOf(account), [request]);
  const emailId = accepted && 'email' in accepted ? accepted.email.id : null;
  const recipients = [address, other].map((one) => ({ address: one, status: 'failed', response: `550 <${address}>` }));
  const told = { type: 'email.failed', data: { from: other, to: [mailboxText, address], recipients } };
  await db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status)
           VALUES ($1, $2, $3, $4, 'email.failed', $5, 'succeeded')`,
    values: [newId(), account.id, newId(), emailId, JSON.stringify(told)],
  });
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const { id } = await erasures.ask(db, account.id, { address, keepsSuppression: true }, keys);
  t.equal(await erase(db, { id, accountId: account.id, address }), true);
  t.match(await db.prisma.email.findFirst(), {
    from: other,
    to: ['erased-1', other],
    replyTo: [`"o'neil for erased-1" <${other}>`],
  });
  const [delivery] = await db.prisma.webhookDelivery.findMany();
  t.strictSame(JSON.parse(delivery?.payload ?? '').data, {
    from: other,
    to: [`"o'neil for erased-1" <${other}>`, 'erased-1'],
    recipients: [
      { address: 'erased-1', status: 'failed', response: null },
      { address: other, status: 'failed', response: '550 <erased-1>' },
    ],
    subject: '',
  });
});

t.test('so it is in the answers kept for idempotency keys', async (t) => {
  const { db } = await openQueue(t);
  const { account } = await buildSender(db, testKey(5));
  const [address, other] = ['neil@x.test', "o'neil@x.test"];
  const of = (to: string, fields: object = {}) => {
    const lists = { cc: [], bcc: [], reply_to: [other] };
    return {
      id: newId(),
      from: `O'Neil <${other}>`,
      to,
      ...lists,
      subject: 'For you',
      tags: [],
      error: null,
      ...fields,
    };
  };
  const refused = [{ index: 3, error: 'invalid request', detail: `nothing for ${address}` }];
  const emails = [of(other), of(address), of('bob@x.test', { cc: [`${address} <${other}>`, `Neil <${address}>`] })];
  const answers = {
    batch: { emails, count: 4, errors: refused },
    tagged: { email: of('bob@x.test', { tags: [`for-${address}`] }) },
    untouched: { email: of(other) },
    [`for-${address}`]: { email: of('bob@x.test') },
  };
  const theirs = (await buildSender(db, testKey(5))).account.id;
  await db.query({
    text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, response, expires_at)
           SELECT unnest($1::uuid[]), key, '', value, now() + interval '1 day' FROM json_each($2)`,
    values: [[account.id, theirs], JSON.stringify(answers)],
  });
  const keys = { keyring, tokenKeys: await tokenKeys(db, keyring) };
  const { id } = await erasures.ask(db, account.id, { address, keepsSuppression: true }, keys);
  t.equal(await erase(db, { id, accountId: account.id, address }), true);
  const answersOf = (accountId: string) =>
    db.query<{ key: string; response: object }>({
      text: 'SELECT key, response FROM idempotency_keys WHERE account_id = $1 ORDER BY key',
      values: [accountId],
    });
  const ofTheirs = (await answersOf(theirs)).map(({ key, response }) => [key, response]);
  t.strictSame(Object.fromEntries(ofTheirs), answers, 'another account has the same keys');
  const kept = await answersOf(account.id);
  const [first, second, third] = emails;
  t.strictSame(kept, [
    {
      key: 'batch',
      response: {
        emails: [
          first,
          { ...second, to: 'erased', subject: '' },
          { ...third, cc: [`erased <${other}>`, 'erased'], subject: '' },
        ],
        count: 4,
        errors: [{ ...refused[0], detail: 'nothing for erased' }],
      },
    },
    { key: 'tagged', response: { email: { ...answers.tagged.email, tags: ['for-erased'], subject: '' } } },
    { key: 'untouched', response: answers.untouched },
  ]);
  t.match(await erasures.get(db, account.id, id), { counts: { idempotency_keys: 3 } });
});

t.test('answers kept for idempotency keys are searched in batches of hundreds and of a few megabytes', async (t) => {
  const { db, get, one } = await prepare(t, 1);
  const keep = (key: string, many: number, answer: object) =>
    db.query({
      text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, response, expires_at)
             SELECT $1, $2 || lpad(n::text, 4, '0'), '', $4, now() + interval '1 day' FROM generate_series(1, $3::int) n`,
      values: [one.accountId, key, many, JSON.stringify(answer)],
    });
  await keep('a', 1_200, { email: { to: 'bob@x.test' } });
  // Like the answer to a batch of emails, with content that cannot be compressed.
  await keep('b', 10, { emails: [{ to: person, subject: randomBytes(300_000).toString('base64') }] });
  await keep('c', 1_200, { email: { to: 'bob@x.test' } });
  await keep(`to ${person} `, 1, {});
  let [stretches, heaviest] = [0, 0];
  const watched = around(db, async (tx, statement) => {
    const rows = await tx.query(statement);
    if (/FROM idempotency_keys/.test(statement.text)) heaviest = Math.max(heaviest, JSON.stringify(rows).length);
    if (/^UPDATE idempotency_keys/.test(statement.text)) stretches += 1;
    return rows;
  });
  t.equal(await erase(watched, one), true);
  t.match(await get(), { counts: { idempotency_keys: 11 } });
  t.ok(stretches > 5 && stretches < 20, `${stretches} stretches`);
  t.ok(heaviest < 3 * 1024 * 1024, `${heaviest}`);
  const [left] = await db.query<{ keys: number; naming: number }>({
    text: `SELECT count(*)::int AS keys, (count(*) FILTER (WHERE strpos(key || response::text, $1) > 0))::int AS naming FROM idempotency_keys`,
    values: [person],
  });
  t.strictSame(left, { keys: 2_410, naming: 0 });
});

t.test('answers to large batches are searched a few milliseconds at a time', async (t) => {
  const { db, one } = await prepare(t, 1);
  const emails = Array(1_000).fill({ from: 'shop@x.test', to: 'iris@y.test', subject: 'For you', tags: ['iris'] });
  await db.query({
    text: `INSERT INTO idempotency_keys (account_id, key, fingerprint, response, expires_at)
           SELECT $1, n, '', $2, now() + interval '1 day' FROM generate_series(1, 10) n`,
    values: [one.accountId, JSON.stringify({ emails })],
  });
  const order: string[] = [];
  const watched = around(db, async (tx, statement) => {
    if (/^DELETE FROM idempotency_keys/.test(statement.text)) order.push('searched');
    const rows = await tx.query(statement);
    if (/"isNamed"/.test(statement.text)) setImmediate(() => order.push('other work'));
    return rows;
  });
  t.equal(await erase(watched, one), true);
  t.strictSame(order.slice(0, 2), ['other work', 'searched']);
});
