import t from 'tap';
import { newId } from '../../src/ids.ts';
import { createUnsubscribeToken } from '../../src/mail/links/token.ts';
import { sealReader } from '../../src/mail/links/unsubscribe-link.ts';
import { unsubscribeKey } from '../support/build.ts';
import { startTestNode } from '../support/node.ts';
import { encryptionKey, startMailer, watchTables } from './scene.ts';

const linkTo = (emailId: string, position = 0, key = unsubscribeKey(encryptionKey)) =>
  `/unsubscribe/${createUnsubscribeToken(key, { emailId, position })}`;

t.test('unsubscribing', async (t) => {
  const own = await startTestNode(t, { ROLES: 'api', ENCRYPTION_KEY: encryptionKey.toString('hex') });
  const { node, send, from, account } = await startMailer('api', own);
  const written = await watchTables(node);
  const post = async (fields: Record<string, unknown> = {}) =>
    (await send({ to: 'jane.roe@example.com', type: 'marketing', ...fields })).body.email.id as string;

  t.test('the page asks, and changes nothing however often it is loaded', async (t) => {
    const id = await post();
    await written();
    for (let n = 0; n < 3; n++) {
      const { status, headers, body } = await node.call('GET', linkTo(id));
      t.equal(status, 200);
      t.match(headers.get('content-type'), /^text\/html; charset=utf-8/);
      t.match(body, '<form method="post"><button');
      t.match(body, `<b>${from}</b>`);
      t.match(body, '<b>ja…@example.com</b>');
      t.notMatch(body, /jane/, 'a forwarded link reveals no address');
      t.notMatch(body, /<script|https?:/);
      const policy = headers.get('content-security-policy') ?? '';
      t.match(policy, /default-src 'none'; style-src 'sha256-\S+'; .*form-action 'self'$/);
      t.equal(headers.get('referrer-policy'), 'no-referrer', 'the token is not passed on');
      t.equal(headers.get('cache-control'), 'no-store');
    }
    t.equal((await node.call('HEAD', linkTo(id))).status, 200);
    t.strictSame(await written(), []);
  });

  t.test('a POST unsubscribes, whatever its body is, and repeating it changes nothing', async (t) => {
    const id = await post();
    await written();
    for (const options of [
      { body: 'List-Unsubscribe=One-Click', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
      { body: '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--' },
      {},
      { body: 'x'.repeat(1_000_000), headers: { 'Content-Type': 'text/plain' } },
    ]) {
      const { status, body } = await node.call(
        'POST',
        linkTo(id).toUpperCase().replace('/UNSUBSCRIBE', '/unsubscribe'),
        options,
      );
      t.equal(status, 200);
      t.match(body, /<h1>Unsubscribed<\/h1>/);
    }
    t.strictSame((await written()).sort(), ['INSERT returns', 'INSERT suppressions']);
    const rows = await node.db.query({
      text: 'SELECT address, reason, email_id FROM suppressions WHERE email_id = $1',
      values: [id],
    });
    t.strictSame(
      rows.map((row) => ({ ...(row as object) })),
      [{ address: 'jane.roe@example.com', reason: 'unsubscribe', email_id: id }],
    );
  });

  t.test(
    'MAIL-06: whoever has unsubscribed gets no newsletter when a bounce or a complaint is taken off the list',
    async (t) => {
      const { token } = (await node.call('POST', '/api/v1/auth/login', { body: account })).body;
      const list = '/api/v1/suppressions';
      for (const [index, reason] of (['bounce', 'complaint', 'manual', 'bounce'] as const).entries()) {
        const address = `gone${index}@example.com`;
        const link = linkTo(await post({ to: address }));
        const steps = [
          () => node.call('POST', link),
          () => node.call('POST', list, { token, body: { address, reason } }),
        ];
        for (const step of index === 0 ? steps : steps.toReversed()) t.equal((await step()).status, 200);
        const entries = async () =>
          (await node.call('GET', `${list}?address=${address}`, { token })).body.suppressions.map(
            (one: { reason: string; unsubscribed: boolean }) => [one.reason, one.unsubscribed],
          );
        const isSent = async (type: string) => (await send({ to: address, type })).body.email.status === 'queued';
        t.strictSame([await entries(), await isSent('transactional')], [[[reason, true]], false], reason);
        const removed = await node.call('DELETE', `${list}/${address}`, { token });
        t.strictSame(
          [removed.status, removed.body.message],
          [200, `${address} gets mail again, but no marketing: its owner has unsubscribed`],
        );
        t.strictSame(
          [await entries(), await isSent('transactional'), await isSent('marketing')],
          [[['unsubscribe', true]], true, false],
          `${reason}, ${index === 0 ? 'after' : 'before'} the unsubscribing`,
        );
        const again = await node.call('DELETE', `${list}/${address}`, { token });
        t.equal(again.body.message, `${address} is no longer suppressed`);
        t.strictSame([await entries(), await isSent('marketing')], [[], true], 'a second removal means that too');
      }
    },
  );

  t.test('AUTH-14: text from a sender is shown as text', async (t) => {
    const evil = `"<img src=x onerror=alert(1)>" <${from}>`;
    const id = await post({ from: evil, to: "<o'b&x@example.com>" });
    for (const method of ['GET', 'POST']) {
      const { body } = await node.call(method, linkTo(id));
      t.notMatch(body, '<img');
      t.match(body, '&#60;img src=x onerror=alert(1)&#62;');
      t.match(body, 'o&#39;…@example.com');
    }
  });

  t.test('a link that we did not make, or to what is gone, is not found', async (t) => {
    const id = await post({ to: 'another@example.com' });
    await written();
    const good = linkTo(id);
    for (const path of [
      linkTo(newId()),
      linkTo(id, 1),
      linkTo(id, 0, Buffer.alloc(32, 8)),
      good.slice(0, -1),
      `${good}a`,
      `${good}/`,
      '/unsubscribe/x',
      '/unsubscribe/%00',
      '/unsubscribe/',
      '/unsubscribe',
    ]) {
      for (const method of ['GET', 'POST']) {
        const { status, body } = await node.call(method, path);
        t.strictSame([status, body], [404, { error: 'not found' }], `${method} ${path}`);
      }
    }
    t.equal((await node.call('DELETE', good)).status, 405);
    t.strictSame(await written(), []);
  });

  t.test('a reader with a browser sees a page that says so, and programs their usual error', async (t) => {
    const good = linkTo(await post({ to: 'reader@example.com' }));
    await written();
    const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8';
    for (const path of [good.slice(0, -1), linkTo(newId()), '/unsubscribe/x', '/unsubscribe/%00'])
      for (const method of ['GET', 'POST']) {
        const { status, headers, body } = await node.call(method, path, { headers: { Accept: browser } });
        t.equal(status, 404, `${method} ${path}`);
        t.match(headers.get('content-type'), /^text\/html; charset=utf-8/);
        t.match(headers.get('content-security-policy'), /default-src 'none'; style-src 'sha256-\S+'; /);
        t.match(body, /<h1>This link does not work<\/h1>/);
        t.notMatch(body, '<form');
        for (const accept of ['*/*', 'application/json', 'application/json, text/html'])
          t.strictSame((await node.call(method, path, { headers: { Accept: accept } })).body, { error: 'not found' });
      }
    t.equal((await node.call('GET', good, { headers: { Accept: browser } })).status, 200);
    t.strictSame(await written(), []);
  });

  t.test('a link works however old the email is', async (t) => {
    const id = await post({ to: 'old@example.com' });
    await node.db.query({
      text: `UPDATE emails SET created_at = now() - interval '5 years' WHERE id = $1`,
      values: [id],
    });
    t.equal((await node.call('POST', linkTo(id))).status, 200);
  });

  t.test('a link that names its reader is valid for longer than the email is kept', async (t) => {
    const reader = { accountId: account.id, emailId: await post(), position: 0, address: 'Last.Year@example.com' };
    const link = (changed: object = {}) =>
      `/unsubscribe/${sealReader(unsubscribeKey(encryptionKey), { ...reader, ...changed })}`;
    await written();
    t.match(
      (await node.call('GET', link())).body,
      `<b>${from}</b> to <b>ja…@example.com</b>?`,
      'the email counts first',
    );
    const gone = { emailId: newId() };
    for (let n = 0; n < 2; n++) {
      const { status, body } = await node.call('GET', link(gone));
      t.equal(status, 200);
      t.match(body, 'from the sender of that message to <b>La…@example.com</b>?');
    }
    t.strictSame(await written(), []);
    for (let n = 0; n < 2; n++) {
      const { status, body } = await node.call('POST', link(gone));
      t.equal(status, 200);
      t.match(body, '<b>La…@example.com</b> will get no more newsletters from the sender of that message.');
    }
    t.strictSame(await written(), ['INSERT suppressions']);
    const rows = await node.db.query({
      text: 'SELECT address, reason, email_id FROM suppressions WHERE account_id = $1 AND address LIKE $2',
      values: [account.id, 'last%'],
    });
    t.strictSame(
      rows.map((row) => ({ ...(row as object) })),
      [{ address: 'last.year@example.com', reason: 'unsubscribe', email_id: null }],
    );
    const { status, body } = await send({ to: 'Last.Year@Example.com', type: 'marketing' });
    t.strictSame([status, body.email?.status], [200, 'suppressed']);
  });

  t.test('but not for an account that is gone, nor with another key or a character missing', async (t) => {
    const reader = { accountId: newId(), emailId: newId(), position: 0, address: 'a@example.com' };
    const unknown = sealReader(unsubscribeKey(encryptionKey), reader);
    const theirs = sealReader(Buffer.alloc(32, 8), { ...reader, accountId: account.id });
    const cut = sealReader(unsubscribeKey(encryptionKey), { ...reader, accountId: account.id }).slice(0, -1);
    await written();
    for (const token of [unknown, theirs, cut])
      for (const method of ['GET', 'POST'])
        t.equal((await node.call(method, `/unsubscribe/${token}`)).status, 404, `${method} ${token}`);
    t.strictSame(await written(), []);
  });
});
