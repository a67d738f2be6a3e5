import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.ts';
import type { SendRequest } from '../../src/core/emails/draft.ts';
import { FreshBodies } from '../../src/core/emails/fresh-bodies.ts';
import type { OutgoingEmail } from '../../src/core/outgoing/outgoing.ts';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { MessageBuilder } from '../../src/delivery/message/message.ts';
import { type Closed, SourceAddresses } from '../../src/delivery/pools/source-addresses.ts';
import { Preparation, type Ready } from '../../src/delivery/preparation/preparation.ts';
import type { Site } from '../../src/delivery/sites/providers.ts';
import { Slots } from '../../src/delivery/sites/slots.ts';
import { Throttle } from '../../src/delivery/sites/throttle.ts';
import { newId } from '../../src/ids.ts';
import { silentLog } from '../../src/log.ts';
import type { SendingPools } from '../../src/smtp/connections/sending-pools.ts';
import { accept, requestOf } from '../support/accept.ts';
import { buildSender, holderOf } from '../support/build.ts';
import { buildClaim } from '../support/claim.ts';
import { openQueue } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually } from '../support/node.ts';

const megabyte = 1024 * 1024;

const withFile = (bytes: number): Partial<SendRequest> => ({
  attachments: [
    { filename: 'f', contentType: 'application/octet-stream', contentId: null, content: randomBytes(bytes) },
  ],
});

/** What is prepared, and what becomes of it; an attempt is in progress until the test ends it. */
async function scene(t: Test, pools: SendingPools = { addresses: [], plan: [] }) {
  const { db, queue } = await openQueue(t);
  const key = testKey(1);
  const sender = await buildSender(db, key);
  const throttle = new Throttle({ backoffMs: 1_000, longestMs: 1_000 });
  const slots = new Slots(
    { running: 1_000, open: 1_000 },
    throttle,
    () => undefined,
    () => undefined,
  );
  const started: { id: string; email: OutgoingEmail | undefined; end: () => void }[] = [];
  const back: { id: string; closed?: Closed }[] = [];
  const lease = { onHold: false };
  const now = new Date();
  const preparation = new Preparation(
    db,
    {
      ...{
        messages: new MessageBuilder(new Keyring(key), { key, baseUrl: 'https://out.test', host: 'out.test' }),
        log: silentLog,
        lease,
        clock: { now: () => now },
        fresh: new FreshBodies(),
      },
      policy: { scheduleMs: [1_000], forMs: 60_000 },
    },
    new SourceAddresses(db, pools, silentLog, systemClock),
    {
      run: ({ claim: { emailId: id } }, email) =>
        new Promise((end) => {
          started.push({ id, email, end });
        }),
      park: ({ claim: { emailId: id } }, _, closed) => void back.push({ id, closed }),
      release: (some) => back.push(...some.map(({ claim: { emailId: id } }) => ({ id }))),
      comingAfter: () => [],
    },
  );
  const store = async (all: Partial<SendRequest>[]): Promise<Claim[]> => {
    const claims: Claim[] = [];
    for (const fields of all) {
      const [accepted] = await accept(db, queue, holderOf(sender.account), [
        requestOf(sender.from, ['a@b.test'], fields),
      ]);
      if (!accepted || !('email' in accepted)) throw new Error('not accepted');
      claims.push(buildClaim({ emailId: accepted.email.id, to: ['a@b.test'] }));
    }
    return claims;
  };
  /** The same email this many times; its files are stored once. */
  const copies = async (many: number, fields: Partial<SendRequest>): Promise<Claim[]> => {
    const [claim] = await store([fields]);
    if (!claim) throw new Error('not stored');
    const ids = Array.from({ length: many - 1 }, () => newId());
    const values = [claim.emailId, ids];
    await db.query({
      text: `INSERT INTO emails SELECT (jsonb_populate_record(e, jsonb_build_object('id', new, 'message_id', new))).*
               FROM emails e, unnest($2::uuid[]) new WHERE e.id = $1`,
      values,
    });
    await db.query({
      text: `INSERT INTO email_contents SELECT new, html, text, headers, attachments
               FROM email_contents, unnest($2::uuid[]) new WHERE email_id = $1`,
      values,
    });
    return [claim, ...ids.map((emailId) => ({ ...claim, emailId }))];
  };
  const site = { name: 'b.test', connections: 1_000, perMinute: null, perConnection: null };
  // With each one that it takes, the site gets one more connection, until it has all of them.
  for (let n = 0; n < site.connections; n += 1) slots.give(slots.take(site), 'fine', '250 taken', 1);
  const few = { ...site, name: 'few.test', connections: 8 };
  for (let n = 0; n < few.connections; n += 1) slots.give(slots.take(few), 'fine', '250 taken', 1);
  const readyFor = (claim: Claim, of: Site): Ready => {
    const slot = slots.take(of);
    t.teardown(() => slots.cancel(slot));
    return { claim, slot };
  };
  const add = (claims: Claim[], of: Site = site) => {
    for (const claim of claims) preparation.add(readyFor(claim, of));
  };
  const under = () => started.map(({ id }) => id);
  return { db, store, copies, add, few, started, under, back, lease, preparation, now };
}

const idsOf = (claims: Claim[]) => claims.map(({ emailId }) => emailId);

