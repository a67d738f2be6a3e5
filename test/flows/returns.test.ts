import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import t, { type Test } from 'tap';
import { clientOf } from '../client/scene.ts';
import { buildSender } from '../support/build.ts';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { eventually, startTestNode, testEnv } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { refusalOf, takePort } from '../support/start.ts';

const encryptionKey = testKey(7);

/** A sandbox that also receives returned mail. */
async function startSandboxed(test: Test) {
  const node = await startTestNode(test, {
    ENCRYPTION_KEY: encryptionKey.toString('hex'),
    INBOUND_SMTP_PORT: String(await freePort()),
    BASE_URL: 'https://send.test',
  });
  const sender = await buildSender(node.db, encryptionKey);
  const account = await clientOf(node).login(sender.account.email, sender.account.password);
  const { emails } = clientOf(node, { apiKey: sender.key });
  const send = async (to: string | string[], fields: Record<string, unknown> = {}) =>
    (await emails.send({ from: sender.from, to, subject: 's', text: 't', ...fields })).email.id;
  const arrived = (count: number) =>
    eventually(async () => {
      const { messages } = await account.sandbox.list();
      return messages.length >= count && messages;
    });
  return { node, ...sender, accountClient: account, emails, send, arrived };
}

t.test('late-bounce@ and complained@ answer by mail, and the email says so', async (t) => {
  const { accountClient: account, emails, send } = await startSandboxed(t);
  const events = ['email.delivered', 'email.bounced', 'email.complained'] as const;
  await account.webhooks.create({ url: 'https://hooks.example.com/', events: [...events] });
  const back = (id: string) =>
    eventually(async () => {
      const { email } = await emails.get(id);
      return email.returns.length > 0 && email.status !== 'queued' && email;
    });
  const bounced = await back(await send('late-bounce+1@anywhere.test'));
  t.match(bounced, {
    status: 'sent',
    recipients: [{ status: 'delivered', last_response: /^250 / }],
    returns: [
      {
        recipient: 'late-bounce+1@anywhere.test',
        kind: 'bounce',
        classification: 'bad_mailbox',
        diagnostic: '550 5.1.1 the mailbox does not exist',
      },
    ],
  });
  // Sent together with another recipient of the same domain: only the one that the report names.
  const [complained] = await Promise.all([
    back(await send('complained@anywhere.test')),
    back(await send(['fine@anywhere.test', 'late-bounce@anywhere.test'])).then(({ returns }) =>
      t.strictSame(
        returns.map(({ recipient }) => recipient),
        ['late-bounce@anywhere.test'],
      ),
    ),
  ]);
  t.match(complained, { status: 'sent', returns: [{ kind: 'complaint', diagnostic: 'reported as abuse' }] });
  const { emails: listed } = await emails.list();
  t.strictSame(
    new Map(listed.map(({ to, returned }) => [to, returned])),
    new Map([
      ['late-bounce+1@anywhere.test', ['bounce']],
      ['complained@anywhere.test', ['complaint']],
      ['fine@anywhere.test', ['bounce']],
    ]),
  );
  const { suppressions } = await account.suppressions.list();
  t.strictSame(suppressions.map(({ address, reason }) => `${address} ${reason}`).sort(), [
    'complained@anywhere.test complaint',
    'late-bounce+1@anywhere.test bounce',
    'late-bounce@anywhere.test bounce',
  ]);
  t.equal(
    suppressions.find(({ reason }) => reason === 'complaint')?.email_id,
    complained.id,
    'with the email as evidence',
  );
  const { deliveries } = await account.webhookDeliveries.list({ email_id: bounced.id });
  t.strictSame(deliveries.map(({ event }) => event).sort(), ['email.bounced', 'email.delivered']);
});

