import type { Page } from 'playwright-core';
import t from 'tap';
import { buildAccount } from '../support/build.ts';
import { adminPassword } from '../support/node.ts';
import { go, inBrowser, logIn, lookAgain, sharedDashboard, view } from './browser.ts';

const admin = 'admin@example.test';

t.test('two tabs', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const body = { email: admin, password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;
  const made = async (path: string, fields: object) =>
    (await node.call('POST', `/api/v1${path}`, { token, body: fields })).body;

  t.test('of an account each changes what was changed there alone, and what is typed stays', async (t) => {
    const { account } = await made('/admin/accounts', { name: 'In two tabs', email: 'two-tabs@accounts.test' });
    const { page } = await view(t, node, '/accounts');
    await page.getByRole('button', { name: 'Change In two tabs' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Renamed');
    await node.call('PATCH', `/api/v1/admin/accounts/${account.id}`, { token, body: { plan: 'pro' } });
    // What is younger than five seconds is not asked for again.
    await lookAgain(page, '/api/v1/admin/accounts');
    await page.locator('tbody tr', { hasText: 'In two tabs' }).getByText('pro', { exact: true }).waitFor();
    t.equal(await page.getByRole('dialog').getByLabel('Name', { exact: true }).inputValue(), 'Renamed');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Changed.').waitFor();
    const { accounts } = (await node.call('GET', '/api/v1/admin/accounts?limit=100', { token })).body;
    t.match(
      accounts.find(({ id }: { id: string }) => id === account.id),
      { name: 'Renamed', plan: 'pro' },
    );
  });

  t.test('what was done before something failed, or without an answer, is shown', async (t) => {
    await made('/admin/accounts', { name: 'Half changed', email: 'half-changed@accounts.test' });
    const { page } = await view(t, node, '/accounts');
    await page.getByRole('button', { name: 'Change Half changed' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('Half renamed');
    await dialog.getByLabel('Add credit').fill('much');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('must be a number').waitFor();
    await page.keyboard.press('Escape');
    const row = page.getByRole('row', { name: /Half renamed/ });
    await row.waitFor();
    await page.route('**/api/v1/admin/accounts/*', async (route) => {
      await route.fetch();
      await route.abort();
    });
    await row.getByRole('button', { name: 'Suspend' }).click();
    await dialog.getByRole('button', { name: 'Suspend' }).click();
    await page.getByText('The server does not answer.').waitFor();
    await page.keyboard.press('Escape');
    await row.getByText('suspended', { exact: true }).waitFor();
  });

  t.test('of the events of a webhook as well', async (t) => {
    const { webhook } = await made('/webhooks', { url: 'https://two.tabs.test/', events: ['email.failed'] });
    const { page } = await view(t, node, '/settings');
    await page.clock.install();
    await go(page, `/webhooks/${webhook.id}`, 'Calls (0)');
    const event = (name: string) => page.getByLabel(name, { exact: true });
    await event('bounced').check();
    const events = ['email.failed', 'email.queued'];
    await node.call('PATCH', `/api/v1/webhooks/${webhook.id}`, { token, body: { events } });
    await page.clock.runFor(16_000);
    await page.getByText('called for 2 events').waitFor();
    t.ok((await event('bounced').isChecked()) && (await event('queued').isChecked()));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('called for 3 events').waitFor();
    t.ok(await page.getByRole('button', { name: 'Save' }).isDisabled());
    const saved = (await node.call('GET', `/api/v1/webhooks/${webhook.id}`, { token })).body.webhook.events;
    t.strictSame(saved.toSorted(), ['email.bounced', 'email.failed', 'email.queued']);
    await node.call('DELETE', `/api/v1/webhooks/${webhook.id}`, { token });
  });

  t.test('whoever comes after somebody sees and keeps nothing of what was there', async (t) => {
    const other = await buildAccount(node.db);
    const { template } = await made('/templates', { name: 'Of the first' });
    const { page, context } = await view(t, node, '/templates', { loggedIn: false });
    await logIn(page, admin, adminPassword);
    await page.getByRole('row', { name: /Of the first/ }).waitFor();
    const second = await context.newPage();
    await second.goto(`${node.baseUrl}/emails`);
    await second.getByRole('button', { name: 'Log out' }).click();
    await second.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    await logIn(second, other.email, other.password);
    await page.route('**/api/v1/templates?*', () => undefined);
    await lookAgain(page);
    await page.getByTitle(other.email).first().waitFor();
    t.equal(await page.getByText('Of the first').count(), 0, 'not while the server has not answered either');

    // And without a login in between: what was typed is not asked about, as the one who may answer is away.
    const third = await context.newPage();
    await third.goto(`${node.baseUrl}/templates`);
    await third.getByRole('button', { name: 'Log out' }).click();
    await logIn(third, admin, adminPassword);
    await go(third, `/templates/${template.id}`, 'Of the first');
    await third.getByLabel('The body as HTML').pressSequentially('mine');
    const asked: string[] = [];
    third.on('dialog', (dialog) => {
      asked.push(dialog.type());
      return dialog.dismiss();
    });
    const login = { email: other.email, password: other.password };
    const { headers } = await node.call('POST', '/api/v1/session', { body: login });
    const value = /^sendwright_session=([^;]+)/.exec(headers.get('set-cookie') ?? '')?.[1] ?? '';
    await context.addCookies([{ name: 'sendwright_session', value, url: node.baseUrl }]);
    await lookAgain(third);
    await third.getByText('It does not exist, or it belongs').waitFor();
    t.strictSame(asked, []);
  });

  t.test('what is typed is kept, or asked about, in a tab whose login began in another', async (t) => {
    const { template } = await made('/templates', { name: 'Interrupted twice' });
    const { page, context } = await view(t, node, '/emails', { loggedIn: false });
    await logIn(page, admin, adminPassword);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    const second = await context.newPage();
    await second.goto(node.baseUrl);
    await logIn(second, admin, adminPassword);
    await lookAgain(page);
    await page.locator('nav.side').waitFor();
    await go(page, `/templates/${template.id}`, 'Interrupted twice');
    await page.getByLabel('The body as HTML').pressSequentially('an hour of work');
    await context.clearCookies();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    const closing = page.waitForEvent('dialog');
    await page.close({ runBeforeUnload: true });
    const dialog = await closing;
    t.equal(dialog.type(), 'beforeunload');
    await dialog.dismiss();
    await logIn(page, admin, adminPassword);
    await page.getByRole('heading', { name: 'Interrupted twice' }).waitFor();
    t.equal(await page.getByLabel('The body as HTML').inputValue(), 'an hour of work');
  });

  t.test('what was begun for one account does not go on in another whose user has logged in elsewhere', async (t) => {
    const other = await buildAccount(node.db);
    const login = { email: other.email, password: other.password };
    const { token: otherToken } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
    const buffer = Buffer.from(Array.from({ length: 10_001 }, (_, index) => `a${index}@begun.test\n`).join(''));
    const ofOther = async () => (await node.call('GET', '/api/v1/suppressions', { token: otherToken })).body.count;
    const isOthers = (page: Page) => page.getByTitle(other.email).first().waitFor();
    const begin = async () => {
      const { page, context } = await view(t, node, '/suppressions', { loggedIn: false });
      await logIn(page, admin, adminPassword);
      let goOn = () => {};
      const answered = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      await page.route('**/suppressions/import', async (route) => {
        const response = await route.fetch();
        await answered;
        await route.fulfill({ response });
      });
      const first = page.waitForRequest('**/suppressions/import');
      await page.setInputFiles('input[type=file]', { name: 'a.csv', mimeType: 'text/csv', buffer });
      await first;
      return { page, context, goOn };
    };

    // In another tab: this one has not asked since who is logged in.
    const { page, context, goOn } = await begin();
    const { headers } = await node.call('POST', '/api/v1/session', { body: login });
    const value = /^sendwright_session=([^;]+)/.exec(headers.get('set-cookie') ?? '')?.[1] ?? '';
    await context.addCookies([{ name: 'sendwright_session', value, url: node.baseUrl }]);
    goOn();
    await isOthers(page);
    t.equal(await ofOther(), 0, 'after a login in another tab');

    // And in the same one, between two calls.
    const again = await begin();
    await again.page.getByRole('button', { name: 'Log out' }).click();
    await logIn(again.page, other.email, other.password);
    await isOthers(again.page);
    again.goOn();
    await again.page.waitForTimeout(500);
    t.equal(await ofOther(), 0, 'after a login in the same tab');
  });
});
