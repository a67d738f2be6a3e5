import net from 'node:net';
import t from 'tap';
import { createUnsubscribeToken } from '../../src/mail/links/token.ts';
import { buildAccount, buildKey, buildSender, unsubscribeKey } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { testKey } from '../support/keys.ts';
import { startSink } from '../support/mx.ts';
import { eventually, startTestNode } from '../support/node.ts';
import { served, storedRows } from './scene.ts';

const encryptionKey = testKey(9);
const env = { ENCRYPTION_KEY: encryptionKey.toString('hex') };

t.test('batch', async (t) => {
  const node = await startTestNode(t, env);
  const { from, key } = await buildSender(node.db, encryptionKey);
  const item = (fields: object = {}) => ({ from, to: ['a@b.test'], subject: 's', text: 't', ...fields });
  const post = (body: unknown) => served(() => node.call('POST', '/api/v1/emails/batch', { key, body }));

  t.test('returns the records in order, and the number of items', async (t) => {
    const subjects = ['one', 'two', 'three'];
    const { status, body } = await post({ emails: subjects.map((subject) => item({ subject })) });
    t.equal(status, 200);
    t.same(
      body.emails.map((email: { subject: string }) => email.subject),
      subjects,
    );
    t.match(body, { count: 3, errors: [], emails: [{ status: 'queued', id: String }] });
    for (const { id } of body.emails) t.equal((await node.call('GET', `/api/v1/emails/${id}`, { key })).status, 200);
  });

  t.test('large batches at once, and one that breaks off, are not mixed up', async (t) => {
    const large = (name: string, count: number) =>
      Array.from({ length: count }, (_, at) => ({
        ...item({ subject: `${name}${at}` }),
        text: `${name}${at} é\n`.repeat(4_000),
      }));
    const batches = ['a', 'b', 'c'].map((name, at) => large(name, 20 + 5 * at));
    const broken = JSON.stringify({ emails: large('d', 30) });
    const { hostname, port } = new URL(node.baseUrl);
    const socket = net.connect(Number(port), hostname).on('error', () => {});
    socket.write(
      `POST /api/v1/emails/batch HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(broken)}\r\n\r\n`,
    );
    socket.write(broken.slice(0, broken.length / 2));
    for (let round = 0; round < 2; round += 1) {
      const answers = await Promise.all(batches.map((emails) => post({ emails })));
      socket.destroy();
      for (const [at, { status, body }] of answers.entries()) {
        t.equal(status, 200);
        const ids = body.emails.map((email: { id: string }) => email.id);
        const stored = await node.db.query<{ text: string }>({
          text: 'SELECT text FROM email_contents JOIN unnest($1::uuid[]) WITH ORDINALITY AS asked (email_id, place) USING (email_id) ORDER BY place',
          values: [ids],
        });
        // Not by an assertion that shows megabytes if they differ.
        const wrong = stored.flatMap(({ text }, place) => (text === batches[at]?.[place]?.text ? [] : [place]));
        t.strictSame([stored.length, wrong], [batches[at]?.length, []]);
      }
    }
  });

  t.test('an item refused in context does not stop the others', async (t) => {
    const { status, body } = await post({
      emails: [item(), item({ from: 'x@unknown.test' }), item({ subject: 'last' })],
    });
    t.equal(status, 200);
    t.match(body, { count: 3, emails: [{ subject: 's' }, { subject: 'last' }] });
    t.match(body.errors, [{ index: 1, error: 'from domain not verified', detail: /^from: unknown\.test is not/ }]);
    t.equal(body.emails.length, 2);
  });

  t.test('a malformed item makes the whole request a 400 that names it, and nothing is stored', async (t) => {
    const before = await storedRows(node);
    const wrong: [unknown, RegExp][] = [
      [{}, /^emails: is required, as an array: POST \/api\/v1\/emails sends a single one$/],
      [item(), /^emails: is required/],
      [{ emails: 'x' }, /^emails: must be an array$/],
      [{ emails: [] }, /^emails: must not be empty$/],
      [{ emails: Array.from({ length: 1_001 }, () => item()) }, /^emails: must have at most 1,000 entries$/],
      [{ emails: [item(), item(), item(), item({ to: ['nonsense'] })] }, /^emails\[3\]\.to\[0\]: not an email address/],
      [{ emails: [item(), null] }, /^emails\[1\]: must be an object$/],
      [{ emails: [item(), item({ subject: undefined })] }, /^emails\[1\]\.subject: is required$/],
      [{ emails: [item(), item({ replyTo: 'a@b.test' })] }, /^emails\[1\]\.replyTo: must be called reply_to/],
      [{ emails: [item()], send_at: '2031-01-01T00:00:00Z' }, /^send_at: must be set in each item of emails/],
      [{ emails: [item()], dryRun: true }, /^dryRun: must be a query parameter/],
      [{ email: [item()] }, /^emails: is required/],
      [
        { emails: [item(), { ...item({ from: undefined }), From: 'a@b.test' }] },
        /^emails\[1\]\.From: must be called from$/,
      ],
    ];
    for (const [body, detail] of wrong) {
      const answer = await post(body);
      t.match([answer.status, answer.body], [400, { error: 'invalid request', detail }]);
    }
    const dry = await node.call('POST', '/api/v1/emails/batch?dry_run=true', { key, body: { emails: [item()] } });
    t.match(dry, { status: 400, body: { detail: 'dry_run: is not a parameter of this call' } });
    const misspelt = await node.call('POST', '/api/v1/emails?dryrun=true', { key, body: item() });
    t.match(misspelt, { status: 400, body: { detail: 'dryrun: is not a parameter of this call' } });
    t.same(await storedRows(node), before);
  });

  t.test('takes a thousand, and sends at once those that are not scheduled', async (t) => {
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const { status, body } = await post({
      emails: Array.from({ length: 1_000 }, (_, n) =>
        item({ to: [`a${n}@many.test`], ...(n < 900 && { scheduled_at: later }) }),
      ),
    });
    t.equal(status, 200);
    t.match(body, { count: 1_000, errors: [] });
    t.equal(body.emails.length, 1_000);
    await eventually(async () => (await node.db.prisma.email.count({ where: { status: 'queued' } })) === 900, 60_000);
    t.equal(
      await node.db.prisma.email.count({ where: { status: 'sent' } }),
      (await node.db.prisma.email.count()) - 900,
    );
  });
});

