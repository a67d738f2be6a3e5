import t from 'tap';
import { buildAccount } from '../support/build.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { go, inBrowser, logIn, lookAgain, sharedDashboard, view } from './browser.ts';

t.test('what people do without thinking', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const count = async (query: string) =>
    (await node.call('GET', `/api/v1/emails?${query}`, { key: node.key })).body.count as number;

  t.test('a double click sends once', async (t) => {
    const { page } = await view(t, node, '/start');
    const to = 'twice@anywhere.test';
    await page.getByLabel('Send to').fill(to);
    await page.getByRole('button', { name: 'Send a test email' }).dblclick();
    // It is shown for four seconds.
    await page.getByText('Accepted. It is being delivered.').first().waitFor();
    await page.getByRole('link', { name: 'Your first email' }).first().click();
    await page
      .getByText(/^Delivered to /)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Resend' }).dblclick();
    await page.getByRole('dialog').getByText(`recipients: ${to} would have it twice.`).waitFor();
    t.equal(await count(`to=${to}`), 1, 'it asks first');
    await page.getByRole('dialog').getByRole('button', { name: 'Resend' }).dblclick();
    await eventually(async () => (await count(`to=${to}`)) === 2);
    await page.waitForTimeout(300);
    t.equal(await count(`to=${to}`), 2);
    const keys = async () => node.db.prisma.apiKey.count({ where: { name: 'made once' } });
    await page.goto(`${node.baseUrl}/keys?new=1`);
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('made once');
    await page.getByRole('dialog').locator('button[type=submit]').dblclick();
    await eventually(async () => (await keys()) > 0);
    await page.waitForTimeout(300);
    t.equal(await keys(), 1);
  });

  t.test('what failed for one of two is sent again to that one', async (t) => {
    const [reached, missed] = ['reached@anywhere.test', 'full@anywhere.test'];
    const body = { from: 'hello@example.test', to: [reached, missed], subject: 'For two', text: 'Hello' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const read = async () => (await node.call('GET', `/api/v1/emails/${email.id}`, { key: node.key })).body.email;
    await eventually(async () => (await read()).status === 'failed');
    const { page } = await view(t, node, `/emails/${email.id}`);
    await page.getByRole('button', { name: 'Resend to all' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(`${reached} would have it twice.`).waitFor();
    const milder = dialog.getByRole('button', { name: 'Only to the one that failed' });
    await dialog.locator('button:focus', { hasText: 'Only to the one that failed' }).waitFor();
    const away = '**/api/v1/emails/*/resend';
    await page.route(away, (route) => route.abort());
    await page.keyboard.press('Enter');
    const failure = page.getByText('The server does not answer.');
    await failure.waitFor();
    await page.unroute(away);
    await milder.click();
    // What failed before would go by itself after eight seconds.
    await failure.waitFor({ state: 'hidden', timeout: 5_000 });
    await eventually(async () => (await count(`to=${missed}`)) === 2);
    t.equal(await count(`to=${reached}`), 1);
  });

  t.test('what was sent again without an answer is not sent once more by who presses again', async (t) => {
    const to = 'unanswered@anywhere.test';
    const body = { from: 'hello@example.test', to, subject: 'No answer', text: 'Hello' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const { page } = await view(t, node, `/emails/${email.id}`);
    const press = async () => {
      await page.getByRole('button', { name: 'Resend', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Resend', exact: true }).click();
    };
    const lossy = '**/api/v1/emails/*/resend';
    await page.route(lossy, async (route) => {
      await route.fetch();
      await route.abort();
    });
    await press();
    await page.getByText('The server does not answer.').waitFor();
    t.equal(await count(`to=${to}`), 2);
    await page.unroute(lossy);
    // Also by who has looked at something else meanwhile.
    await page.keyboard.press('Escape');
    await go(page, '/emails', to);
    await go(page, `/emails/${email.id}`, 'Resend');
    await press();
    await page.waitForURL((url) => url.pathname.startsWith('/emails/') && !url.pathname.endsWith(email.id));
    t.equal(await count(`to=${to}`), 2);
    const again = page.url();
    await go(page, `/emails/${email.id}`, 'Resend');
    await press();
    await page.waitForURL((url) => ![again, `${node.baseUrl}/emails/${email.id}`].includes(url.href));
    t.equal(await count(`to=${to}`), 3, 'who knows that it was sent, and asks for another one, gets that');
  });

  t.test('what waits for another attempt is given up, once somebody is sure', async (t) => {
    const call = (method: string, path: string, given = {}) => node.call(method, path, { key: node.key, ...given });
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const fields = { from: 'hello@example.test', to: 'me@anywhere.test', subject: 'Not any more', text: 'Hello' };
    const { email } = (await call('POST', '/api/v1/emails', { body: { ...fields, scheduled_at: at } })).body;
    const read = async () => (await call('GET', `/api/v1/emails/${email.id}`)).body.email;
    // As after an attempt that was put off for an hour: servers of the sandbox put nothing off for longer than a moment.
    const values = [email.id];
    await node.db.query({
      text: `UPDATE recipients SET status = 'deferred', attempts = 1 WHERE email_id = $1`,
      values,
    });
    await node.db.query({ text: 'UPDATE emails SET scheduled_at = NULL WHERE id = $1', values });
    const { page } = await view(t, node, `/emails/${email.id}`);
    await page.getByRole('button', { name: 'Give up' }).click();
    t.equal((await read()).status, 'queued');
    await page.getByRole('dialog').getByRole('button', { name: 'Give up' }).click();
    await page.getByText('1 recipient is given up.').waitFor();
    t.equal((await read()).status, 'failed');
    await page.getByRole('button', { name: 'Give up' }).waitFor({ state: 'detached' });
  });

  t.test('a second click is not taken for what the first one brought', async (t) => {
    const { page } = await view(t, node, '/destinations');
    const asked: string[] = [];
    page.on('request', (request) => request.method() === 'POST' && asked.push(request.url().replace(/.*\//, '')));
    const box = await page
      .getByRole('button', { name: /^Pause / })
      .first()
      .boundingBox();
    const [x, y] = [(box?.x ?? 0) + 9, (box?.y ?? 0) + 9];
    await page.mouse.click(x, y);
    const resume = page.getByRole('button', { name: /^Resume / }).first();
    await resume.waitFor();
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await page.waitForTimeout(300);
    t.strictSame(asked, ['pause']);
    await resume.click();
    await page
      .getByRole('button', { name: /^Pause / })
      .first()
      .waitFor();
    await go(page, '/keys', 'Revoke');
    await page.getByRole('button', { name: 'Revoke' }).first().dblclick();
    await page.getByRole('dialog').waitFor();
    await page.waitForTimeout(100);
    t.ok(await page.getByRole('dialog').isVisible(), 'nor is a question taken away by it');
  });

  t.test('who goes back is where they were', async (t) => {
    const { page } = await view(t, node, '/templates');
    await page.getByRole('button', { name: 'New template' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Gone back from');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'Gone back from' }).waitFor();
    await page.goBack();
    await page.getByRole('row', { name: /Gone back from/ }).waitFor();
    t.equal(await page.getByRole('dialog').count(), 0, 'and not asked for another one');
    const body = { from: 'a@example.test', to: 'bounced+back@anywhere.test', subject: 's', text: 't' };
    await node.call('POST', '/api/v1/emails', { key: node.key, body });
    await go(page, '/suppressions?q=bounced%2Bback', 'Show the cause');
    await page.getByRole('link', { name: 'Show the cause' }).click();
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal(new URL(page.url()).search, '?q=bounced%2Bback', 'with what it was found by');
  });

  t.test('who clears what was just typed has nothing typed', async (t) => {
    const { page } = await view(t, node, '/emails?status=failed');
    const recipient = page.getByLabel('Recipient, @domain or id');
    await recipient.focus();
    await page.getByRole('button', { name: 'Clear' }).first().waitFor();
    // At once, which is sooner than the browser is told from here.
    await page.evaluate(`(async () => {
      document.execCommand('insertText', false, 'nobody@x.test');
      const clear = [...document.querySelectorAll('search button')].find(({ textContent }) => textContent === 'Clear');
      clear.focus();
      await new Promise(requestAnimationFrame);
      clear.click();
    })()`);
    await page.waitForURL((url) => url.search === '');
    // And it stays so, for longer than what is typed takes into the address.
    await page.waitForTimeout(400);
    t.strictSame([new URL(page.url()).search, await recipient.inputValue()], ['', '']);
  });

  t.test('an email that came without a subject and a text can be found and read', async (t) => {
    const { body } = await node.call('POST', '/api/v1/emails', {
      key: node.key,
      body: { from: 'a@example.test', to: 'mute@anywhere.test', subject: 's', text: 't' },
    });
    const { id } = body.email;
    // As submission stores one.
    await node.db.query({ text: `UPDATE emails SET subject = '' WHERE id = $1`, values: [id] });
    await node.db.query({ text: 'UPDATE email_contents SET text = NULL WHERE email_id = $1', values: [id] });
    const { page } = await view(t, node, '/emails?to=mute@anywhere.test');
    await page.getByText('(no subject)').first().waitFor();
    await page.goto(`${node.baseUrl}/emails/${id}`);
    await page.getByRole('heading', { name: '(no subject)' }).waitFor();
    await page.getByText('This email has no text.').waitFor();
    t.match(await page.title(), '(no subject)');
  });

  t.test('a subject in Hebrew or Arabic begins at its right, wherever it is shown', async (t) => {
    const subject = 'הזמנה 123 (abc) נשלחה';
    const body = { from: 'a@example.test', to: 'rtl@anywhere.test', subject, text: 't' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const { page } = await view(t, node, '/emails?to=rtl@anywhere.test');
    const isShown = (selector: string) => page.locator(`${selector}:dir(rtl)`, { hasText: subject }).first().waitFor();
    await isShown('td .cut');
    await go(page, `/emails/${email.id}`, subject);
    await isShown('h1');
    await go(page, '/sandbox', subject);
    await isShown('.subject b');
    await isShown('dd');
  });

  t.test('of a name in Hebrew or Arabic the end is left out where it is too long for its column', async (t) => {
    const name = `שלום ${'חברת הדואר האלקטרוני '.repeat(6)}בע״מ`.slice(0, 100);
    const login = { email: 'admin@example.test', password: adminPassword };
    const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
    const post = (path: string, body: object) => node.call('POST', `/api/v1/${path}`, { token, body });
    await post('admin/accounts', { name, email: 'rtl@members.test' });
    await post('templates', { name });
    await post('keys', { name });
    await post('emails', { from: `${name} <a@example.test>`, to: 'rtl-name@anywhere.test', subject: 's', text: 't' });
    const { page } = await view(t, node, '/accounts');
    for (const path of ['/accounts', '/templates', '/keys', '/emails?to=rtl-name@anywhere.test']) {
      await go(page, path, name);
      await page.locator('td .cut:dir(rtl)', { hasText: 'שלום' }).waitFor();
    }
    const member = await buildAccount(node.db);
    await node.db.query({ text: 'UPDATE accounts SET name = $2 WHERE id = $1', values: [member.id, name] });
    const { page: theirs } = await view(t, node, '/emails', { loggedIn: false });
    await logIn(theirs, member.email, member.password);
    await theirs.locator('nav .who :dir(rtl)', { hasText: 'שלום' }).waitFor();
  });

  t.test('a tab of somebody who has logged out behind another one begins anew', async (t) => {
    const other = await buildAccount(node.db);
    const { page, context } = await view(t, node, '/emails', { loggedIn: false });
    await logIn(page, 'admin@example.test', adminPassword);
    await page.getByTitle('admin@example.test').waitFor();
    const second = await context.newPage();
    await second.goto(`${node.baseUrl}/emails`);
    await second.getByRole('button', { name: 'Log out' }).click();
    await second.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    await logIn(second, other.email, other.password);
    await lookAgain(page);
    await page.getByTitle(other.email).first().waitFor();
    t.equal(await page.getByTitle('admin@example.test').count(), 0);
    await page.getByText('No emails yet').waitFor();
  });
});
