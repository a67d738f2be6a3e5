import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import { Acceptance } from '../../src/core/emails/acceptance.ts';
import type { SendRequest } from '../../src/core/emails/draft.ts';
import type { Accepted, SendCall } from '../../src/core/emails/emails.ts';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import * as templates from '../../src/core/emails/templates.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { AccountTurns } from '../../src/pace/account-turns.ts';
import { requestOf } from '../support/accept.ts';
import { buildAccount, buildVerifiedDomain, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { newTurns } from '../support/turns.ts';

const fresh = new FreshBodies({ room: 0 });

/** Transactions of which each of the first waits until the test settles its commit; `last` is the number of the latest, from 0. */
function gated(db: Database, count: number) {
  const commits = Array.from({ length: count }, () => Promise.withResolvers<void>());
  const begun = Array.from({ length: count }, () => Promise.withResolvers<void>());
  let at = -1;
  const transaction = (async (work) => {
    at += 1;
    begun[at]?.resolve();
    await commits[at]?.promise;
    return db.transaction(work);
  }) as typeof db.transaction;
  return { transaction, commits, begun, last: () => at };
}

t.test('simultaneous calls of one API key', async (t) => {
  const { db, queue } = await openQueue(t);
  const account = await buildAccount(db);
  const { domain } = await buildVerifiedDomain(db, account.id, Buffer.alloc(32, 1));
  const holder = holderOf(account);
  let transactions = 0;
  const counting = {
    ...db,
    transaction: ((work) => {
      transactions += 1;
      return db.transaction(work);
    }) as typeof db.transaction,
  };
  const acceptance = new Acceptance(counting, queue, newTurns(), fresh);
  const idOf = ([accepted]: Accepted[]) => {
    if (!accepted || 'refusal' in accepted) throw accepted?.refusal;
    return accepted.email.id;
  };
  const call = (fields: Partial<SendRequest> = {}, key: string | null = null, fingerprint = 1): SendCall => {
    const request = requestOf(`a@${domain}`, ['b@one.test'], { subject: 'subject', text: 'text', ...fields });
    const idempotency = key === null ? null : { key, fingerprint: Buffer.alloc(32, fingerprint) };
    return { requests: [request], idempotency, respond: idOf };
  };
  const answer = (one: SendCall) => acceptance.answer(holder, one);
  const stored = async () => new Set((await db.prisma.email.findMany({ select: { id: true } })).map(({ id }) => id));

  /** The database, and the highest number of transactions that ran in it at once. */
  const watchedTransactions = () => {
    let [running, most] = [0, 0];
    const watched = {
      ...db,
      transaction: (async (work) => {
        running += 1;
        most = Math.max(most, running);
        return db.transaction(work).finally(() => {
          running -= 1;
        });
      }) as typeof db.transaction,
    };
    return { watched, most: () => most };
  };

  t.test('are committed together, each with its own answer', async (t) => {
    transactions = 0;
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => answer(call({ subject: `nr ${i}` }))));
    t.ok(transactions <= 2, `${transactions} transactions`);
    const emails = await db.prisma.email.findMany({ select: { id: true, subject: true } });
    const subjects = new Map(emails.map(({ id, subject }) => [id, subject]));
    for (const [index, { response }] of answers.entries()) t.equal(subjects.get(String(response)), `nr ${index}`);
  });

  t.test('store the right bodies for each of many large batches', async (t) => {
    const bodyOf = (batch: number, nr: number) => `${batch}.${nr} `.repeat(3_000) + '€é'.repeat(nr * 200);
    const htmlOf = (batch: number, nr: number) => (nr % 2 === 0 ? bodyOf(batch, nr) : null);
    const textOf = (batch: number, nr: number) => (nr % 3 === 0 ? bodyOf(nr, batch) : 'short');
    const batches = Array.from({ length: 8 }, (_, batch) => {
      const requests = Array.from({ length: 40 }, (_, nr) => ({
        ...call().requests[0],
        subject: `${batch} ${nr}`,
        html: htmlOf(batch, nr),
        text: textOf(batch, nr),
      }));
      return { ...call(), requests } as SendCall;
    });
    await Promise.all(batches.map(answer));
    const large = await db.query<{ subject: string; html: string | null; text: string }>({
      text: `SELECT e.subject, c.html, c.text FROM emails e JOIN email_contents c ON c.email_id = e.id WHERE e.subject ~ '^\\d \\d+$'`,
    });
    t.equal(large.length, 320);
    const others = large.filter(({ subject, html, text }) => {
      const [batch = 0, nr = 0] = subject.split(' ').map(Number);
      return html !== htmlOf(batch, nr) || text !== textOf(batch, nr);
    });
    t.same(
      others.map(({ subject }) => subject),
      [],
    );
  });

  t.test('do not suffer if one of them is refused or cannot be stored', async (t) => {
    const before = (await stored()).size;
    const elsewhere = call({ from: parseMailbox('a@elsewhere.test') });
    // The API never lets this through, and the database rejects it too.
    const broken = call({ subject: 'a\0b' });
    const [first, refused, impossible, last] = await Promise.allSettled([
      answer(call()),
      answer(elsewhere),
      answer(broken),
      answer(call()),
    ]);
    t.match(refused, { status: 'rejected', reason: { status: 400 } });
    t.equal(impossible.status, 'rejected');
    t.same([first.status, last.status], ['fulfilled', 'fulfilled']);
    t.equal((await stored()).size, before + 2);
  });

  t.test('happen once if they have the same idempotency key', async (t) => {
    const before = (await stored()).size;
    const twice = await Promise.all([answer(call({}, 'k')), answer(call({}, 'k')), answer(call({}, 'other'))]);
    t.same(
      twice.map(({ replayed }) => replayed),
      [false, true, false],
    );
    t.equal(twice[0].response, twice[1].response);
    await t.rejects(answer(call({}, 'k', 2)), { message: 'conflict' });
    t.equal((await stored()).size, before + 2);
  });

  t.test('leave the key free if they fail', async (t) => {
    const refused = call({ from: parseMailbox('a@elsewhere.test') }, 'free');
    const [end] = await Promise.allSettled([answer(refused), answer(call())]);
    t.equal(end.status, 'rejected');
    t.match(await answer(call({}, 'free', 3)), { replayed: false });
  });

  t.test('are not answered if they are not committed', async (t) => {
    const before = (await stored()).size;
    const failing = new Acceptance(
      { ...db, transaction: () => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })) },
      queue,
      newTurns(),
      fresh,
    );
    const ends = await Promise.allSettled([failing.answer(holder, call()), failing.answer(holder, call())]);
    for (const end of ends) t.match(end, { status: 'rejected', reason: { code: 'ECONNREFUSED' } });
    t.equal((await stored()).size, before);
  });

  t.test('end with the commit that they waited for, if the database answers none', async (t) => {
    const silence = () => new Error('Query read timeout');
    const { transaction, commits, begun, last } = gated(db, 2);
    const silent = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh, 200);
    const ask = (key: string | null = null) => silent.answer(holder, call({}, key)).catch((error: Error) => error);
    const first = ask('silent');
    await begun[0]?.promise;
    const late = [...Array.from({ length: 250 }, () => ask()), ask('silent')];
    await setTimeout(250);
    const recent = [ask('again'), ask('again')];
    commits[0]?.reject(silence());
    for (const answer of await Promise.all([first, ...late])) t.match(answer, { message: 'Query read timeout' });
    await begun[1]?.promise;
    t.equal(last(), 1, 'only those that had just come try again');
    commits[1]?.reject(silence());
    for (const answer of await Promise.all(recent)) t.match(answer, { message: 'Query read timeout' });
    t.equal(last(), 1, 'nor does a second call with the same idempotency key');
    t.match(await ask('silent'), { replayed: false });
  });

  t.test('do not get the refusal of the call that they waited for, however long that took', async (t) => {
    const [begun, busy] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const transaction = (async (work) => {
      begun.resolve();
      await busy.promise;
      return db.transaction(work);
    }) as typeof db.transaction;
    const impatient = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh, 0);
    const ask = (fields: Partial<SendRequest> = {}) =>
      impatient.answer(holder, call(fields)).catch((error: Error) => error);
    const refused = ask({ from: parseMailbox('a@elsewhere.test') });
    await begun.promise;
    const late = [ask(), ask()];
    busy.resolve();
    t.match(await refused, { status: 400 });
    for (const answer of await Promise.all(late)) t.match(answer, { replayed: false });
  });

  t.test('do not begin a commit after a long wait for a turn, if the database answered none meanwhile', async (t) => {
    const { transaction, commits, begun, last } = gated(db, 4);
    const silent = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh, 200);
    const batch = (): SendCall => ({ ...call(), requests: [...call().requests, ...call().requests] });
    const ask = () => silent.answer(holder, batch()).catch((error: Error) => error);
    const first = [ask(), ask(), ask()];
    const late = Array.from({ length: 5 }, ask);
    await begun[2]?.promise;
    await setTimeout(250);
    const recent = ask();
    for (const commit of commits.slice(0, 3)) commit.reject(new Error('Query read timeout'));
    for (const answer of await Promise.all([...first, ...late])) t.match(answer, { message: 'Query read timeout' });
    await begun[3]?.promise;
    t.equal(last(), 3, 'only the one that has just come tries again');
    commits[3]?.resolve();
    t.match(await recent, { replayed: false });
  });

  t.test('wait for as long as it takes while commits are slow and succeed', async (t) => {
    let commits = 0;
    const transaction = (async (work) => {
      commits += 1;
      await setTimeout(100);
      return db.transaction(work);
    }) as typeof db.transaction;
    const slow = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh, 50);
    await Promise.all(Array.from({ length: 250 }, () => slow.answer(holder, call())));
    t.ok(commits >= 3, `${commits} commits`);
  });

  t.test('are accepted one by one if their templates are too large together', async (t) => {
    const content = { from: null, replyTo: [], subject: 's', html: 'x'.repeat(4_900_000), text: null, variables: [] };
    const { id } = await templates.create(db, account.id, { name: 'large', alias: null, content });
    await templates.publish(db, account.id, id);
    const template = { ref: { id }, variables: {} };
    const large = (): SendCall => {
      const { html: _html, text: _text, ...request } = requestOf(`a@${domain}`, ['b@one.test']);
      return { ...call(), requests: [{ ...request, template }] };
    };
    const ends = await Promise.allSettled(Array.from({ length: 12 }, () => answer(large())));
    t.strictSame(
      ends.map((end) => (end.status === 'rejected' ? `${end.reason} ${end.reason.detail}` : null)),
      ends.map(() => null),
    );
  });

  t.test('leave connections for others, even if many are batches', async (t) => {
    const { watched, most } = watchedTransactions();
    const crowded = new Acceptance(watched, queue, newTurns(), fresh);
    const batch = (): SendCall => ({ ...call(), requests: [...call().requests, ...call().requests] });
    const answers = await Promise.all(Array.from({ length: 30 }, () => crowded.answer(holder, batch())));
    t.equal(answers.length, 30);
    t.equal(most(), 3);
  });

  t.test('use one connection for an account on a limited plan, however many keys it has', async (t) => {
    const { watched, most } = watchedTransactions();
    const counted = new Acceptance(watched, queue, newTurns(), fresh);
    const senders = Array.from({ length: 10 }, () => ({ ...holder, keyId: newId(), plan: 'free' }));
    const busy = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const lock = db.transaction(async (tx) => {
      await tx.query({ text: 'SELECT FROM accounts WHERE id = $1 FOR UPDATE', values: [account.id] });
      locked.resolve();
      await busy.promise;
    });
    await locked.promise;
    const answers = Promise.all(senders.map((sender) => counted.answer(sender, call())));
    await db.query({ text: 'SELECT pg_sleep(0.2)' });
    busy.resolve();
    await lock;
    t.equal((await answers).length, 10);
    t.equal(most(), 1);
  });

  t.test('take no turns on a plan without limits: the keys of an account commit beside each other', async (t) => {
    let running = 0;
    const both = Promise.withResolvers<void>();
    const transaction = (async (work) => {
      running += 1;
      if (running === 2) both.resolve();
      await both.promise;
      return db.transaction(work);
    }) as typeof db.transaction;
    const acceptance = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh);
    const senders = Array.from({ length: 2 }, () => ({ ...holder, keyId: newId() }));
    const answers = Promise.all(senders.map((sender) => acceptance.answer(sender, call())));
    await Promise.race([both.promise, setTimeout(10_000)]);
    t.equal(running, 2);
    both.resolve();
    await answers;
  });

  t.test('take turns as soon as the plan is limited, also on a key whose calls never pause', async (t) => {
    const together: number[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let running = 0;
    const transaction = (async (work) => {
      running += 1;
      await gates[together.push(running) - 1]?.promise;
      return db.transaction(work).finally(() => {
        running -= 1;
      });
    }) as typeof db.transaction;
    const acceptance = new Acceptance({ ...db, transaction }, queue, newTurns(), fresh);
    const begun = async (count: number) => {
      while (together.length < count) await setTimeout(5);
    };
    const before = acceptance.answer(holder, call());
    await begun(1);
    const limited = { ...holder, plan: 'free' };
    const after = acceptance.answer(limited, call());
    gates[0]?.resolve();
    await Promise.all([before, begun(2)]);
    const ofAnotherKey = acceptance.answer({ ...limited, keyId: newId() }, call());
    await Promise.race([begun(3), setTimeout(100)]);
    gates[1]?.resolve();
    await Promise.all([after, ofAnotherKey]);
    t.strictSame(together, [1, 1, 1]);
  });

  t.test('small ones do not wait for large ones, and are not refused with them', async (t) => {
    const turns = new AccountTurns({ most: 1, mostOfAccount: 1, mostWaiting: 200, patienceMs: 100 });
    const acceptance = new Acceptance(db, queue, turns, fresh);
    const busy = Promise.withResolvers<void>();
    const turn = turns.take('another', () => busy.promise);
    const file = {
      filename: 'a.bin',
      contentType: 'application/octet-stream',
      contentId: null,
      content: Buffer.alloc(1_500_000),
    };
    const heavy = [
      call({ attachments: [file] }),
      call({ html: 'x'.repeat(1_500_000) }),
      { ...call(), requests: [...call().requests, ...call().requests] },
    ];
    const [refused, accepted] = await Promise.all([
      Promise.allSettled(heavy.map((one) => acceptance.answer(holder, one))),
      Promise.all(Array.from({ length: 5 }, () => acceptance.answer(holder, call()))),
    ]);
    for (const end of refused) t.match(end, { status: 'rejected', reason: { status: 503 } });
    t.equal(new Set(accepted.map(({ response }) => response)).size, 5);
    busy.resolve();
    await turn;
    t.match(await acceptance.answer(holder, heavy[0] as SendCall), { replayed: false }, 'once a turn is free');
  });
});