t.test('scheduling', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'later.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const { key } = node;
  const at = (ms: number) => new Date(Date.now() + ms).toISOString();
  const cancel = (id: string, by = key) => node.call('DELETE', `/api/v1/emails/${id}`, { key: by });
  const move = (id: string, scheduledAt: unknown, by = key) =>
    node.call('PATCH', `/api/v1/emails/${id}`, { key: by, body: { scheduled_at: scheduledAt } });
  const adviceOn = async (id: string, by = key): Promise<string> =>
    (await node.call('GET', `/api/v1/emails/${id}/explain`, { key: by })).body.recipients[0].advice;

  t.test('a canceled email is never sent', async (t) => {
    const schedule = (ms: number) => node.send({ to: ['a@later.test', 'b@later.test'], scheduled_at: at(ms) });
    let leadMs = 3_000;
    let sent = await schedule(leadMs);
    let answer = await cancel(sent.id);
    // If the machine stood still until it was due, another one is canceled.
    while (answer.status === 409 && leadMs < 30_000) {
      await eventually(async () => (await node.read(sent.id)).status === 'sent');
      leadMs *= 3;
      sent = await schedule(leadMs);
      answer = await cancel(sent.id);
    }
    const before = sink.messages.length;
    t.match([answer.status, answer.body.email], [200, { id: sent.id, status: 'canceled' }]);
    t.match(await node.read(sent.id), {
      recipients: [{ status: 'canceled', next_attempt_at: null }, { status: 'canceled' }],
    });
    t.match([(await cancel(sent.id)).status], [409]);
    await new Promise((resume) => setTimeout(resume, leadMs + 1_500));
    t.equal(sink.messages.length, before);
  });

  t.test('a moved email is sent at its new time', async (t) => {
    const sent = await node.send({ to: 'a@later.test', scheduled_at: at(3_600_000) });
    const soon = at(1_000);
    const { status, body } = await move(sent.id, soon);
    t.match([status, body.email], [200, { id: sent.id, status: 'queued', scheduled_at: soon }]);
    const { sent_at: sentAt } = await eventually(async () => {
      const email = await node.read(sent.id);
      return email.status === 'sent' && email;
    });
    t.ok(sentAt >= soon, `${sentAt} is not before ${soon}`);
  });

  t.test('for mail on its way it is a conflict, and bad times are a 400', async (t) => {
    const done = await node.send({ to: 'a@later.test' });
    t.equal((await cancel(done.id)).status, 409);
    t.match((await move(done.id, at(60_000))).body, { error: 'conflict' });
    const waiting = await node.send({ to: 'a@later.test', scheduled_at: at(3_600_000) });
    for (const wrong of [undefined, null, 'soon', '2020-01-01T00:00:00Z', at(400 * 86_400_000), 17]) {
      t.match(await move(waiting.id, wrong), {
        status: 400,
        body: { error: 'invalid request', detail: /^scheduled_at: / },
      });
    }
    await cancel(waiting.id);
    // Otherwise the next tests would count it.
    await eventually(async () => (await node.read(done.id)).status === 'sent');
  });

  t.test('another account, another id, and a key that may only read', async (t) => {
    const waiting = await node.send({ to: 'a@later.test', scheduled_at: at(3_600_000) });
    const orders = [
      (id: string, by: string) => node.call('POST', `/api/v1/emails/${id}/stop`, { key: by }),
      (id: string, by: string) => node.call('POST', `/api/v1/emails/${id}/release`, { key: by, body: { as: 'retry' } }),
      (id: string, by: string) => node.call('POST', `/api/v1/emails/${id}/resend`, { key: by }),
    ];
    const other = await buildAccount(node.db);
    const otherKey = await buildKey(node.db, other.id);
    for (const [id, by] of [
      [waiting.id, otherKey],
      ['nonsense', key],
      ['00000000-0000-7000-8000-000000000000', key],
    ] as const) {
      t.match(await cancel(id, by), { status: 404, body: { error: 'not found' } });
      t.match(await move(id, at(60_000), by), { status: 404, body: { error: 'not found' } });
      for (const order of orders) t.match(await order(id, by), { status: 404, body: { error: 'not found' } });
    }
    const reader = await buildKey(node.db, node.account.id, { scopes: ['read'] });
    const ofAnother = await buildKey(node.db, node.account.id, { domains: ['another.test'] });
    for (const by of [reader, ofAnother]) {
      t.equal((await cancel(waiting.id, by)).status, 403);
      t.equal((await move(waiting.id, at(60_000), by)).status, 403);
      for (const order of orders) t.equal((await order(waiting.id, by)).status, 403);
    }
    t.equal((await node.read(waiting.id)).status, 'queued');
    await cancel(waiting.id);
  });

  t.test('if canceling races with sending, one of them wins', async (t) => {
    const before = sink.messages.length;
    const sent = await Promise.all(
      Array.from({ length: 20 }, () => node.send({ to: 'race@later.test', scheduled_at: at(1_200) })),
    );
    await new Promise((resume) => setTimeout(resume, 1_000));
    const canceled = new Set<string>();
    for (const { id } of sent) {
      await new Promise((resume) => setTimeout(resume, 60));
      if ((await cancel(id)).status === 200) canceled.add(id);
    }
    for (const { id } of sent)
      await eventually(async () => (await node.read(id)).status === (canceled.has(id) ? 'canceled' : 'sent'));
    t.equal(sink.messages.length - before, sent.length - canceled.size);
  });

  t.test('domain, key and suppressions are checked again when the time comes', async (t) => {
    const before = sink.messages.length;
    const revoked = await buildKey(node.db, node.account.id);
    const byRevoked = await node.call('POST', '/api/v1/emails', {
      key: revoked,
      body: { from: node.from, to: 'a@later.test', subject: 's', text: 't', scheduled_at: at(3_600_000) },
    });
    const toSuppressed = await node.send({ to: ['Late@later.test'], scheduled_at: at(3_600_000) });
    // PostgreSQL has a lower case of its own for this letter, another one in each locale.
    const toOdd = await node.send({ to: ['\u0130LK@later.test'], scheduled_at: at(3_600_000) });
    const toBoth = await node.send({ to: ['late@later.test', 'other@later.test'], scheduled_at: at(3_600_000) });
    const toReader = await node.send({ to: ['reader@later.test'], scheduled_at: at(3_600_000) });
    const news = await node.send({ to: ['reader@later.test'], scheduled_at: at(3_600_000), type: 'marketing' });
    const remover = await buildSender(node.db, testKey(7));
    const byRemoved = await node.call('POST', '/api/v1/emails', {
      key: remover.key,
      body: { from: remover.from, to: 'a@later.test', subject: 's', text: 't', scheduled_at: at(3_600_000) },
    });
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: remover.account })).body;
    t.equal((await node.call('DELETE', `/api/v1/domains/${remover.domainId}`, { token })).status, 200);
    await node.db.query({
      text: 'UPDATE api_keys SET revoked_at = now() WHERE key_prefix = $1',
      values: [revoked.slice(0, 12)],
    });
    const { body: login } = await node.call('POST', '/api/v1/auth/login', { body: node.account });
    for (const address of ['late@later.test', '\u0130lk@later.test'])
      await node.call('POST', '/api/v1/suppressions', { token: login.token, body: { address } });
    const unsubscribed = { address: 'reader@later.test', reason: 'unsubscribe' };
    await node.call('POST', '/api/v1/suppressions', { token: login.token, body: unsubscribed });
    const all = [byRevoked.body.email, byRemoved.body.email, toSuppressed, toOdd, toBoth, toReader, news];
    await node.db.query({
      text: 'UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE email_id = ANY($1)',
      values: [all.map(({ id }) => id)],
    });
    for (const [{ id }, status] of [
      [toReader, 'sent'],
      [news, 'suppressed'],
    ] as const)
      t.equal(
        await eventually(async () => {
          const email = await node.read(id);
          return email.status !== 'queued' && email.status;
        }),
        status,
        'who unsubscribed gets no more newsletters, and all other mail',
      );
    t.match(
      await eventually(async () => {
        const email = await node.read(byRevoked.body.email.id);
        return email.status === 'failed' && email;
      }),
      { error: /key .* was revoked/ },
    );
    t.match(await adviceOn(byRevoked.body.email.id), /^What a key has scheduled .* send it again with another key\.$/);
    t.match(
      await eventually(async () => {
        const { email } = (await node.call('GET', `/api/v1/emails/${byRemoved.body.email.id}`, { key: remover.key }))
          .body;
        return email.status === 'failed' && email;
      }),
      { error: /domain was removed/ },
    );
    t.match(
      await adviceOn(byRemoved.body.email.id, remover.key),
      /^Add the sending domain again .* once that is fixed\.$/,
    );
    for (const { id } of [toSuppressed, toOdd])
      t.match(
        await eventually(async () => {
          const email = await node.read(id);
          return email.status !== 'queued' && email;
        }),
        { status: 'suppressed', recipients: [{ status: 'suppressed', next_attempt_at: null }] },
      );
    const both = await eventually(async () => {
      const email = await node.read(toBoth.id);
      return email.status !== 'queued' && email;
    });
    t.match(both, { status: 'suppressed', recipients: [{ status: 'suppressed' }, { status: 'delivered' }] });
    t.equal(sink.messages.length, before + 2);
  });

  t.test('mail that waits while its account is suspended is not sent, fails and says why: MAIL-13', async (t) => {
    const before = sink.messages.length;
    const sender = await buildSender(node.db, testKey(7));
    const login = async (body: unknown) => (await node.call('POST', '/api/v1/auth/login', { body })).body.token;
    const token = await login(sender.account);
    const hook = { url: 'https://hooks.example.com/', events: ['email.failed', 'email.delivered'] };
    t.equal((await node.call('POST', '/api/v1/webhooks', { token, body: hook })).status, 201);
    const send = async (fields: object) => {
      const body = { from: sender.from, subject: 's', text: 't', ...fields };
      return (await node.call('POST', '/api/v1/emails', { key: sender.key, body })).body.email.id as string;
    };
    const read = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key: sender.key })).body.email;
    node.zone.set('away.test', 'SERVFAIL');
    const tried = await send({ to: 'a@away.test' });
    const scheduled = await send({ to: ['a@later.test', 'b@later.test'], scheduled_at: at(3_600_000) });
    await eventually(async () => (await read(tried)).recipients[0].status === 'deferred');

    const admin = await login({ email: 'admin@example.test', password: node.adminPassword });
    const suspend = (suspended: boolean) =>
      node.call('PATCH', `/api/v1/admin/accounts/${sender.account.id}`, { token: admin, body: { suspended } });
    t.equal((await suspend(true)).status, 200);
    // The first attempt is over.
    const inHand = { emailId: tried, claimedBy: { not: null } };
    await eventually(async () => (await node.db.prisma.recipient.count({ where: inHand })) === 0);
    // From here on only the suspension is in the way of either.
    node.zone.set('away.test', { A: ['127.0.0.1'] });
    await node.db.query({
      text: `UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1)
              WHERE email_id = ANY($1) AND status IN ('queued', 'deferred')`,
      values: [[tried, scheduled]],
    });
    await eventually(async () => {
      const rows = await node.db.prisma.email.findMany({ where: { accountId: sender.account.id } });
      return rows.every(({ status }) => status === 'failed');
    });
    t.equal((await suspend(false)).status, 200);
    for (const [id, recipients] of [
      [tried, 1],
      [scheduled, 2],
    ] as const) {
      const email = await read(id);
      t.match(
        [email.status, email.error],
        ['failed', /the account is suspended/],
        'for good, even after the account is restored',
      );
      t.match(await adviceOn(id, sender.key), /^An operator of this server can resume the account\. .* send it again/);
      t.equal(email.recipients.length, recipients);
      for (const one of email.recipients) t.match(one, { status: 'failed', next_attempt_at: null });
      const { deliveries } = (await node.call('GET', `/api/v1/webhook-deliveries?email_id=${id}`, { token })).body;
      t.strictSame(
        deliveries.map(({ event }: { event: string }) => event),
        ['email.failed'],
      );
    }
    t.equal(sink.messages.length, before, 'no server saw them');
  });
});

