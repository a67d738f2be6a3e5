import type { Page } from 'playwright-core';
import t from 'tap';
import { eventually } from '../support/node.ts';
import { go, inBrowser, lookAgain, pressAtOnce, sharedDashboard, view, whole } from './browser.ts';

const focused = (page: Page) =>
  page.evaluate<string>('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent');

t.test('with the keyboard alone', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const body = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;

  t.test('who closes a dialog is where it was opened', async (t) => {
    const { page } = await view(t, node, '/settings');
    for (const [path, name] of [
      ['/suppressions', 'Add an address'],
      ['/domains', 'Add a domain'],
      ['/templates', 'New template'],
      ['/webhooks', 'Add a webhook'],
      ['/keys', 'Create a key'],
      ['/accounts', 'New account'],
      ['/accounts', 'Change Admin'],
      ['/keys', 'Revoke sandbox (made at first start)'],
    ] as const) {
      await go(page, path, /^(Change|Revoke)/.exec(name)?.[0] ?? name);
      const button = page.getByRole('button', { name, exact: true }).first();
      await button.focus();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.locator('button:focus').waitFor();
      t.equal(await focused(page), name, path);
    }
  });

  t.test('a password that is being typed can be shown', async (t) => {
    const { page } = await view(t, node, '/settings');
    const password = page.getByLabel('Current password');
    await password.focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
    t.equal(await password.getAttribute('type'), 'text');
  });

  t.test('what is shown once is not lost by a key', async (t) => {
    const { page } = await view(t, node, '/keys?new=1');
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('by keyboard');
    await page.keyboard.press('Enter');
    const key = page.locator('pre', { hasText: /^sk_live_/ }).first();
    await key.waitFor();
    // Whoever presses it twice, and whoever goes elsewhere by two letters.
    for (const pressed of ['Enter', 'Escape', 'g', 'e', '?']) await page.keyboard.press(pressed);
    await page.waitForTimeout(100);
    t.ok(await key.isVisible());
    t.match(new URL(page.url()).pathname, '/keys');
    t.match(await focused(page), /It is shown only once/, 'it is what is read out');
    await page.getByRole('button', { name: 'I have saved it' }).click();
    await pressAtOnce(page, 'g', 'e');
    await page.getByRole('heading', { name: 'Emails', level: 1 }).waitFor();
  });

  t.test('letters lead on from what takes none, as a choice of three', async (t) => {
    const { page } = await view(t, node, '/overview');
    await page.getByText('7 days').click();
    await page.waitForURL(/range=week/);
    await pressAtOnce(page, 'g', 'd');
    await page.getByRole('heading', { name: 'Domains', level: 1 }).waitFor();
  });

  t.test('to the content it goes with something unsaved as well', async (t) => {
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: { name: 'Skipped to' } })).body;
    const { page } = await view(t, node, `/templates/${template.id}`);
    await page.getByLabel('The body as HTML').fill('<p>an hour of work');
    await page.locator('a.skip').focus();
    await page.keyboard.press('Enter');
    await page.locator('#main:focus').waitFor();
    t.equal(await page.getByRole('dialog').count(), 0);
    t.equal(await page.getByLabel('The body as HTML').inputValue(), '<p>an hour of work');
  });

  t.test('the messages of the sandbox are one stop to pass', async (t) => {
    const send = { from: 'a@example.test', to: 'a@anywhere.test', subject: 'One of several', text: 't' };
    for (let n = 0; n < 3; n++) await node.call('POST', '/api/v1/emails', { key: node.key, body: send });
    const { page } = await view(t, node, '/sandbox');
    await page
      .getByRole('link', { name: /One of several/ })
      .nth(2)
      .waitFor();
    await page.getByLabel('Recipient or subject').focus();
    await page.keyboard.press('Tab');
    t.equal(await focused(page), 'Skip to the message');
    t.ok(await page.evaluate('document.activeElement.getBoundingClientRect().left >= 0'), 'is seen');
    await page.keyboard.press('Enter');
    await page.locator('#message:focus').waitFor();
    await page.keyboard.press('Tab');
    t.equal(await focused(page), 'the email in the log');
  });

  t.test('who scrolls a preview sees that the keyboard is there, where the focus comes after the event', async (t) => {
    const body = { from: 'a@example.test', to: 'a@anywhere.test', subject: 'To be scrolled', html: '<p>t' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const { page } = await view(t, node, `/emails/${email.id}`);
    await page.locator('.preview').waitFor();
    // As Firefox does: it tells the window of it, and then moves the focus.
    await page.evaluate(`
      dispatchEvent(new Event('blur'));
      Object.defineProperty(document, 'activeElement', { get: () => document.querySelector('.preview'), configurable: true });
    `);
    await page.locator('.preview[data-chosen]').waitFor();
    await page.evaluate(`delete document.activeElement; dispatchEvent(new Event('focus'))`);
    await page.locator('.preview:not([data-chosen])').waitFor();
  });

  t.test('each page begins at its top, and the way back leads to where one was', async (t) => {
    const send = { from: 'a@example.test', to: 'a@anywhere.test', subject: 'At the end of a list', text: 't' };
    for (let n = 0; n < 12; n++) await node.call('POST', '/api/v1/emails', { key: node.key, body: send });
    // What is still being delivered changes its row, and what is below it.
    const sent = async () => (await node.call('GET', '/api/v1/emails?q=At+the+end&status=sent', { token })).body.count;
    await eventually(async () => (await sent()) === 12);
    const { page } = await view(t, node, '/emails?q=At+the+end');
    await page.setViewportSize({ width: 390, height: 500 });
    await whole(page, '12 emails');
    const scrolled = () => page.evaluate<number>('Math.round(scrollY)');
    const row = page.locator('[data-row]').nth(10);
    // The second time all of it is there at once.
    for (const time of ['once', 'again', 'after a link within the page']) {
      if (time.startsWith('after')) await page.evaluate(`location.hash = 'main'`);
      await row.focus();
      const before = await scrolled();
      t.ok(before > 200, `the list is scrolled by ${before} px`);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Recipients (1)' }).waitFor();
      t.equal(await scrolled(), 0, time);
      t.equal(await page.evaluate('document.activeElement.id'), 'main', 'which is read out');
      await page.keyboard.press('Tab');
      t.match(await focused(page), /Emails$/, 'and gone on from');
      await page.goBack();
      await row.waitFor();
      await page.waitForFunction('scrollY > 0');
      t.equal(await scrolled(), before, `${time}: the list is where it was`);
    }
  });

  t.test('its place in a list that changes stays', async (t) => {
    const { page } = await view(t, node, '/accounts');
    const change = page.getByRole('button', { name: 'Change Admin', exact: true });
    await change.focus();
    const account = { name: 'One more', email: 'one-more@accounts.test' };
    await node.call('POST', '/api/v1/admin/accounts', { token, body: account });
    await lookAgain(page, '/api/v1/admin/accounts');
    await page.getByRole('row', { name: /One more/ }).waitFor();
    t.equal(await focused(page), 'Change Admin');
  });
});
