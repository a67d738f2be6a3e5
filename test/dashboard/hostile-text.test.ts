import t from 'tap';
import { newId } from '../../src/ids.ts';
import { go, inBrowser, startDashboard, view } from './browser.ts';
import { scripts } from './payloads.ts';

type Node = Awaited<ReturnType<typeof startDashboard>>;

/** What the browser keeps from the previews, which shows that it was asked to do. */
const isRefusal = (text: string) =>
  /^(Loading|Applying inline style|Setting the document's base URI|Blocked (autofocusing|script execution in 'about:srcdoc'))/.test(
    text,
  );

async function logIn(node: Node): Promise<string> {
  const body = { email: 'admin@example.test', password: node.adminPassword };
  return (await node.call('POST', '/api/v1/auth/login', { body })).body.token;
}

/** One of everything, with the text wherever the service takes or is told one; the paths of what shows it. */
async function fill(node: Node, token: string, text: string, index: number): Promise<string[]> {
  const { key, db } = node;
  const short = text.slice(0, 200);
  const post = async (path: string, body: object) => {
    const answer = await node.call('POST', `/api/v1${path}`, {
      key: path === '/emails' ? key : undefined,
      token,
      body,
    });
    if (answer.status > 201) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const { email } = await post('/emails', {
    from: 'a@example.test',
    to: `bounced+${index}@anywhere.test`,
    subject: text,
    html: `<p title="${text}">${text}</p>${text}`,
    text,
    tags: [short],
    headers: { 'X-Text': text },
    attachments: [{ filename: short.replaceAll(/[/\\\u202e]/g, '_'), content: 'aGk=', content_type: 'text/html' }],
  });
  const { template } = await post('/templates', {
    name: short,
    subject: 's',
    html: text.replaceAll(/[{}]/g, ''),
    text: 't',
  });
  const url = `http://127.0.0.1:64999/${encodeURIComponent(text)}?q=${encodeURIComponent(text)}`;
  const { webhook } = await post('/webhooks', { url, events: ['email.sent'] });
  await post('/keys', { name: short });
  await post('/suppressions', { address: `u${index}@anywhere.test` });
  await post('/admin/accounts', { name: short, email: `u${index}@accounts.test` });
  const { domain } = await post('/domains', { domain: `d${index}.example.com` });
  // What others say to us, as it would be stored.
  const said = { email: email.id, id: newId(), text };
  await db.query({
    text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, tls_cipher, phase, outcome, reply_code, enhanced_code,
                                 reply, reason, classification, conversation)
           VALUES ($1, $2, $3, 9, now(), 1, $3, $3, $3, 'bounced', 550, $3, $3, $3, $3, $4)`,
    values: [said.email, said.id, text, JSON.stringify([[1, 'server', text]])],
  });
  await db.query({
    text: `UPDATE recipients SET last_response = $2, waiting_for = $2 WHERE email_id = $1`,
    values: [said.email, text],
  });
  await db.query({ text: 'UPDATE emails SET error = $2 WHERE id = $1', values: [said.email, text] });
  await db.query({
    text: `INSERT INTO returns (account_id, email_id, recipient, kind, classification, enhanced_code, diagnostic)
           SELECT account_id, id, $2, 'bounce', $2, $2, $2 FROM emails WHERE id = $1`,
    values: [said.email, text],
  });
  await db.query({
    text: 'UPDATE suppressions SET email_id = $1 WHERE address = $2',
    values: [said.email, `u${index}@anywhere.test`],
  });
  await db.query({ text: `UPDATE domains SET dns_warning = $2 WHERE id = $1`, values: [domain.id, text] });
  const delivery = newId();
  await db.query({
    text: `UPDATE webhooks SET disabled_reason = $2, status = 'disabled' WHERE id = $1`,
    values: [webhook.id, text],
  });
  await db.query({
    text: `INSERT INTO webhook_deliveries (id, account_id, webhook_id, email_id, event, payload, status, error, attempts, attempt_count)
             SELECT $1, account_id, $2, id, 'email.sent', $4, 'failed', $5, $6, 1 FROM emails WHERE id = $3`,
    values: [
      delivery,
      webhook.id,
      said.email,
      JSON.stringify({ text }),
      text,
      JSON.stringify([
        { at: new Date().toISOString(), response_status: 500, response_body: text, error: null, duration_ms: 1 },
      ]),
    ],
  });
  await db.query({
    text: `INSERT INTO destination_reports (node_id, site, destinations, running, waiting, connections, most_connections, reason, last_reply)
           SELECT id, $1, ARRAY[$2], 0, 1, 1, 2, $1, $1 FROM nodes LIMIT 1`,
    values: [text, `site${index}.test`],
  });
  await db.prisma.sandboxMessage.create({
    data: {
      id: newId(),
      accountId: (await db.prisma.user.findFirstOrThrow({ where: { role: 'admin' } })).accountId,
      mailFrom: text,
      rcptTo: [text],
      subject: text,
      headerFrom: text,
      dkim: [{ domain: text, selector: text, result: text, info: text }],
      size: 1,
      raw: Buffer.from(`Subject: ${text}\r\nContent-Type: text/html\r\n\r\n${text}`),
    },
  });
  return [
    `/emails/${email.id}`,
    `/templates/${template.id}`,
    `/webhooks/${webhook.id}?delivery=${delivery}`,
    `/domains/${domain.id}`,
    `/suppressions?evidence=${said.email}&about=${encodeURIComponent(text)}`,
    `/emails?q=${encodeURIComponent(text)}&to=${encodeURIComponent(short)}`,
  ];
}

t.test('AUTH-14, INJ-07: whatever others write is text, and none of it runs', inBrowser, async (t) => {
  const node = await startDashboard(t, { ROLES: 'api,webhooks', ALLOW_PRIVATE_NETWORKS: 'true' });
  const token = await logIn(node);
  // What is looked at in many places is all of them together; emails, whose HTML is shown, also some one by one.
  const groups = Array.from({ length: 4 }, (_, group) => scripts.filter((__, index) => index % 4 === group).join(' '));
  const paths = (await Promise.all(groups.map((text, index) => fill(node, token, text, index)))).flat();
  const alone = scripts.filter((_, index) => index % 2 === 0);
  const emails = alone.map((text) => ({
    from: 'a@example.test',
    to: 'a@b.test',
    subject: text,
    html: text,
    tags: [text],
  }));
  const { body } = await node.call('POST', '/api/v1/emails/batch', { token, body: { emails } });
  paths.push(...body.emails.map(({ id }: { id: string }) => `/emails/${id}`));
  const { page, complaints } = await view(t, node, '/settings');
  const ran: string[] = [];
  page.on('dialog', (dialog) => ran.push(dialog.message()));
  const lists = ['overview', 'sandbox', 'emails', 'templates', 'suppressions', 'domains', 'keys', 'webhooks'];
  const all = [...lists, 'destinations', 'accounts', 'start'].map((name) => `/${name}`).concat(paths);
  const messages = (await node.call('GET', '/api/v1/sandbox/messages?limit=100', { token })).body.messages;
  for (const { id } of messages) all.push(`/sandbox/${id}`);
  t.ok(all.length > 50, `${all.length} pages`);
  const look = async (path: string) => {
    for (const frame of page.frames()) {
      const canary = await frame.evaluate(() => (globalThis as { __xss?: unknown }).__xss).catch(() => undefined);
      if (canary !== undefined) ran.push(path);
    }
  };
  for (const path of all) {
    // The list of suppressions says nothing that others have written; what led to each is a page of its own.
    await go(page, path, path === '/suppressions' ? '' : '__xss');
    await look(path);
    if (paths.indexOf(path) < 4 * 6)
      for (const tab of await page.getByRole('tab', { selected: false }).all()) {
        await tab.click();
        await look(path);
      }
    if (new URL(page.url()).pathname !== path.split('?')[0]) ran.push(`${path} led to ${page.url()}`);
  }
  t.strictSame(ran, []);
  t.strictSame([...new Set(complaints.filter((text) => !isRefusal(text)))], [], 'and no page broke');
});