t.test('suppressions', async (t) => {
  const node = await startTestNode(t, env);
  const sender = await buildSender(node.db, encryptionKey);
  const { key, from } = sender;
  const token = (await node.call('POST', '/api/v1/auth/login', { body: sender.account })).body.token;
  const suppress = (address: unknown, reason?: unknown) =>
    node.call('POST', '/api/v1/suppressions', { token, body: { address, reason } });
  const send = async (fields: object) =>
    (await node.call('POST', '/api/v1/emails', { key, body: { from, subject: 's', text: 't', ...fields } })).body.email;

  t.test('a suppressed address, anywhere among the recipients, suppresses the email', async (t) => {
    const { status, body } = await suppress('Gone@Example.TEST');
    t.match(
      [status, body],
      [200, { suppression: { address: 'gone@example.test', reason: 'manual', created_at: String } }],
    );
    for (const fields of [
      { to: 'GONE@example.test' },
      { to: 'fine@example.test', cc: ['gone@example.test'] },
      { to: 'fine@example.test', bcc: 'gone@EXAMPLE.test' },
    ]) {
      const email = await send(fields);
      t.match(email, { status: 'suppressed', error: /gone@example\.test is suppressed \(manual\)/i });
      const { body } = await node.call('GET', `/api/v1/emails/${email.id}`, { key });
      for (const recipient of body.email.recipients) t.match(recipient, { attempts: 0, next_attempt_at: null });
    }
    t.equal(await node.db.prisma.recipient.count({ where: { nextAttemptAt: { not: null } } }), 0);
    t.match(await send({ to: 'fine@example.test' }), { status: 'queued' });
  });

  t.test('the reason for a suppression is cut between characters', async (t) => {
    const addresses = Array.from(
      { length: 50 },
      (_, n) => `${n ? '' : 'a'.repeat(11)}${'\u{1F600}'.repeat(12)}${10 + n}@b.test`,
    );
    for (const address of addresses) await suppress(address);
    const email = await send({ to: addresses });
    t.match(email, { status: 'suppressed', error: /\(manual\); / });
    t.ok(email.error.length <= 2_000 && email.error.isWellFormed());
    await node.db.prisma.suppression.deleteMany({ where: { address: { in: addresses } } });
  });

  t.test('a recipient who unsubscribed still gets mail that is not marketing', async (t) => {
    await suppress('reader@example.test', 'unsubscribe');
    t.equal((await send({ to: 'reader@example.test', type: 'marketing' })).status, 'suppressed');
    t.equal((await send({ to: 'reader@example.test', type: 'transactional' })).status, 'queued');
    await suppress('reader@example.test', 'complaint');
    t.equal((await send({ to: 'reader@example.test' })).status, 'suppressed', 'a complaint is stronger');
    await suppress('reader@example.test', 'unsubscribe');
    t.equal(
      (await send({ to: 'reader@example.test' })).status,
      'suppressed',
      'and a weaker reason does not replace it',
    );
  });

  t.test('a suppressed address is suppressed in every spelling, and no other address is: MAIL-06', async (t) => {
    const spellings = [
      'x@bücher.test',
      'x@xn--bcher-kva.test',
      'X@BÜCHER.Test',
      'x@XN--BCHER-KVA.TEST',
      'x@bu\u0308cher.test',
      'x@ｂücher.test',
      'x@bücher\u3002test',
      'Ann <X@bücher.test>',
    ];
    const others = ['x+news@bücher.test', 'x@mail.bücher.test', 'x@bucher.test', 'xx@bücher.test'];
    const sends = async (to: string) => (await send({ to }))?.status ?? 'refused';
    for (const written of spellings) {
      t.equal((await suppress(written)).body.suppression.address, 'x@xn--bcher-kva.test', written);
      for (const to of spellings) t.equal(await sends(to), 'suppressed', `${written} is on the list: ${to}`);
      const path = `/api/v1/suppressions/${encodeURIComponent(written)}`;
      t.equal((await node.call('DELETE', path, { token })).status, 200, `and off it again: ${written}`);
    }
    await suppress('x@bücher.test');
    await suppress('a+b@bücher.test');
    for (const to of others) t.not(await sends(to), 'suppressed', to);
    t.strictSame([await sends('a@bücher.test'), await sends('A+B@bücher.test')], ['queued', 'suppressed']);
    // With a dot at its end it is not another spelling: it is refused, in the list and in an email.
    t.match((await suppress('x@bücher.test.')).body.detail, 'address: the domain ends with a dot');
    t.equal(await sends('x@bücher.test.'), 'refused');

    const { id } = await send({ to: 'Reader@BÜCHER.test', type: 'marketing' });
    const link = createUnsubscribeToken(unsubscribeKey(encryptionKey), { emailId: id, position: 0 });
    t.equal((await node.call('POST', `/unsubscribe/${link}`)).status, 200);
    for (const to of ['reader@bücher.test', 'READER@xn--bcher-kva.test']) {
      t.equal((await send({ to, type: 'marketing' })).status, 'suppressed', to);
      t.equal((await send({ to })).status, 'queued', `${to}, not marketing`);
    }
    for (const address of ['x@bücher.test', 'a+b@bücher.test', 'reader@bücher.test'])
      await node.call('DELETE', `/api/v1/suppressions/${encodeURIComponent(address)}`, { token });
  });

  t.test('a hard bounce suppresses the address, another refusal does not', async (t) => {
    const hasFailed = async ({ id }: { id: string }) =>
      (await node.call('GET', `/api/v1/emails/${id}`, { key })).body.email.status === 'failed';
    const [email, toFull] = [await send({ to: 'bounced+7@example.test' }), await send({ to: 'full@example.test' })];
    await eventually(async () => (await hasFailed(email)) && (await hasFailed(toFull)));
    const { body } = await node.call('GET', '/api/v1/suppressions?reason=bounce', { token });
    t.match(body, {
      count: 1,
      suppressions: [{ address: 'bounced+7@example.test', reason: 'bounce', email_id: email.id }],
    });
    t.equal((await send({ to: 'bounced+7@example.test' })).status, 'suppressed');
  });

  t.test('are listed and removed, for their account only', async (t) => {
    const { body } = await node.call('GET', '/api/v1/suppressions?limit=1', { token });
    t.equal(body.suppressions.length, 1);
    t.equal(body.count, 3);
    const other = await buildAccount(node.db);
    const otherToken = (await node.call('POST', '/api/v1/auth/login', { body: other })).body.token;
    t.match((await node.call('GET', '/api/v1/suppressions', { token: otherToken })).body, {
      suppressions: [],
      count: 0,
    });
    t.equal((await node.call('DELETE', '/api/v1/suppressions/gone@example.test', { token: otherToken })).status, 404);
    const removed = await node.call('DELETE', '/api/v1/suppressions/GONE%40example.test', { token });
    t.match([removed.status, removed.body], [200, { message: /gone@example\.test/ }]);
    t.equal((await node.call('DELETE', '/api/v1/suppressions/gone@example.test', { token })).status, 404);
    t.equal((await node.call('DELETE', '/api/v1/suppressions/%00', { token })).status, 404);
    const international = 'gone@münchen.test';
    await node.call('POST', '/api/v1/suppressions', { token, body: { address: international } });
    const path = `/api/v1/suppressions/${encodeURIComponent(international)}`;
    t.equal((await node.call('DELETE', path, { token })).status, 200, 'in the spelling it was added with');
    t.equal((await send({ to: 'gone@example.test' })).status, 'queued');
  });

  t.test('bad input names the field', async (t) => {
    for (const [address, reason, detail] of [
      [undefined, undefined, 'address: is required'],
      ['nonsense', undefined, /^address: not an email address/],
      [7, undefined, 'address: must be a string'],
      ['a@b.test', 'spam', 'reason: must be one of bounce, complaint, unsubscribe, manual'],
    ] as const) {
      t.match(await suppress(address, reason), { status: 400, body: { error: 'invalid request', detail } });
    }
    t.equal((await node.call('GET', '/api/v1/suppressions?limit=x', { token })).status, 400);
    t.equal((await node.call('GET', '/api/v1/suppressions')).status, 401);
  });
});