t.test(
  'small emails do not queue behind large ones, of which only as many are in memory as there is room for',
  async (t) => {
    const { store, copies, add, started, under, back } = await scene(t);
    const films = await copies(30, withFile(9 * megabyte));
    const bills = await copies(8, withFile(megabyte));
    const long = await store([{ text: 'x'.repeat(300_000) }]);
    const small = await store([{}, withFile(1_000)]);
    add([...films, ...bills, ...long, ...small]);
    await eventually(async () => started.length === 7 + 8 + 1 + 2);
    t.strictSame(under().slice(0, 2), idsOf(small), 'small ones first');
    t.ok(idsOf([...bills, ...long]).every((id) => under().includes(id)));
    t.strictSame(
      under().filter((id) => idsOf(films).includes(id)),
      idsOf(films.slice(0, 7)),
      'one account has 64 MB for them',
    );
    const later = await store([{}]);
    add(later);
    await eventually(async () => under().includes(idsOf(later)[0] ?? ''));

    for (const { end } of started.splice(0)) end();
    await eventually(async () => started.length === 7);
    t.strictSame(under(), idsOf(films.slice(7, 14)), 'they go on when others are done');
    t.ok(started.every(({ email }) => email?.attachments[0]?.content.length === 9 * megabyte));
    t.strictSame(back, []);
  },
);

t.test(
  'of a large email with a copy for each reader, only as many are made at once as there is room for',
  async (t) => {
    const { store, add, started } = await scene(t);
    const [one] = await store([{ ...withFile(9 * megabyte), type: 'marketing' }]);
    if (!one) throw new Error('not stored');
    add(Array.from({ length: 20 }, (_, n) => ({ ...one, destination: `b${n}.test`, jobId: newId() })));
    await eventually(async () => started.length >= 7);
    await new Promise((resume) => setTimeout(resume, 500));
    t.equal(started.length, 7, 'one account has 64 MB for them');
    for (let ended = 7; ended < 20; ended += 7) {
      for (const { end } of started.splice(0)) end();
      await eventually(async () => started.length === Math.min(7, 20 - ended));
    }
  },
);

t.test('an email that cannot be read is parked alone, whatever it was read with', async (t) => {
  const { db, store, add, started, under, back, now } = await scene(t);
  const sizes = [1_000, 1_000, 1_000, 300_000, 300_000, 300_000, 5 * megabyte, 5 * megabyte];
  const claims = await store(sizes.map((bytes) => withFile(bytes)));
  const broken = [1, 4, 7].map((index) => claims[index]?.emailId ?? '');
  await db.query({
    text: `DELETE FROM attachments a USING email_contents c WHERE c.email_id = ANY($1) AND encode(a.sha256, 'hex') = c.attachments -> 0 ->> 'sha256'`,
    values: [broken],
  });
  const small = await store(Array.from({ length: 20 }, () => ({})));
  add([...claims, ...small]);
  const fine = [...claims, ...small].map(({ emailId }) => emailId).filter((id) => !broken.includes(id));
  await eventually(async () => started.length === fine.length && back.length === broken.length);
  t.strictSame(under().sort(), fine.sort());
  t.strictSame(back.map(({ id }) => id).sort(), broken.sort());
  for (const { closed } of back) {
    t.match(closed, { reason: 'its content could not be read from the database' });
    t.equal(closed?.opensAt.getTime(), now.getTime() + 60_000);
  }
});

t.test('large emails beyond those that may wait come back as fast as they are sent', async (t) => {
  const { copies, add, back, now } = await scene(t);
  add(await copies(7 + 125 + 10, withFile(9 * megabyte)));
  await eventually(async () => back.length === 10);
  const times = back.map(({ closed }) => (closed?.opensAt.getTime() ?? 0) - now.getTime());
  t.match(back, Array(10).fill({ closed: { reason: 'large emails go a few at a time' } }));
  t.same(
    times,
    Array.from({ length: 10 }, (_, n) => 5_000 + 180 * (n + 1)),
  );
});

t.test(
  "emails that wait for room get only a few of a site's connections, and the rest are for those that are sent",
  async (t) => {
    const { copies, add, few, started, under, back } = await scene(t);
    const films = await copies(12, withFile(9 * megabyte));
    const others = await copies(2, withFile(9 * megabyte));
    add(films, few);
    await eventually(async () => started.length === 7 && back.length > 0);
    t.strictSame(under(), idsOf(films.slice(0, 7)), 'those with room');
    t.strictSame(
      back.map(({ id }) => id),
      idsOf(films.slice(9)),
      'two of its eight connections may wait',
    );
    t.match(back[0]?.closed, { reason: 'large emails go a few at a time' });
    add(others);
    started.shift()?.end();
    await eventually(async () => started.length === 7);
    t.strictSame(under().at(-1), films[7]?.emailId, 'in their turn');
    t.equal(back.length, 3, 'at another site they wait as well');
  },
);

t.test('large emails whose pool has no room keep none of their own', async (t) => {
  const addresses = [{ ip: '127.0.0.6', pool: 'default', firstDay: '2999-01-01' }];
  const { copies, add, back } = await scene(t, { addresses, plan: [1] });
  const claims = await copies(3, withFile(35 * megabyte));
  add(claims);
  await eventually(async () => back.length === 3);
  t.match(back, Array(3).fill({ closed: { reason: /begins on 2999-01-01/ } }));
});

t.test('emails that wait for room when sending is put on hold, or ends, are released', async (t) => {
  for (const end of ['hold', 'stop'] as const) {
    const { copies, add, started, back, lease, preparation } = await scene(t);
    const claims = await copies(3, withFile(35 * megabyte));
    add(claims);
    await eventually(async () => started.length === 1);
    if (end === 'hold') lease.onHold = true;
    else preparation.stop();
    started[0]?.end();
    await eventually(async () => back.length === 2);
    t.strictSame(
      back,
      idsOf(claims.slice(1)).map((id) => ({ id })),
      end,
    );
    t.equal(started.length, 1);
  }
});
