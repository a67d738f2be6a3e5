import PostalMime from 'postal-mime';
import t from 'tap';
import { eventually } from '../support/node.ts';
import { startSubmitter } from './scene.ts';

const file = 'Content-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64';
const mixed = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n';

t.test('mail without a subject or text is accepted as it is, and everything handles it', async (t) => {
  const { node, sender } = await startSubmitter(t, { roles: 'api,mta' });
  const { from, key, account, logIn, read } = await sender();
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
  const events = ['email.queued', 'email.delivered'];
  const hook = { token, body: { url: 'https://hooks.example.com/', events } };
  t.equal((await node.call('POST', '/api/v1/webhooks', hook)).status, 201);
  const dialog = await logIn();
  const get = async (path: string, by: object = { key }) => (await node.call('GET', `/api/v1${path}`, by)).body;

  for (const [what, content, text, files] of [
    ['nothing but a sender', '', null, 0],
    ['an empty text', 'Subject:\r\n\r\n', null, 0],
    ['a subject of blanks', 'Subject:   \r\n\r\nHello', 'Hello', 0],
    ['a file alone', `Subject:\r\nMIME-Version: 1.0\r\n${file}\r\n\r\naGk=`, null, 1],
    ['two files alone', `${mixed}${file}\r\n\r\naGk=\r\n--b\r\n${file}\r\n\r\naG8=\r\n--b--`, null, 2],
    ['marketing', 'X-Sendwright-Type: marketing\r\n', null, 0],
  ] as const) {
    const { id, subject } = await read(await dialog.message(from, `From: ${from}\r\nTo: a@b.test\r\n${content}`));
    t.equal(subject, '', what);
    const said = await get(`/emails/${id}/content`);
    t.strictSame([said.html, said.text, said.attachments.length], [null, text, files], what);
    t.match((await get(`/emails/${id}/explain`)).email, { id, subject: '' }, what);
    const again = await node.call('POST', `/api/v1/emails/${id}/resend`, { key });
    t.match([again.status, again.body.email?.subject], [200, ''], what);

    const ids = [id, again.body.email.id].sort();
    await eventually(async () => {
      const { emails } = await get('/emails?limit=2&status=sent');
      return String(emails.map((one: { id: string }) => one.id).sort()) === String(ids);
    });
    const { messages } = await get('/sandbox/messages?limit=2', { token });
    t.strictSame(messages.map(({ email_id: of }: { email_id: string }) => of).sort(), ids, what);
    for (const { raw, dkim, subject } of messages) {
      t.match([subject, dkim], ['', [{ result: 'pass' }]], what);
      t.match(raw, /^Subject:\r\n/m, what);
      const arrived = await PostalMime.parse(raw);
      t.strictSame([arrived.text?.trim() || null, arrived.attachments.length], [text, files], what);
    }
    const told = await get(`/webhook-deliveries?email_id=${id}`, { token });
    t.equal(told.count, events.length, what);
    for (const one of told.deliveries) {
      const { delivery } = await get(`/webhook-deliveries/${one.id}`, { token });
      t.match(delivery.payload.data, { email_id: id, subject: '' }, what);
    }
  }
  t.equal((await get('/emails?q=hello')).count, 0);
  const body = { from, to: 'a@b.test', subject: '', text: 't' };
  t.match((await node.call('POST', '/api/v1/emails', { key, body })).body.detail, 'subject: must not be empty');
});