t.test('each reader of marketing mail has their own link, signed, that works once and for all', async (t) => {
  const { node, accountClient: account, emails, send, arrived } = await startSandboxed(t);
  const to = ['ann@one.test', 'bob@one.test'];
  const id = await send(to, { type: 'marketing', cc: 'cid@two.test', bcc: 'audit@one.test' });
  const messages = await arrived(4);
  t.equal(messages.length, 4, 'one copy each');
  const links = new Map<string, string>();
  const addresses = new Set<string>();
  for (const { raw, rcpt_to: readers, dkim } of messages) {
    const [, url = '', address = ''] =
      /^List-Unsubscribe: <https:\/\/send\.test(\/unsubscribe\/[\w-]+)>,\s+<mailto:(unsubscribe\+\w+@\S+)\?subject=unsubscribe>\r\n/m.exec(
        raw,
      ) ?? [];
    t.match(raw, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n/m);
    t.notMatch(raw, /audit@/, 'MAIL-08: the blind copy is in no header');
    t.equal(readers.length, 1);
    t.match(dkim, [{ result: 'pass' }]);
    links.set(readers[0] ?? '', url);
    addresses.add(address);
  }
  t.equal(new Set(links.values()).size, 4, 'MAIL-08: nobody can unsubscribe another');
  t.equal(addresses.size, 4, 'nor by mail');

  // RFC 8058 section 4: the signature covers both fields.
  const [{ raw = '' } = {}] = messages;
  const resolver = async (name: string, type: string) => (await node.surroundings.resolve(name, type)) as string[][];
  for (const name of ['List-Unsubscribe', 'List-Unsubscribe-Post']) {
    const changed = raw.replace(new RegExp(`^${name}: `, 'm'), `${name}: x`);
    t.match((await dkimVerify(Buffer.from(changed), { resolver })).results, [{ status: { result: 'fail' } }], name);
  }

  const link = links.get('bob@one.test') ?? '';
  const page = await node.call('GET', link);
  t.equal(page.status, 200);
  t.equal((await account.suppressions.list()).count, 0, 'viewing it changes nothing');
  const click = {
    body: 'List-Unsubscribe=One-Click',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  };
  t.equal((await node.call('POST', link, click)).status, 200);
  t.equal((await node.call('POST', link, click)).status, 200);
  t.match(await account.suppressions.list(), { suppressions: [{ address: 'bob@one.test', reason: 'unsubscribe' }] });
  t.match((await emails.get(id)).email.returns, [{ recipient: 'bob@one.test', kind: 'unsubscribe' }]);
  t.match((await emails.get(await send('bob@one.test', { type: 'marketing' }))).email, { status: 'suppressed' });
  await send('bob@one.test');
  t.equal((await arrived(5)).length, 5, 'mail of other types still arrives');
});

/** ASCII in quoted-printable as a reader sees it (RFC 2045 section 6.7). */
const unquoted = (raw: string) => raw.replaceAll('=\r\n', '').replaceAll('=3D', '=');

