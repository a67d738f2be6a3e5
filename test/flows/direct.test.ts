import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t from 'tap';
import { dnsValue } from '../../src/mail/compose/dkim-key.ts';
import { buildSender } from '../support/build.ts';
import { startDirectNode } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { testKey } from '../support/keys.ts';
import { longPauses, startScriptedMx, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

t.test('MX-05: recipients of one destination share a transaction, each with its own reply', async (t) => {
  const sink = await startSink({
    tls: true,
    onRecipient: (address) => (address.startsWith('gone') ? '550 5.1.1 no such user' : null),
  });
  t.teardown(() => sink.close());
  const zone = {
    'one.test': { MX: [[10, 'mx.one.test']] as [number, string][] },
    'mx.one.test': { A: ['127.0.0.1'] },
    'two.test': { A: ['127.0.0.1'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: sink.port });
  const sent = await node.send({
    to: ['a@one.test', 'gone@one.test', 'A@ONE.test'],
    cc: 'c@two.test',
    bcc: ['hidden@one.test'],
    reply_to: 'answers@sender.test',
    headers: { 'X-Order': '42' },
    attachments: [{ filename: 'π.txt', content: Buffer.from('pi').toString('base64') }],
  });
  const done = await eventually(async () => {
    const email = await node.read(sent.id);
    return email.status !== 'queued' && email;
  });
  t.equal(done.status, 'failed');
  t.match(done.recipients, [
    { address: 'a@one.test', kind: 'to', status: 'delivered' },
    { address: 'gone@one.test', status: 'failed', last_response: '550 5.1.1 no such user' },
    { address: 'c@two.test', kind: 'cc', status: 'delivered' },
    { address: 'hidden@one.test', kind: 'bcc', status: 'delivered' },
  ]);
  t.equal(done.recipients.length, 4, 'a repeated address gets one copy');
  t.equal(sink.messages.length, 2);
  const [first, second] = sink.messages.toSorted((a, b) => b.to.length - a.to.length);
  t.strictSame(first?.to, ['a@one.test', 'hidden@one.test']);
  t.strictSame(second?.to, ['c@two.test'], 'without an MX record the domain itself receives the mail');
  t.same(first?.raw, second?.raw, 'both got the same bytes');
  t.ok(first?.tls);

  const raw = first?.raw ?? Buffer.alloc(0);
  const text = raw.toString('latin1');
  t.notMatch(text, /hidden@/);
  t.match(text, /^X-Order: 42\r$/m);
  t.match(text, /^Reply-To: answers@sender\.test\r$/m);
  t.match(text, new RegExp(`^Message-ID: <${sent.id}@`, 'mi'));
  const domain = await node.db.prisma.domain.findUniqueOrThrow({ where: { id: node.domainId } });
  node.zone.set(`${domain.dkimSelector}._domainkey.${domain.domain}`, { TXT: [dnsValue(domain.dkimPublicKey)] });
  const resolver = async (name: string, type: string) => (await node.zone.resolver.resolve(name, type)) as string[][];
  t.equal((await dkimVerify(raw, { resolver })).results[0]?.status.result, 'pass');
});

t.test('mail that can never be delivered fails at once and says why', async (t) => {
  const zone = {
    'null.test': { MX: [[0, '.']] as [number, string][] },
    'nothing.test': { TXT: ['no mail here'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: 1 });
  const sent = await node.send({ to: ['a@null.test', 'b@nothing.test', 'c@missing.test'] });
  const done = await eventually(async () => {
    const email = await node.read(sent.id);
    return email.status === 'failed' && email;
  });
  for (const recipient of done.recipients) t.match(recipient, { status: 'failed', attempts: 1, next_attempt_at: null });
  const { body } = await node.call('GET', `/api/v1/emails/${sent.id}/attempts`, { key: node.key });
  t.strictSame(
    body.attempts.map((entry: { phase: string; outcome: string }) => [entry.phase, entry.outcome]),
    [
      ['dns', 'bounced'],
      ['dns', 'bounced'],
      ['dns', 'bounced'],
    ],
  );
  for (const attempt of body.attempts) t.ok(attempt.reason.length > 10, attempt.reason);
});

t.test('mail is retried after a failing name server and a closed port', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'later.test': 'SERVFAIL' }, mxPort: sink.port });
  const sent = await node.send({ to: 'a@later.test' });
  await eventually(async () => (await node.read(sent.id)).recipients[0].status === 'deferred');
  node.zone.set('later.test', { A: ['127.0.0.1'] });
  const done = await eventually(async () => {
    const email = await node.read(sent.id);
    return email.status === 'sent' && email;
  });
  t.ok(done.recipients[0].attempts >= 2);
  t.equal(sink.messages.length, 1);
});

