import t from 'tap';
import { buildKey } from '../support/build.ts';
import { directEnv, startDirectNode } from '../support/direct.ts';
import { figure } from '../support/figure.ts';
import { testKey } from '../support/keys.ts';
import { type Answer, eventually, startTestNode, type TestNode } from '../support/node.ts';
import { startSink } from '../support/sink.ts';

const received = (raw: Buffer) => /^Subject: (\S+)/m.exec(raw.toString('latin1'))?.[1] ?? '';

t.test('conflicting calls to two nodes at the same time end with one of the two outcomes', async (t) => {
  let slowMs = 0;
  /** No server answers before this. */
  let answering = Promise.resolve();
  const sink = await startSink({
    onMessage: async () => {
      await new Promise((resume) => setTimeout(resume, slowMs));
      await answering;
      return null;
    },
  });
  t.teardown(() => sink.close());
  const zone = { 'to.test': { A: ['127.0.0.1'] }, 'later.test': { A: ['127.0.0.1'] } };
  const JWT_SECRET = testKey(8).toString('hex');
  const first = await startDirectNode(t, { zone, mxPort: sink.port, env: { JWT_SECRET } });
  const env = { ...directEnv(first.zone, sink.port), DATABASE_URL: first.databaseUrl, JWT_SECRET };
  const second = await startTestNode(t, { ...env, ENCRYPTION_KEY: testKey(7).toString('hex') });
  const nodes = [first, second];
  const either = (n: number) => nodes[n % 2] as TestNode;
  const { key, from, account, domainId, db } = first;
  const { token } = (await first.call('POST', '/api/v1/auth/login', { body: account })).body;
  const send = (n: number, fields: Record<string, unknown> = {}, as = key) =>
    either(n).call('POST', '/api/v1/emails', {
      key: as,
      body: { from, to: `r${n}@to.test`, subject: `${n}`, text: 't', ...fields },
    });
  const arrived = () => sink.messages.map(({ raw }) => received(raw));
  const settled = (ids: string[]) =>
    eventually(async () => {
      const rows = await db.prisma.email.findMany({ where: { id: { in: ids } }, select: { id: true, status: true } });
      return rows.every(({ status }) => status !== 'queued') && new Map(rows.map(({ id, status }) => [id, status]));
    });

  t.test(
    'AUTH-10: once a key is revoked, both nodes refuse every call with it, and each call that was accepted is complete',
    async (t) => {
      const { key: doomed, api_key: row } = (
        await first.call('POST', '/api/v1/keys', { token, body: { name: 'doomed' } })
      ).body;
      const calls: { began: number; answer: Answer }[] = [];
      let over = false;
      const keepSending = async (n: number) => {
        while (!over) {
          const began = performance.now();
          calls.push({
            began,
            answer: await send(n, { scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }, doomed),
          });
        }
      };
      const senders = Array.from({ length: 8 }, (_, n) => keepSending(n));
      await eventually(async () => calls.filter(({ answer }) => answer.status === 200).length > 40);
      const revoked = await second.call('DELETE', `/api/v1/keys/${row.id}`, { token });
      const at = performance.now();
      t.equal(revoked.status, 200);
      await eventually(async () => calls.filter(({ began }) => began > at).length > 20);
      over = true;
      await Promise.all(senders);
      const after = calls.filter(({ began }) => began > at);
      const refused = after.filter(({ answer }) => answer.status === 401).length;
      figure(
        'P14',
        `${after.length} calls began after the revocation while eight clients kept sending: ${refused} refused`,
      );
      t.equal(refused, after.length, 'all calls after it');
      t.strictSame([...new Set(calls.map(({ answer }) => answer.status))].sort(), [200, 401]);
      const taken = calls.filter(({ answer }) => answer.status === 200).map(({ answer }) => answer.body.email.id);
      t.equal(await db.prisma.email.count({ where: { id: { in: taken } } }), taken.length);
      t.equal(
        await db.prisma.email.count({ where: { accountId: account.id } }),
        taken.length,
        'and nothing else was stored',
      );
      await db.prisma.recipient.updateMany({ where: { emailId: { in: taken } }, data: { nextAttemptAt: new Date() } });
      const ends = await settled(taken);
      t.strictSame([...new Set(ends.values())], ['failed'], 'what it had scheduled is not sent');
      t.strictSame(arrived(), []);
    },
  );

  t.test(
    'if an email is canceled when it is due, it is either canceled or sent, never both and never neither',
    async (t) => {
      const count = 120;
      /** Scheduled and canceled, the cancels up to so many ms ahead or behind; each with the answer and its outcome. */
      const race = async (round: string, { leadMs, lagMs }: { leadMs: number; lagMs: number }) => {
        const due = Date.now() + 4_000 + leadMs;
        const ids = await Promise.all(
          Array.from({ length: count }, async (_, n) => {
            const scheduled_at = new Date(due + n * 10).toISOString();
            return (await send(n, { to: `r${n}@later.test`, subject: `cancel${round}${n}`, scheduled_at })).body.email
              .id as string;
          }),
        );
        // Each at about the time that it is due, on either node, some a little before and some after.
        const cancels = ids.map(async (id, n) => {
          await new Promise((resume) =>
            setTimeout(resume, due + n * 10 - leadMs + (((n * 37) % 800) / 800) * (leadMs + lagMs) - Date.now()),
          );
          // A 503, as on a very busy machine, is repeated.
          return eventually(async () => {
            const { status } = await either(n + 1).call('DELETE', `/api/v1/emails/${id}`, { key });
            return status !== 503 && status;
          });
        });
        const statuses = await Promise.all(cancels);
        const ends = await settled(ids);
        await eventually(
          async () =>
            arrived().filter((subject) => subject.startsWith(`cancel${round}`)).length >=
            [...ends.values()].filter((status) => status === 'sent').length,
        );
        const wrong = ids.flatMap((id, n) => {
          const copies = arrived().filter((subject) => subject === `cancel${round}${n}`).length;
          const found = `${statuses[n]} ${ends.get(id)} ${copies}`;
          return ['200 canceled 0', '409 sent 1'].includes(found) ? [] : [`${n}: ${found}`];
        });
        t.strictSame(wrong, []);
        return { won: statuses.filter((status) => status === 200).length, wrong };
      };
      const spread = { leadMs: 450, lagMs: 350 };
      let { won, wrong } = await race('a', spread);
      // A busy machine may need more time before, or be late with the mail.
      for (const round of ['b', 'c', 'd', 'e']) {
        if (won > 5 && won < count - 5) break;
        if (won <= 5) spread.leadMs *= 3;
        else spread.lagMs *= 3;
        ({ won, wrong } = await race(round, spread));
      }
      figure(
        'P15',
        `${count} when they were due, on two nodes: ${won} canceled, ${count - won} sent, ${wrong.length} both or neither`,
      );
      t.ok(won > 5 && won < count - 5, `${won} of ${count} were canceled in time`);
    },
  );

  t.test(
    'a domain is removed while its mail is in progress: each email is sent once or has failed, and no other is accepted',
    async (t) => {
      slowMs = 100;
      const before = sink.messages.length;
      const calls: { began: number; answer: Answer }[] = [];
      let over = false;
      let next = 0;
      const keepSending = async () => {
        while (!over) {
          const n = next++;
          const began = performance.now();
          calls.push({ began, answer: await send(n, { subject: `removed${n}` }) });
        }
      };
      const senders = Array.from({ length: 12 }, keepSending);
      await eventually(async () => sink.messages.length - before > 60);
      // More emails than both nodes hold wait when the domain is removed.
      const removed = Promise.withResolvers<void>();
      answering = removed.promise;
      const taken = () => calls.filter(({ answer }) => answer.status === 200).length;
      await eventually(async () => taken() - (sink.messages.length - before) > 150);
      t.equal((await second.call('DELETE', `/api/v1/domains/${domainId}`, { token })).status, 200);
      removed.resolve();
      const at = performance.now();
      await eventually(async () => calls.filter(({ began }) => began > at).length > 20);
      over = true;
      await Promise.all(senders);
      const after = calls
        .filter(({ began }) => began > at)
        .map(({ answer }) => `${answer.status} ${answer.body.error}`);
      t.strictSame([...new Set(after)], ['400 from domain not verified']);
      const emails = calls.flatMap(({ answer }) => (answer.status === 200 ? [answer.body.email] : []));
      const ends = await settled(emails.map(({ id }) => id));
      const wrong = emails.flatMap(({ id, subject }) => {
        const copies = arrived().filter((one) => one === subject).length;
        const found = `${ends.get(id)} ${copies}`;
        return ['sent 1', 'failed 0'].includes(found) ? [] : [`${subject}: ${found}`];
      });
      t.strictSame(wrong, []);
      const failed = emails.filter(({ id }) => ends.get(id) === 'failed');
      const sent = emails.length - failed.length - wrong.length;
      figure(
        'P16',
        `${emails.length} under way: ${sent} sent once, ${failed.length} failed, ${wrong.length} otherwise`,
      );
      t.ok(failed.length > 0, `${failed.length} of ${emails.length} were too late`);
      for (const { id } of failed.slice(0, 3)) t.match((await first.read(id)).error, /domain/, 'and says why');
      const open = await db.query({
        text: `SELECT FROM recipients WHERE status = 'queued' AND account_id = $1`,
        values: [account.id],
      });
      t.equal(open.length, 0, 'nothing is left behind');
    },
  );

  t.test('a key that is made and revoked on two nodes at once is refused on both afterwards', async (t) => {
    const made = await Promise.all(Array.from({ length: 10 }, () => buildKey(db, account.id)));
    const { api_keys: keys } = (await first.call('GET', '/api/v1/keys', { token })).body;
    const doomed = keys.filter((one: { name: string }) => one.name === 'test').slice(0, 10);
    const answers = await Promise.all(
      doomed.flatMap((one: { id: string }, n: number) =>
        [0, 1].map((side) => either(n + side).call('DELETE', `/api/v1/keys/${one.id}`, { token })),
      ),
    );
    t.strictSame([...new Set((answers as Answer[]).map(({ status }) => status))], [200]);
    const times = Map.groupBy(answers as Answer[], ({ body }) => body.api_key.id);
    for (const both of times.values())
      t.equal(new Set(both.map(({ body }) => body.api_key.revoked_at)).size, 1, 'one time');
    for (const one of made)
      for (const node of nodes) t.equal((await node.call('GET', '/api/v1/emails', { key: one })).status, 401);
  });
});
