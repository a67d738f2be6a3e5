import t from 'tap';
import { startDirectNode } from '../support/direct.ts';
import { longPauses, startScriptedMx, startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';

type Line = { ms: number; by: string; text: string };

const spoken = (lines: Line[], by: string) => lines.filter((line) => line.by === by).map(({ text }) => text);

t.test('every attempt keeps what was looked up, decided and said, but not the message', async (t) => {
  const sink = await startSink({
    tls: true,
    onRecipient: (to) => (to.startsWith('no') ? '550 5.1.1 no such user' : null),
  });
  t.teardown(() => sink.close());
  const zone = {
    'talk.test': { MX: [[10, 'mx.talk.test']] as [number, string][] },
    'chat.test': { MX: [[10, 'mx.talk.test']] as [number, string][] },
    'mx.talk.test': { A: ['127.0.0.1'] },
  };
  const node = await startDirectNode(t, { zone, mxPort: sink.port });
  const attemptsOf = async (id: string) =>
    (await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key })).body.attempts;
  const first = await node.send({ to: ['a@talk.test', 'no@talk.test'], subject: 'Secret', text: 'not to be seen' });
  await eventually(async () => (await node.read(first.id)).status === 'failed');
  const [one, two] = await attemptsOf(first.id);
  t.same(one.conversation, two.conversation, 'both recipients of the session');
  const lines: Line[] = one.conversation;
  const notes = spoken(lines, 'note');
  for (const note of [
    /^talk\.test: 1 under way, 5 at once for now, at most 20$/,
    /^pool default: from 127\.0\.0\.1$/,
    /^MX hosts of talk\.test: 10 mx\.talk\.test$/,
    /^addresses of mx\.talk\.test: 127\.0\.0\.1$/,
    /^TLS policy: opportunistic$/,
    /^connected to 127\.0\.0\.1 port \d+ from 127\.0\.0\.1$/,
    /^TLSv1\.3 with TLS_\w+, certificate not valid \(.*\)$/,
    /^message of \d+ bytes$/,
  ])
    t.ok(
      notes.some((text) => note.test(text)),
      String(note),
    );
  const us = spoken(lines, 'us');
  t.match(us[0], /^EHLO /);
  t.match(us[1], 'STARTTLS');
  t.ok(us.some((text) => /^MAIL FROM:<bounces\+/.test(text)));
  t.same(us.slice(-4), ['RCPT TO:<a@talk.test>', 'RCPT TO:<no@talk.test>', 'DATA', '.']);
  const server = spoken(lines, 'server');
  t.match(server[0], /^220 /);
  t.ok(server.includes('550 5.1.1 no such user'));
  t.ok(
    lines.every(({ ms }, index) => ms >= (lines[index - 1]?.ms ?? 0)),
    'in order',
  );
  t.notMatch(JSON.stringify(lines), /Secret|not to be seen/);

  // Two domains of one provider are two sessions with one host, which often begin in the same millisecond.
  const both = await node.send({ to: ['a@talk.test', 'no@chat.test'], subject: 'Apart', text: 't' });
  await eventually(async () => (await node.read(both.id)).status === 'failed');
  await node.db.query({ text: 'UPDATE attempts SET at = $2 WHERE email_id = $1', values: [both.id, new Date()] });
  for (const { recipient, conversation } of await attemptsOf(both.id))
    t.same(
      spoken(conversation, 'us').filter((text) => text.startsWith('RCPT')),
      [`RCPT TO:<${recipient}>`],
      'each has its own conversation',
    );

  // A slow machine may leave the connection idle for too long.
  const second = await eventually(async () => {
    const { id } = await node.send({ to: 'b@talk.test' });
    await eventually(async () => (await node.read(id)).status === 'sent');
    return longPauses(sink.messages.slice(-2)) === 0 && { id };
  });
  const [again] = await attemptsOf(second.id);
  t.match(
    again.conversation[3]?.text,
    /^the connection to mx\.talk\.test \(127\.0\.0\.1\) is reused from an earlier message$/,
  );
  t.notOk(spoken(again.conversation, 'us').some((text) => text.startsWith('EHLO')));
});

t.test('a server that talks endlessly fills no log', async (t) => {
  const mx = await startScriptedMx(async (peer) => {
    peer.send(`${Array.from({ length: 900 }, (_, n) => `220-${'\x1b[31m'}line ${n}\r\n`).join('')}220 ready\r\n`);
    await peer.line();
    peer.socket.destroy();
  });
  t.teardown(() => mx.close());
  const node = await startDirectNode(t, { zone: { 'long.test': { A: ['127.0.0.1'] } }, mxPort: mx.port });
  const { id } = await node.send({ to: 'a@long.test' });
  const lines: Line[] = await eventually(async () => {
    const { body } = await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key });
    return body.attempts[0]?.conversation;
  });
  t.ok(lines.length <= 210, `${lines.length} lines`);
  t.match(lines.at(-1)?.text, /^\d+ more lines$/);
  t.notMatch(JSON.stringify(lines), /u001b/);
});

t.test("wherever a server's text is cut, no character is cut in half, and the outcome is recorded", async (t) => {
  // Two UTF-16 halves each, so one of the two replies is cut inside a character, whatever the length.
  const face = '\u{1f600}'.repeat(450);
  const sink = await startSink({ onRecipient: (to) => `550 5.1.1 ${to.startsWith('odd') ? 'x' : ''}${face}` });
  t.teardown(() => sink.close());
  const node = await startDirectNode(t, { zone: { 'faces.test': { A: ['127.0.0.1'] } }, mxPort: sink.port });
  const { id } = await node.send({ to: ['odd@faces.test', 'even@faces.test'] });
  await eventually(async () => (await node.read(id)).status === 'failed');
  const { body } = await node.call('GET', `/api/v1/emails/${id}/attempts`, { key: node.key });
  t.equal(body.attempts.length, 2);
  const said = JSON.stringify([body, await node.read(id)]);
  t.match(said, '\u{1f600}');
  t.notMatch(said, /\\ud[89a-f]|\ufffd/i, 'no half character, as such or replaced');
});