t.test('when the time is up, the last answer is kept', async (t) => {
  const sink = await startSink({ onRecipient: () => '451 4.3.2 not now' });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, {
    zone: { 'busy.test': { A: ['127.0.0.1'] } },
    mxPort: sink.port,
    env: { RETRY_FOR: '1h' },
  });
  const sent = await node.send({ to: 'a@busy.test' });
  await eventually(async () => (await node.read(sent.id)).recipients[0].attempts >= 3);
  await node.db.query({
    text: `UPDATE emails SET created_at = created_at - interval '1 hour' WHERE id = $1`,
    values: [sent.id],
  });
  const done = await eventually(async () => {
    const email = await node.read(sent.id);
    return email.status === 'failed' && email;
  });
  t.match(done.error, /given up after 60 minutes.* 451 4\.3\.2 not now/);
  t.ok(done.recipients[0].attempts >= 3);
});

t.test('mail that cannot be built fails after five tries, says so and holds up no other: QUE-03', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'both.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const doomed = await buildSender(node.db, testKey(7));
  await node.db.query({
    text: `UPDATE domains SET dkim_private_key = substr(dkim_private_key, 1, 40) WHERE id = $1`,
    values: [doomed.domainId],
  });
  const hook = await startHook(t);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: doomed.account })).body;
  await node.call('POST', '/api/v1/webhooks', { token, body: { url: hook.url, events: ['email.failed'] } });
  const body = { from: doomed.from, to: ['a@both.test', 'b@both.test'], subject: 's', text: 't' };
  const poison: string[] = [];
  for (let n = 0; n < 3; n += 1)
    poison.push((await node.call('POST', '/api/v1/emails', { key: doomed.key, body })).body.email.id);
  const read = async (id: string) => (await node.call('GET', `/api/v1/emails/${id}`, { key: doomed.key })).body.email;
  await eventually(async () => (await read(poison[2] ?? '')).recipients[0].status === 'deferred');
  // The first of them is not finished before the others have been sent.
  const moveFirst = (at: string) =>
    node.db.query({
      text: `UPDATE recipients SET next_attempt_at = ${at} WHERE email_id = $1 AND job_id IS NULL AND status = 'deferred' RETURNING 1`,
      values: [poison[0]],
    });
  await eventually(async () => (await moveFirst(`now() + interval '1 hour'`)).length === 2);
  for (let n = 0; n < 10; n += 1) await node.send({ to: `c${n}@both.test` });
  await eventually(async () => sink.messages.length === 10);
  t.equal((await read(poison[0] ?? '')).status, 'queued', 'they did not wait for it');
  t.equal((await moveFirst(`now() - interval '1 ms'`)).length, 2);

  const error = 'the message could not be built; the log of the server says why';
  for (const id of poison) {
    const ended = await eventually(async () => {
      const email = await read(id);
      return email.status !== 'queued' && email;
    });
    const recipient = { status: 'failed', attempts: 5, next_attempt_at: null, last_response: error };
    t.match(ended, { status: 'failed', error, recipients: [recipient, recipient] });
    const { attempts } = (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: doomed.key })).body;
    const times = attempts
      .filter((one: { recipient: string }) => one.recipient === 'a@both.test')
      .map((one: { at: string }) => Date.parse(one.at))
      .sort();
    t.equal(times.length, 5);
    // One try of the first was brought forward.
    const least = id === poison[0] ? 2_000 : 3_000;
    t.ok(times[4] - times[0] > least, `as scheduled: within ${times[4] - times[0]} ms`);
  }
  await eventually(async () => hook.calls.length === 3);
  for (const { json } of hook.calls) t.match([json.type, json.data.recipients[0].response], ['email.failed', error]);
  t.equal(sink.messages.length, 10, 'no server heard of it');
});

