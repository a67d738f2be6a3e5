import t, { type Test } from 'tap';
import { Acceptance } from '../../src/core/emails/acceptance.ts';
import type { Draft, SendRequest } from '../../src/core/emails/draft.ts';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import { load, unbounded } from '../../src/core/outgoing/outgoing.ts';
import type { Database } from '../../src/db/client.ts';
import { newId } from '../../src/ids.ts';
import { requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { openQueue } from '../support/db.ts';
import { eventually } from '../support/node.ts';
import { newTurns } from '../support/turns.ts';

const html = `<p>€ ${'ä long body '.repeat(1_000)}</p>`;
const text = '€ a text '.repeat(1_000);
/** Longer than any test takes. */
const aWhile = 600_000;

/** An acceptance that keeps its bodies here, and a count of what loading an email reads. */
async function prepare(t: Test, fresh: FreshBodies) {
  const { db, queue } = await openQueue(t);
  const { account, from } = await buildSender(db, Buffer.alloc(32));
  const acceptance = new Acceptance(db, queue, newTurns(), fresh);
  const accept = async (fields: Partial<SendRequest>[] = [{}]) => {
    let ids: string[] = [];
    const requests = fields.map((some) => requestOf(from, ['b@b.test'], { html, text, ...some }));
    await acceptance.answer(holderOf(account), {
      requests,
      idempotency: null,
      respond: (results) => {
        ids = results.flatMap((result) => ('email' in result ? [result.email.id] : []));
      },
    });
    return ids;
  };
  const read: { html: string | null; text: string | null }[] = [];
  const watched: Database = {
    ...db,
    query: async <Row>(statement: Parameters<Database['query']>[0]) => {
      const rows = await db.query<Row>(statement);
      read.push(...(rows as typeof read));
      return rows;
    },
  };
  return {
    db,
    account,
    accept,
    async load(id = '', ahead = false) {
      read.length = 0;
      const email = (await load(watched, [{ id, tried: false, ahead, most: unbounded }], fresh)).get(id);
      return { html: email?.html, text: email?.text, isRead: Boolean(read[0]?.html ?? read[0]?.text) };
    },
  };
}

t.test('a body that was just accepted is not read back the first time', async (t) => {
  const { accept, load } = await prepare(t, new FreshBodies({ ms: aWhile }));
  const ids = await accept([{}, { html: null }, { text: null }]);
  t.strictSame(await load(ids[0]), { html, text, isRead: false });
  t.strictSame(await load(ids[1]), { html: null, text, isRead: false });
  t.strictSame(await load(ids[2]), { html, text: null, isRead: false });
  t.strictSame(await load(ids[0]), { html, text, isRead: true }, 'then it is forgotten');
  // A large batch stores its bodies in several statements.
  const large = await accept(Array.from({ length: 60 }, (_, nr) => ({ text: `${nr} ${text.repeat(5)}` })));
  for (const [nr, id] of large.entries())
    t.strictSame(await load(id), { html, text: `${nr} ${text.repeat(5)}`, isRead: false });
});

t.test('the row wins: a changed body is read again, and a removed one is gone', async (t) => {
  const { db, accept, load } = await prepare(t, new FreshBodies({ ms: aWhile }));
  const [changed, removed] = await accept([{}, {}]);
  await db.query({ text: `UPDATE email_contents SET html = '<p>[erased]</p>' WHERE email_id = $1`, values: [changed] });
  await db.query({ text: 'DELETE FROM email_contents WHERE email_id = $1', values: [removed] });
  t.strictSame(await load(changed), { html: '<p>[erased]</p>', text, isRead: true });
  t.strictSame(await load(removed), { html: undefined, text: undefined, isRead: false });
});

t.test('a body that is left for its turn is kept until then', async (t) => {
  const { accept, load } = await prepare(t, new FreshBodies({ ms: aWhile }));
  const heavy = text.repeat(12);
  const [id] = await accept([{ text: heavy }]);
  t.strictSame(await load(id, true), { html: undefined, text: undefined, isRead: false });
  t.strictSame(await load(id), { html, text: heavy, isRead: false });
});

t.test('only bodies of mail that is sent soon are kept, if they are worth it', async (t) => {
  const fresh = new FreshBodies({ ms: aWhile });
  const { db, account, accept } = await prepare(t, fresh);
  await db.prisma.suppression.create({
    data: { id: newId(), accountId: account.id, address: 's@s.test', reason: 'manual' },
  });
  const scheduledAt = new Date(Date.now() + 60_000);
  const { to } = requestOf('a@b.test', ['s@s.test']);
  const ids = await accept([{}, { scheduledAt }, { html: null, text: 'short' }, { to }]);
  t.strictSame(
    ids.map((id) => fresh.of(id) !== undefined),
    [true, false, false, false],
  );
});

t.test('their room is limited', async (t) => {
  const bytes = 2 * (html.length + text.length);
  const fresh = new FreshBodies({ room: 3 * bytes, ms: aWhile });
  const { accept, load } = await prepare(t, fresh);
  const kept = (ids: string[]) => ids.map((id) => fresh.of(id) !== undefined);
  const first = await accept([{}, {}, {}, {}]);
  t.strictSame(kept(first), [true, true, true, false]);
  t.strictSame(await load(first[3]), { html, text, isRead: true });
  await load(first[1]);
  const second = await accept([{}, {}]);
  t.strictSame(kept(second), [true, false], 'sent mail makes room');
});

t.test('they are kept for a limited time, whether others follow or not, and then there is room again', async (t) => {
  const ms = 50;
  const fresh = new FreshBodies({ room: 2 * (html.length + text.length), ms });
  const request = { ...requestOf('a@a.test', ['b@b.test']), html, text };
  const keep = (id: string) =>
    fresh.keep('1', [{ email: { id, status: 'queued', scheduledAt: null } as Draft['email'], request }]);
  keep('first');
  t.ok(fresh.of('first'));
  // Without a turn of the event loop, in which a timer could remove it.
  for (const end = performance.now() + 1.2 * ms; performance.now() < end; );
  keep('second');
  t.ok(fresh.of('second'));
  t.notOk(fresh.of('first'));
  await eventually(async () => fresh.of('second') === undefined);
});

t.test('a process that does not deliver keeps none', async (t) => {
  const fresh = new FreshBodies({ room: 0 });
  const { accept } = await prepare(t, fresh);
  t.equal(fresh.of((await accept())[0] ?? ''), undefined);
});
