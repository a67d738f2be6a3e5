import t from 'tap';
import { buildAccount } from '../support/build.ts';
import { startHook } from '../support/hook.ts';
import { eventually } from '../support/node.ts';
import { barriers, go, inBrowser, logIn, lookAgain, pressAtOnce, sharedDashboard, view } from './browser.ts';

t.test('setting up with the dashboard', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const body = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;

  t.test('a webhook is added, called, looked at and replayed', async (t) => {
    const hook = await startHook(t);
    const { page, complaints } = await view(t, node, '/webhooks');
    await page.getByText('No webhook yet').waitFor();
    await page.getByRole('button', { name: 'Add a webhook' }).click();
    await page.getByRole('dialog').getByLabel('Address').fill(hook.url);
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    t.match(await page.locator('pre', { hasText: /^whsec_/ }).textContent(), /^whsec_[\w+/=-]{40,}$/);
    t.strictSame(await barriers(page), []);
    await page.keyboard.press('Escape');
    await page.waitForTimeout(100);
    t.ok(await page.locator('pre', { hasText: /^whsec_/ }).isVisible(), 'what is shown once stays');
    await page.getByRole('button', { name: 'I have saved it' }).click();
    await go(page, '/webhooks?q=HTTP', hook.url);
    await page.getByRole('link', { name: hook.url }).click();
    const email = { from: 'a@example.test', to: 'a@anywhere.test', subject: 's', text: 't' };
    const { id } = (await node.call('POST', '/api/v1/emails', { key: node.key, body: email })).body.email;
    const call = page.getByRole('row', { name: 'email.delivered succeeded a@anywhere.test 200' });
    await call.waitFor();
    t.equal(await call.getByRole('link', { name: 'a@anywhere.test' }).getAttribute('href'), `/emails/${id}`);
    t.notOk(await page.locator('pre', { hasText: 'whsec_' }).count(), 'the secret is not shown again');
    await page.getByRole('link', { name: 'email.delivered' }).click();
    await page.getByText('"type": "email.delivered"').waitFor();
    t.strictSame(await barriers(page), []);
    await page.keyboard.press('Escape');
    await go(page, `${new URL(page.url()).pathname}?status=succeeded`, 'email.delivered');
    await page.getByRole('link', { name: 'email.delivered' }).click();
    await page.getByText('"type": "email.delivered"').waitFor();
    t.match(new URL(page.url()).search, /status=succeeded/, 'what it was found by stays');
    await page.keyboard.press('Escape');
    await go(page, `${new URL(page.url()).pathname}?page=9`, 'This page is empty');
    await page.getByRole('button', { name: 'Go to the first page' }).click();
    await call.waitFor();
    await go(page, `${new URL(page.url()).pathname}?status=failed`, 'No call matches');
    await go(page, new URL(page.url()).pathname, 'email.delivered');
    // Of a browser whose clock is behind: a replay ends with the newest call all the same.
    await page.evaluate(`{
      const Real = Date;
      const now = () => Real.now() - 600_000;
      globalThis.Date = class extends Real {
        static now = now;
        constructor(...given) { super(...(given.length > 0 ? given : [now()])); }
      };
    }`);
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
    await page.getByText('1 call made again.').waitFor();
    await eventually(async () => hook.calls.length === 2);
    t.equal(hook.calls[0]?.body, hook.calls[1]?.body);
    await go(page, `/emails/${id}`, 'email.delivered');
    const called = page.locator('.panel', { hasText: 'Webhooks (1)' });
    await called.getByText(`at ${hook.url}`).waitFor();
    t.strictSame(complaints, []);
  });

  t.test('a template is written, previewed, published and sent', async (t) => {
    const { page, complaints } = await view(t, node, '/templates');
    await page.getByRole('button', { name: 'New template' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Welcome');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'Welcome' }).waitFor();
    await page
      .getByLabel('The body as HTML')
      .fill('<h1>Dear {{NAME}}</h1><p onclick=x>{{PLACE}}</p><p title="on once">once/on line</p>');
    await page.getByRole('button', { name: 'PLACE' }).click();
    await page.getByLabel('Fallback of PLACE').fill('Here');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByLabel('NAME', { exact: true }).fill('Ann');
    await page.frameLocator('iframe').getByText('Dear Ann').waitFor();
    await page
      .frameLocator('iframe')
      .getByTitle('on once', { exact: true })
      .getByText('once/on line', { exact: true })
      .waitFor();
    t.strictSame(await barriers(page), []);
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByRole('button', { name: 'Send the published version' }).click();
    await page.getByRole('heading', { name: 'Hello Ann' }).waitFor();
    await page.frameLocator('iframe').getByText('Here').waitFor();
    await page.getByText('Delivered', { exact: true }).waitFor();
    await node.call('POST', '/api/v1/templates', { token, body: { name: 'Farewell', alias: 'bye', text: 't' } });
    await go(page, '/templates', 'Farewell');
    await page.getByLabel('Name or alias').fill('WELC');
    await page.getByRole('link', { name: 'Farewell' }).waitFor({ state: 'detached' });
    t.equal(await page.getByRole('link', { name: 'Welcome' }).count(), 1);
    await page.getByLabel('Name or alias').fill('nothing like it');
    await page.getByText('No template matches').waitFor();
    t.strictSame(complaints, []);
  });

  t.test('what is typed into a template is not lost to another page, nor is what another tab saves', async (t) => {
    const fields = { name: 'Kept', subject: 'before', html: '<p>before' };
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: fields })).body;
    const { page } = await view(t, node, '/templates');
    await page.getByRole('link', { name: 'Kept' }).click();
    const subject = page.getByLabel('Subject');
    const question = page.getByRole('dialog', { name: 'Leave without saving?' });
    await subject.fill('mine');
    const ways = [
      () => page.keyboard.press('Escape').then(() => pressAtOnce(page, 'g', 'k')),
      () => page.getByRole('link', { name: 'Emails', exact: true }).click(),
      () => page.evaluate('history.back()'),
    ];
    for (const leave of ways) {
      await leave();
      await question.waitFor();
      t.strictSame(await barriers(page), []);
      await question.getByRole('button', { name: 'Stay' }).click();
      await question.waitFor({ state: 'detached' });
      t.equal(new URL(page.url()).pathname, `/templates/${template.id}`);
      t.equal(await subject.inputValue(), 'mine');
    }
    await node.call('PATCH', `/api/v1/templates/${template.id}`, { token, body: { html: '<p>theirs' } });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved as a draft.').waitFor();
    const now = (await node.call('GET', `/api/v1/templates/${template.id}`, { token })).body.template;
    t.match(now, { subject: 'mine', html: '<p>theirs' });
    // And it is shown.
    await eventually(async () => (await page.getByLabel('The body as HTML').inputValue()) === '<p>theirs');
    await subject.fill('given up');
    await page.evaluate('history.back()');
    await question.getByRole('button', { name: 'Leave' }).click();
    await page.getByRole('heading', { name: 'Templates', level: 1 }).waitFor();
  });

  t.test('what another tab has saved since is not published unseen', async (t) => {
    const fields = { name: 'Shared', subject: 'before', html: '<p>before' };
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: fields })).body;
    const { page } = await view(t, node, `/templates/${template.id}`);
    const publish = page.getByRole('button', { name: 'Publish', exact: true });
    await publish.waitFor();
    await node.call('PATCH', `/api/v1/templates/${template.id}`, { token, body: { html: '<p>theirs' } });
    await publish.click();
    await page.getByText('Conflict: the template has changed since then').waitFor();
    await eventually(async () => (await page.getByLabel('The body as HTML').inputValue()) === '<p>theirs');
    const read = async () => (await node.call('GET', `/api/v1/templates/${template.id}`, { token })).body.template;
    t.equal((await read()).status, 'draft');
    await publish.click();
    await page.getByText('Published: emails use it').waitFor();
    t.match(await read(), { status: 'published', html: '<p>theirs' });
  });

  t.test(
    'what is typed into a template outlives a login that ends elsewhere, and is not shown to others',
    async (t) => {
      const fields = { name: 'Interrupted', subject: 'before', html: '<p>before' };
      const { template } = (await node.call('POST', '/api/v1/templates', { token, body: fields })).body;
      const { page, context } = await view(t, node, '/', { loggedIn: false });
      const subject = page.getByLabel('Subject');
      const endElsewhere = async () => {
        await context.clearCookies();
        await lookAgain(page);
        await page.getByText('Your login has ended').waitFor();
      };
      await logIn(page, 'admin@example.test', node.adminPassword);
      await go(page, `/templates/${template.id}`, 'before');
      await subject.fill('half written');
      await endElsewhere();
      await logIn(page, 'admin@example.test', node.adminPassword);
      await page.getByRole('heading', { name: 'Interrupted' }).waitFor();
      t.equal(await subject.inputValue(), 'half written');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved as a draft.').waitFor();
      await subject.fill('of the admin alone');
      await endElsewhere();
      const other = await buildAccount(node.db);
      await logIn(page, other.email, other.password);
      await page.getByTitle(other.email).first().waitFor();
      t.notMatch(await page.content(), /of the admin alone/);
    },
  );

  t.test('a domain is added, and what is wrong in DNS stands beside what should be there', async (t) => {
    const { page, complaints } = await view(t, node, '/domains?new=1');
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('nxdomain.test');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('heading', { name: 'nxdomain.test' }).waitFor();
    await page.getByText('there is no TXT record at _sendwright.nxdomain.test').waitFor();
    t.equal(await page.getByText('not found', { exact: true }).count(), 3);
    await page.getByRole('button', { name: 'Check the records now' }).click();
    await page.getByText('Not yet: each record shows what was found.').waitFor();
    await lookAgain(page, new URL(page.url()).pathname.replace('/', '/api/v1/'));
    t.strictSame(await barriers(page), []);
    await page.getByRole('button', { name: 'As a zone file' }).first().click();
    const zone = await page.locator('pre', { hasText: '3600 IN TXT' }).textContent();
    t.match(zone, /^_sendwright\.nxdomain\.test\. 3600 IN TXT "sendwright-verification=\w+"$/m);
    t.match(zone, /^\w+\._domainkey\.nxdomain\.test\. 3600 IN TXT "[^"]{250}" "[^"]+"$/m);
    t.strictSame(complaints, [], 'that they are missing is no error');
  });

  t.test('the record of another key stands once, where its state is', async (t) => {
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'keys.test' } })).body;
    const rotate = `/api/v1/domains/${domain.id}/rotate-dkim`;
    const { dkim_keys: keys } = (await node.call('POST', rotate, { token, body: { algorithm: 'ed25519' } })).body;
    const { page } = await view(t, node, `/domains/${domain.id}`);
    await page.locator('.panel', { hasText: 'DKIM keys' }).getByText(keys[0].record.name).waitFor();
    t.equal(await page.getByText(keys[0].record.name).count(), 1);
    t.equal(await page.getByText('_dmarc.keys.test').count(), 1);
  });

  t.test('whoever looks at a domain sees that its records are right, and it may send from then on', async (t) => {
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'seen.test' } })).body;
    const { page } = await view(t, node, `/domains/${domain.id}`);
    await page.locator('.page-head .status', { hasText: 'verified' }).waitFor();
    const found = page.getByText('found', { exact: true });
    // Said a moment later.
    await found.nth(2).waitFor();
    t.equal(await found.count(), 3);
  });

  t.test('a domain whose records are missing is asked for once in 30 seconds', async (t) => {
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'asks.nxdomain.test' } }))
      .body;
    await node.db.query({
      text: `UPDATE domains SET created_at = now() - interval '49 hours' WHERE id = $1`,
      values: [domain.id],
    });
    const { page } = await view(t, node, '/domains');
    await page.getByRole('row', { name: /^asks[.]nxdomain[.]test pending not found within two days/ }).waitFor();
    await page.clock.install();
    await go(page, `/domains/${domain.id}`, 'there is no TXT record');
    t.match(await page.locator('.page-head').textContent(), 'checked only while this page is open');
    const asked: string[] = [];
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url());
      if (pathname.includes(domain.id)) asked.push(`${request.method()} ${pathname}${search}`);
    });
    const again = page.waitForRequest((request) => request.url().includes(domain.id));
    await page.clock.runFor(31_000);
    await again;
    t.strictSame(asked, [`GET /api/v1/domains/${domain.id}?checks=true`]);
  });

  t.test('what is refused is said at the field that it is about, until something else is typed', async (t) => {
    const { page } = await view(t, node, '/webhooks?new=1');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Address').fill('nowhere');
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await dialog.getByRole('alert').getByText('must be an absolute http or https address').waitFor();
    await page.waitForTimeout(200);
    t.equal(await page.getByText('must be an absolute http or https address').count(), 1, 'and nowhere else');
    t.equal(await dialog.getByLabel('Address').getAttribute('aria-invalid'), 'true');
    t.strictSame(await barriers(page), []);
    await dialog.getByLabel('Address').fill('https://');
    await dialog.getByText('must be an absolute http or https address').waitFor({ state: 'detached' });
    const variables = [{ key: 'ONE', type: 'string' }];
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: { name: 'Refused', variables } }))
      .body;
    await go(page, `/templates/${template.id}`, 'Refused');
    await page.getByLabel('Name of the variable').fill('no name');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('input[aria-invalid=true]').waitFor();
    t.equal(await page.getByLabel('Name of the variable').getAttribute('aria-invalid'), 'true');
    t.equal(await page.locator('input[aria-invalid=true]').count(), 1, 'and at no other');
    await page.getByLabel('Name of the variable').fill('TWO');
    await page.locator('input[aria-invalid=true]').waitFor({ state: 'detached' });
  });

  t.test('the page of what somebody removes says so, and asks for it no more', async (t) => {
    const endpoint = { url: 'https://hooks.example.com/', events: ['email.failed'] };
    const { webhook } = (await node.call('POST', '/api/v1/webhooks', { token, body: endpoint })).body;
    const { page } = await view(t, node, '/webhooks');
    await page.clock.install();
    await go(page, `/webhooks/${webhook.id}`, 'Calls (0)');
    await node.call('DELETE', `/api/v1/webhooks/${webhook.id}`, { token });
    await page.clock.runFor(16_000);
    await page.getByText('This webhook no longer exists').waitFor();
    t.strictSame(await barriers(page), []);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.clock.runFor(20_000);
    t.strictSame(
      asked.filter((url) => url.includes(webhook.id)),
      [],
    );
    await page.getByRole('link', { name: 'All webhooks' }).click();
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'away.test' } })).body;
    await go(page, `/domains/${domain.id}`, 'away.test');
    await page.locator('.page-head .status', { hasText: 'verified' }).waitFor();
    await node.call('DELETE', `/api/v1/domains/${domain.id}`, { token });
    await page.getByRole('button', { name: 'Check the records now' }).click();
    await page.getByText('This domain no longer exists').waitFor();
  });

  t.test('the preview asks for the values that a template cannot do without, and then shows it', async (t) => {
    const variables = [
      { key: 'WHO', type: 'string' },
      { key: 'HOW', type: 'string', fallback_value: 'well' },
    ];
    const fields = {
      name: 'Asks',
      from: 'a@example.test',
      reply_to: ['{{{TEAM}}}@example.test'],
      subject: 'Dear {{{WHO}}}, {{{HOW}}}',
      html: '<p>{{ UNDECLARED }} <a href="{{UNSUBSCRIBE_URL}}">',
      variables,
    };
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: fields })).body;
    const { page, complaints } = await view(t, node, '/templates');
    await go(page, `/templates/${template.id}`, 'Asks');
    await page.getByText('Enter a value for WHO, UNDECLARED, TEAM to see the preview.').waitFor();
    t.strictSame(complaints, [], 'and the service was not asked in vain');
    await page.getByText('Used but not declared:').getByRole('button', { name: 'TEAM' }).waitFor();
    await page.getByLabel('UNDECLARED', { exact: true }).fill('here');
    await page.getByLabel('TEAM', { exact: true }).fill('help');
    await page.getByLabel('WHO', { exact: true }).fill('Ann');
    await page.getByText('Dear Ann, well').waitFor();
    t.equal(await page.getByText('Enter a value for').count(), 0);
    await page.getByLabel('WHO', { exact: true }).fill('Ann\u2028');
    await page.getByRole('alert').getByText('and is used in subject').waitFor();
    t.equal(await page.getByText('Invalid request').count(), 0, 'it is said at the field, and in no other words');
    await page.getByLabel('WHO', { exact: true }).fill('');
    await node.call('POST', `/api/v1/templates/${template.id}/publish`, { token, body: {} });
    await lookAgain(page, `/api/v1/templates/${template.id}`);
    await page.getByRole('button', { name: 'Send the published version' }).click();
    await page.getByRole('alert').getByText('is required').waitFor();
    t.equal(await page.getByLabel('WHO', { exact: true }).getAttribute('aria-invalid'), 'true');
  });

  t.test('what is typed outlives a server that is away for a moment', async (t) => {
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: { name: 'Long' } })).body;
    const { page } = await view(t, node, '/templates');
    await page.clock.install();
    await go(page, `/templates/${template.id}`, 'Long');
    await page.getByLabel('The body as HTML').fill('<p>an hour of work</p>');
    const asked = page.waitForEvent('requestfailed', (request) => request.url().endsWith(template.id));
    await page.route(`**/api/v1/templates/${template.id}`, (route) => route.abort());
    await page.clock.runFor(60_000);
    await page.evaluate(`dispatchEvent(new Event('visibilitychange'))`);
    await asked;
    // The client asks again a few times before it gives up.
    await page.clock.runFor(60_000);
    t.equal(await page.getByLabel('The body as HTML').inputValue(), '<p>an hour of work</p>');
  });

  t.test('a list of addresses is brought along as CSV', async (t) => {
    const { page } = await view(t, node, '/suppressions');
    const csv = 'email;reason\r\n"One@example.net";complaint\r\nno address\r\ntwo@example.net\r\n';
    await page.setInputFiles('input[type=file]', { name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await page.getByText('2 addresses are on the list. 1 record with no address, or several, skipped.').waitFor();
    const contacts = Buffer.from('email,unsubscribed\nthree@example.org,true\nfour@example.org,false\n');
    await page.setInputFiles('input[type=file]', { name: 'b.csv', mimeType: 'text/csv', buffer: contacts });
    await page.getByText('1 address is on the list. 1 contact who has not unsubscribed was not added.').waitFor();
    for (const line of [2, 3]) {
      const buffer = Buffer.from(`${'\n'.repeat(line - 1)}no-good@-\n`);
      await page.setInputFiles('input[type=file]', { name: `${line}.csv`, mimeType: 'text/csv', buffer });
      await page.getByText(`Line ${line}, “no-good@-”: `).waitFor();
      t.equal(await page.locator('input[type=file]').inputValue(), '', 'so that the same file can be chosen again');
      t.equal(await page.getByText('Nothing in the file was imported.').count(), 1, 'what is over is said no more');
    }
    await page.getByRole('row', { name: /one@example\.net complaint all mail/ }).waitFor();
    await page
      .getByRole('row', { name: /two@example\.net manual/ })
      .getByRole('button', { name: 'Remove' })
      .click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('row', { name: /two@example\.net/ }).waitFor({ state: 'detached' });
    const { body: left } = await node.call('GET', '/api/v1/suppressions?address=@example.net', { token });
    t.strictSame([left.count, left.suppressions[0]?.address], [1, 'one@example.net']);
    await go(page, '/start');
    await page.getByLabel('Send to').fill('one@example.net');
    await page.getByRole('button', { name: 'Send a test email' }).click();
    await page.getByText('Not sent: the recipient is on the suppression list.').waitFor();
  });

  t.test('an account is made, and its user sees nothing of the server', async (t) => {
    const { page } = await view(t, node, '/accounts?new=1', { loggedIn: false });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Shop');
    await page.getByLabel('Email of its first user').fill('owner@shop.test');
    await page.getByRole('button', { name: 'Create' }).click();
    const [email = '', password = ''] =
      (await page.locator('pre', { hasText: 'owner@shop.test' }).textContent())?.split('\n') ?? [];
    await page.getByRole('button', { name: 'I have saved it' }).click();
    await page.getByRole('row', { name: /Shop active free 1 0 0/ }).waitFor();
    await page.getByLabel('Name or user’s email').fill('OWNER@shop');
    await page.getByRole('row', { name: /^Admin/ }).waitFor({ state: 'detached' });
    t.equal(await page.locator('tbody tr').count(), 1);
    await page.getByRole('button', { name: 'Log out' }).click();
    await logIn(page, email, password);
    t.equal(await page.getByRole('link', { name: 'Destinations' }).count(), 0);
    t.equal(await page.getByRole('link', { name: 'Accounts' }).count(), 0);
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByLabel('Current password').fill('some other one');
    await page.getByLabel('New password', { exact: true }).fill('another long one');
    await page.getByLabel('Repeat the new password').fill('another long one');
    await page.getByRole('button', { name: 'Change the password' }).click();
    await page.getByText('This is not your current password.').waitFor();
    t.equal(await page.getByLabel('Current password').getAttribute('aria-invalid'), 'true');
    await page.getByLabel('Current password').fill(password);
    await page.getByRole('button', { name: 'Change the password' }).click();
    await page.getByText('The password was changed').waitFor();
    await page.getByRole('link', { name: 'Emails' }).click();
    await page.getByText('No emails yet').waitFor();
    await page.locator('.empty', { hasText: 'No domain is verified yet.' }).waitFor();
    t.equal(await page.locator('.empty pre').count(), 0, 'example.test is not theirs');
    const own = (await node.call('POST', '/api/v1/auth/login', { body: { email, password: 'another long one' } })).body;
    await node.call('POST', '/api/v1/keys', { token: own.token, body: { name: 'reads', scopes: ['read'] } });
    await go(page, '/start', 'Programs need a key to send.');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    const { accounts } = (await node.call('GET', '/api/v1/admin/accounts', { token })).body;
    const { id } = accounts.find(({ name }: { name: string }) => name === 'Shop');
    await node.call('PATCH', `/api/v1/admin/accounts/${id}`, { token, body: { suspended: true } });
    await page.getByLabel('Email', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill('another long one');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('This account is suspended').waitFor();
    t.equal(await page.getByText('Your login has ended').count(), 0, 'who logged out knows');
  });

  t.test('a destination is paused, and goes on', async (t) => {
    const { page } = await view(t, node, '/destinations');
    await page
      .getByRole('button', { name: /^Pause / })
      .first()
      .click();
    await page.locator('td', { hasText: /^paused$/ }).waitFor();
    await page
      .getByRole('button', { name: /^Resume / })
      .first()
      .click();
    await page
      .getByRole('button', { name: /^Pause / })
      .first()
      .waitFor();
  });
});