t.test('whatever text the server sends, the message is sent once and the text is stored harmlessly', async (t) => {
  const texts: Record<string, string> = {
    'nul.test': '250 ok\0\x1b[31m<script>',
    'latin.test': '250 \xfcbel \xff\xfe',
    'long.test': `250 ${'x'.repeat(30_000)}`,
    'lines.test': '250-one\r\n250-two\r\n250 three',
  };
  const messages: string[] = [];
  const mx = await startScriptedMx(async (peer) => {
    await peer.greet('8BITMIME');
    for (;;) {
      const line = await peer.line();
      if (/^QUIT/.test(line)) return;
      if (/^RCPT/.test(line)) messages.push(line);
      if (!/^DATA/.test(line)) {
        peer.send('250 ok\r\n');
        continue;
      }
      peer.send('354 go\r\n');
      await peer.until('\r\n.\r\n');
      peer.send(`${texts[/@([^>]+)>/.exec(messages.at(-1) ?? '')?.[1] ?? '']}\r\n`);
    }
  });
  t.teardown(() => mx.close());
  const zone = Object.fromEntries(Object.keys(texts).map((name) => [name, { A: ['127.0.0.1'] }]));
  const node = await startDirectNode(t, { zone, mxPort: mx.port });
  for (const domain of Object.keys(texts)) {
    const sent = await node.send({ to: `a@${domain}` });
    const done = await eventually(async () => {
      const email = await node.read(sent.id);
      return email.status !== 'queued' && email;
    });
    t.equal(done.status, 'sent', domain);
    const response: string = done.recipients[0].last_response;
    t.notMatch(response, /[\u0000-\u001f\u007f-\u009f]/);
    t.ok(response.length <= 2_100);
  }
  await new Promise((resume) => setTimeout(resume, 1_500));
  t.equal(messages.length, Object.keys(texts).length);
});

t.test('connections are kept for the next message', async (t) => {
  const sink = await startSink({ tls: true });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'kept.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  for (let round = 0; round < 5; round += 1) {
    const sent = await node.send({ to: `a${round}@kept.test` });
    await eventually(async () => (await node.read(sent.id)).status === 'sent');
  }
  t.equal(sink.messages.length, 5);
  // A slow machine may leave one idle for too long.
  t.ok(sink.connections <= 1 + longPauses(sink.messages), `${sink.connections} connections`);
});

t.test('mail of a removed domain is no longer sent', async (t) => {
  let open = false;
  const sink = await startSink({ onRecipient: () => (open ? null : '451 4.3.2 not now') });
  t.teardown(() => sink.close());
  // Otherwise it might be tried right while the domain is removed.
  const env = { RETRY_SCHEDULE: '1h' };
  const node = await startDirectNode(t, { zone: { 'wait.test': { A: ['127.0.0.1'] } }, mxPort: sink.port, env });
  const sent = await node.send({ to: 'a@wait.test' });
  await eventually(async () => (await node.read(sent.id)).recipients[0].status === 'deferred');
  const login = await node.call('POST', '/api/v1/auth/login', { body: node.account });
  const removed = await node.call('DELETE', `/api/v1/domains/${node.domainId}`, { token: login.body.token });
  t.equal(removed.status, 200);
  t.type(removed.body.message, 'string');
  open = true;
  await node.db.query({
    text: 'UPDATE recipients SET next_attempt_at = now() - make_interval(secs => 1) WHERE email_id = $1',
    values: [sent.id],
  });
  const done = await eventually(async () => {
    const email = await node.read(sent.id);
    return email.status === 'failed' && email;
  });
  t.match(done.error, /domain was removed/);
  t.equal(sink.messages.length, 0);
});

t.test('a scheduled email waits for its time', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'soon.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const at = new Date(Date.now() + 2_500);
  const sent = await node.send({ to: 'a@soon.test', scheduled_at: at.toISOString() });
  t.equal(sent.scheduled_at, at.toISOString());
  await eventually(async () => sink.messages.length === 1);
  t.ok((sink.messages[0]?.at ?? new Date(0)) >= at, 'not a moment too early');
});