t.test('if the body has a placeholder for the link, each reader gets their own there', async (t) => {
  const { node, key, emails, send, arrived } = await startSandboxed(t);
  const html = '<a href="{{{UNSUBSCRIBE_URL}}}">No more</a> or <a href="{{{ RESEND_UNSUBSCRIBE_URL }}}">this</a>';
  const text = 'No more: {{ UNSUBSCRIBE_URL }} {{{pm:unsubscribe}}}, and {{{NAME}}}';
  const file = { filename: 'a.txt', content: 'aGk=' };
  const templates = { key, body: { name: 'News', alias: 'news', subject: 's', html: `${html} {{NAME}}`, text: null } };
  const { template } = (await node.call('POST', '/api/v1/templates', templates)).body;
  await node.call('POST', `/api/v1/templates/${template.id}/publish`, { key });
  const readers = ['ann@one.test', 'bob@one.test'];
  const ids = [
    await send(readers, { type: 'marketing', html, text }),
    await send(readers, { type: 'marketing', html, text, attachments: [file] }),
  ];
  const use = { template: { alias: 'news', variables: { NAME: 'you' } }, type: 'marketing' as const };
  const { from } = (await emails.get(ids[0] ?? '')).email;
  ids.push((await emails.send({ from, to: readers, ...use })).email.id);
  const found: string[] = [];
  for (const { raw, rcpt_to: readersOf, dkim } of await arrived(6)) {
    const read = unquoted(raw);
    const [, url = ''] = /^List-Unsubscribe: <([^>]*)>/m.exec(raw) ?? [];
    t.match(url, /^https:\/\/send\.test\/unsubscribe\/[\w-]+$/);
    t.match(read, `<a href="${url}">No more</a> or <a href="${url}">this</a>`);
    if (read.includes('{{{')) t.match(read, `No more: ${url} ${url}, and {{{NAME}}}`, 'what is no placeholder stays');
    t.notMatch(read, /UNSUBSCRIBE_URL|pm:/);
    t.match(dkim, [{ result: 'pass' }]);
    found.push(`${readersOf[0]} ${url}`);
  }
  t.equal(new Set(found).size, 6, 'different for each reader and email');
  t.match((await emails.content(ids[0] ?? '')).html, html, 'the log has it as it was accepted');
  const dry = await emails.dryRun({ from, to: readers, subject: 's', html, type: 'marketing' });
  t.match(unquoted(dry.message.raw), /<a href="https:\/\/send\.test\/unsubscribe\//);

  await t.rejects(
    send(readers, { type: 'marketing', html, headers: { 'List-Unsubscribe': '<https://shop.test/bye>' } }),
    { message: /html: has a place for the unsubscribe link, but the email has its own List-Unsubscribe$/ },
  );
  await t.rejects(emails.send({ from, to: readers, ...use, type: 'transactional' }), {
    message: /template\.variables\.UNSUBSCRIBE_URL: is required \(in marketing mail it is the unsubscribe link/,
  });
  const own = { ...use.template.variables, UNSUBSCRIBE_URL: 'https://shop.test/bye', RESEND_UNSUBSCRIBE_URL: 'x' };
  await emails.send({ from, to: readers[0] ?? '', ...use, template: { alias: 'news', variables: own } });
  const [latest] = await arrived(7);
  t.match(unquoted(latest?.raw ?? ''), '<a href="https://shop.test/bye">No more</a>', 'a value of its own comes first');
  const variables = [{ key: 'UNSUBSCRIBE_URL', type: 'string', fallback_value: null }];
  const declaring = {
    key,
    body: { name: 'Own', alias: 'own', subject: 's', html: '{{{UNSUBSCRIBE_URL}}}', variables },
  };
  const declared = (await node.call('POST', '/api/v1/templates', declaring)).body.template;
  await node.call('POST', `/api/v1/templates/${declared.id}/publish`, { key });
  await t.rejects(emails.send({ from, to: readers, template: { alias: 'own' }, type: 'marketing' }), {
    message: /UNSUBSCRIBE_URL: is required \(it is the unsubscribe link if the template declares no variable of that/,
  });
  await send('cid@one.test', { text });
  const [other] = await arrived(8);
  t.match(unquoted(other?.raw ?? ''), 'No more: {{ UNSUBSCRIBE_URL }}', 'other mail is left as it is');
});

t.test('mail that says itself how to unsubscribe, and mail of other types, is left alone', async (t) => {
  const { send, arrived } = await startSandboxed(t);
  const own = { 'List-Unsubscribe': '<https://shop.test/bye>' };
  await send(['ann@one.test', 'bob@one.test'], { type: 'marketing', headers: own });
  await send(['ann@one.test', 'bob@one.test']);
  for (const { raw, rcpt_to: readers } of await arrived(2)) {
    t.equal(readers.length, 2, 'one transaction for both');
    t.notMatch(raw, /send\.test|One-Click/);
  }
});

t.test('a port that is in use stops the start, unless this node has no SMTP role', async (t) => {
  const taken = await takePort(t);
  const env = { INBOUND_SMTP_PORT: taken };
  t.equal(
    await refusalOf(testEnv(await createDatabase(), env)),
    `INBOUND_SMTP_PORT ${taken} is in use by another program: stop it, or set INBOUND_SMTP_PORT to a free one`,
  );
  t.equal((await startTestNode(t, { ...env, ROLES: 'api' })).inbound, null);
  t.equal((await startTestNode(t)).inbound, null, 'and 0 switches it off');
});
