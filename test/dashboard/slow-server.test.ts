import type { Page } from 'playwright-core';
import t from 'tap';
import { eventually } from '../support/node.ts';
import { go, inBrowser, logIn, lookAgain, sharedDashboard, view } from './browser.ts';

/** Holds back the answers to some requests, until it is called. */
async function holdBack(
  page: Page,
  path: string,
  method: string,
): Promise<{ answered: Promise<void>; let: () => void }> {
  const [answered, shown] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await page.route(path, async (route) => {
    if (route.request().method() !== method) return route.fallback();
    const response = await route.fetch();
    answered.resolve();
    await shown.promise;
    await route.fulfill({ response });
  });
  return { answered: answered.promise, let: shown.resolve };
}

t.test('with a server that is slow, or away for a moment', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const body = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;

  t.test('who gets impatient while an account is made still sees its password', async (t) => {
    const { page } = await view(t, node, '/accounts?new=1');
    const held = await holdBack(page, '**/api/v1/admin/accounts', 'POST');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('Of somebody impatient');
    await dialog.getByLabel('Email of its first user').fill('impatient@accounts.test');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await held.answered;
    await page.keyboard.press('Escape');
    await page.mouse.click(5, 5);
    held.let();
    await page.locator('pre', { hasText: 'impatient@accounts.test' }).waitFor();
  });

  t.test('what was made while a list was first asked for is in it', async (t) => {
    const { page } = await view(t, node, '/settings');
    const held = await holdBack(page, '**/api/v1/keys', 'GET');
    await page.evaluate("history.pushState(null, '', '/keys?new=1')");
    await held.answered;
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('made meanwhile');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('button', { name: 'I have saved it' }).click();
    held.let();
    await page.getByRole('row', { name: /made meanwhile/ }).waitFor();
  });

  t.test('what is listed stays while it is away, with what is typed in it', async (t) => {
    const { page } = await view(t, node, '/accounts');
    await page.getByRole('button', { name: 'Change Admin', exact: true }).click();
    const amount = page.getByRole('dialog').getByLabel('Add credit');
    await amount.fill('12.50');
    const lists = '**/api/v1/admin/accounts?*';
    await page.route(lists, (route) => route.abort());
    await lookAgain(page, '/api/v1/admin/accounts');
    await page.getByText('What you see below may be out of date').waitFor();
    t.equal(await amount.inputValue(), '12.50');
    await page.unroute(lists);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('What you see below may be out of date').waitFor({ state: 'detached' });
    // The button is gone, and the focus not with it.
    await page.locator('#main:focus').waitFor({ timeout: 20_000 });
    await page.route('**/api/v1/stats?*', (route) => route.abort());
    await go(page, '/overview', 'This could not be loaded');
  });

  t.test('what was chosen is shown while it is saved', async (t) => {
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'slow.test' } })).body;
    const { page } = await view(t, node, '/settings');
    await go(page, `/domains/${domain.id}`, 'slow.test');
    const held = await holdBack(page, `**/api/v1/domains/${domain.id}`, 'PATCH');
    const tls = page.getByLabel('Minimum for all mail from this domain');
    await tls.selectOption('verified');
    await held.answered;
    t.equal(await tls.inputValue(), 'verified');
    held.let();
    await page.getByText('Changed. It also applies to queued mail.').waitFor();
    t.equal(await tls.inputValue(), 'verified');
    await node.call('DELETE', `/api/v1/domains/${domain.id}`, { token });
  });

  t.test('what could not be asked for is asked for again by who wants to see it', async (t) => {
    const { domain } = (await node.call('POST', '/api/v1/domains', { token, body: { domain: 'away-twice.test' } }))
      .body;
    const { page } = await view(t, node, '/settings');
    let isAway = true;
    await page.route(`**/api/v1/domains/${domain.id}`, (route) =>
      isAway ? route.fulfill({ status: 503, json: { error: 'unavailable' } }) : route.continue(),
    );
    await page.evaluate(`history.pushState(null, '', '/domains/${domain.id}')`);
    const again = page.getByRole('button', { name: 'Try again' });
    await again.waitFor();
    isAway = false;
    await again.click();
    await page.getByRole('heading', { name: 'away-twice.test' }).waitFor();
    await page.route('**/api/v1/keys', (route) => route.abort());
    await page.evaluate("history.pushState(null, '', '/start')");
    await again.waitFor();
    await page.unroute('**/api/v1/keys');
    await again.click();
    await page.getByText('A sending domain').waitFor();
    await node.call('DELETE', `/api/v1/domains/${domain.id}`, { token });
  });

  t.test('a login that has ended is said once, to who presses a button too', async (t) => {
    const { page, context } = await view(t, node, '/suppressions?new=1', { loggedIn: false });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByRole('dialog').getByLabel('Address').fill('too-late@anywhere.test');
    // Ended only now, or another request of the page may be the first to hear of it.
    await page.route('**/api/v1/suppressions', async (route) => {
      if (route.request().method() === 'POST') await context.clearCookies();
      await route.continue();
    });
    await page.getByRole('dialog').getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    await page.waitForTimeout(200);
    t.equal(await page.getByText('Your login has ended').count(), 1);
    await logIn(page, 'admin@example.test', node.adminPassword);
    const typed = () => page.getByRole('dialog').getByLabel('Address').inputValue();
    t.ok(await eventually(async () => (await typed()) === 'too-late@anywhere.test'), 'what was typed is back');
  });

  t.test('a dialog of a row, with what is typed and chosen in it, outlives a login that ends', async (t) => {
    const { page, context } = await view(t, node, '/accounts', { loggedIn: false });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByRole('button', { name: 'Change Admin', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Plan').selectOption('pro');
    await dialog.getByLabel('Add credit').fill('12.50');
    const key = await dialog.locator('[name=added]').inputValue();
    await context.clearCookies();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    await logIn(page, 'admin@example.test', node.adminPassword);
    await eventually(async () => (await dialog.getByLabel('Add credit').inputValue()) === '12.50');
    t.equal(await dialog.getByLabel('Plan').inputValue(), 'pro');
    t.equal(await dialog.locator('[name=added]').inputValue(), key, 'the amount is not added twice');
  });

  t.test('a key that was being shown when the login ended is said to be gone, and what to do', async (t) => {
    const { page, context } = await view(t, node, '/keys?new=1', { loggedIn: false });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('hardly seen');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('button', { name: 'I have saved it' }).waitFor();
    await context.clearCookies();
    await lookAgain(page);
    await page.getByText('The key that was shown is not shown again').waitFor();
    await page.getByText('revoke it, and create another').waitFor();
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByRole('row', { name: /hardly seen/ }).waitFor();
    t.equal(await page.getByText('I have saved it').count(), 0);
    await page.keyboard.press('Escape');
    await context.clearCookies();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    t.equal(await page.getByText('The key that was shown').count(), 0, 'which is said once');
  });

  t.test('what cannot come back after the next login does not keep the tab open', async (t) => {
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: { name: 'Soon gone' } })).body;
    const { page, context } = await view(t, node, `/templates/${template.id}`, { loggedIn: false });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByLabel('The body as HTML').pressSequentially('mine');
    await context.clearCookies();
    await lookAgain(page);
    await page.getByText('Your login has ended').waitFor();
    await node.call('DELETE', `/api/v1/templates/${template.id}`, { token });
    await logIn(page, 'admin@example.test', node.adminPassword);
    await page.getByText('It does not exist, or it belongs').waitFor();
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.type());
      return dialog.accept();
    });
    await page.reload();
    await page.getByText('It does not exist, or it belongs').waitFor();
    t.strictSame(asked, []);
  });

  t.test('before anything is known the page is not blank, and what is fast does not flash', async (t) => {
    const { page } = await view(t, node, '/settings', { loggedIn: false });
    const opening = page.getByRole('status', { name: 'Sendwright is loading' });
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    t.equal(await opening.count(), 0, 'it is gone with the first page');
    const script = await holdBack(page, '**/assets/index-*.js', 'GET');
    const session = await holdBack(page, '**/api/v1/session', 'GET');
    await page.reload({ waitUntil: 'commit' });
    await script.answered;
    const styled = (property: string) =>
      page.evaluate<string>(`getComputedStyle(document.getElementById('opening')).${property}`);
    await opening.waitFor();
    const isSeen = async () => Number(await styled('opacity')) > 0.9;
    t.ok(await eventually(isSeen));
    script.let();
    await session.answered;
    t.ok(await isSeen(), 'nor does it begin anew with the script');
    t.ok(Number.parseFloat(await styled('animationDelay')) >= 0.2);
    session.let();
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    t.equal(await opening.count(), 0);
  });

  t.test('a machine without a network still has the pages of its own server, and their buttons', async (t) => {
    const { page } = await view(t, node, '/settings');
    await page.evaluate("dispatchEvent(new Event('offline'))");
    await page.evaluate("history.pushState(null, '', '/suppressions?new=1')");
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Address').fill('without-network@anywhere.test');
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    page.setDefaultTimeout(20_000);
    await page.getByRole('row', { name: /without-network@anywhere[.]test/ }).waitFor();
    await page.route('**/api/v1/suppressions?*', (route) => route.abort());
    await page.evaluate("history.pushState(null, '', '/suppressions?q=nobody')");
    await page.getByText('The server does not answer. Is it running?').waitFor();
  });

  t.test('a page that is gone, as the server was updated meanwhile, says what that may be', async (t) => {
    const { page } = await view(t, node, '/settings');
    await page.route('**/assets/templates-*.js', (route) => route.fulfill({ status: 404, body: '' }));
    await page.evaluate("history.pushState(null, '', '/templates')");
    page.setDefaultTimeout(20_000);
    await page.getByText('The server does not answer, or was updated meanwhile.').waitFor();
    await page.unroute('**/assets/templates-*.js');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'Templates', exact: true }).waitFor();
  });

  t.test('what waits does not pulse for who wants no motion', async (t) => {
    const { page } = await view(t, node, '/settings');
    const keys = await holdBack(page, '**/api/v1/keys', 'GET');
    await page.evaluate("history.pushState(null, '', '/keys')");
    await keys.answered;
    await page.locator('table[aria-busy=true]').waitFor();
    t.equal(await page.evaluate('document.getAnimations().length'), 0);
    keys.let();
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    const again = await holdBack(page, '**/api/v1/webhooks', 'GET');
    await page.evaluate("history.pushState(null, '', '/webhooks')");
    await again.answered;
    await page.locator('table[aria-busy=true]').waitFor();
    t.not(await page.evaluate('document.getAnimations().length'), 0);
    again.let();
  });

  t.test('once the server answers one question again, all that it had not answered are asked anew', async (t) => {
    const { page } = await view(t, node, '/settings');
    const numbers = /[/]api[/]v1[/](stats|emails|admin[/]emails|webhooks)([?]|$)/;
    await page.route(numbers, (route) => route.fulfill({ status: 503, json: { error: 'unavailable' } }));
    await page.evaluate("history.pushState(null, '', '/overview')");
    const lost = page.getByRole('alert').filter({ hasText: 'The server is too busy, or its database' });
    const again = lost.getByRole('button', { name: 'Try again' });
    t.ok(await eventually(async () => (await lost.count()) > 1));
    await page.unroute(numbers);
    await again.first().click();
    // Sooner than they would be asked by the clock.
    t.ok(await eventually(async () => (await lost.count()) === 0, 15_000));
  });

  t.test('an error of the server names the request to look for in its log', async (t) => {
    const { page } = await view(t, node, '/settings');
    await page.route('**/api/v1/keys', async (route) => {
      const { headers } = await route.fetch().then((response) => ({ headers: response.headers() }));
      await route.fulfill({ status: 500, headers, json: { error: 'internal error' } });
    });
    await page.evaluate("history.pushState(null, '', '/keys')");
    await page.getByText(/^Internal error\. The server's log says why, at request [0-9a-f-]{36}\./).waitFor();
  });

  t.test('what a proxy answers in place of the server ends no login, and is not shown as it is', async (t) => {
    const { page } = await view(t, node, '/accounts');
    const calls = '**/api/v1/**';
    const wants = /^What stands before the server does not let this page in: .*Load the page again\./;
    const isAway = /^What stands before the server answers with 503 in its place\./;
    const answers = [
      { status: 401, says: wants },
      { status: 403, says: wants },
      { status: 302, headers: { Location: '/oauth2/sign_in' }, says: wants },
      { status: 200, says: wants },
      { status: 503, says: isAway },
    ];
    for (const { status, headers = {}, says } of answers) {
      await page.route(calls, (route) =>
        route.fulfill({ status, headers, contentType: 'text/html', body: '<h1>Not you</h1>' }),
      );
      await lookAgain(page, '/api/v1/admin/accounts');
      await page.getByText(says).first().waitFor();
      await page.waitForTimeout(100);
      t.equal(await page.getByRole('heading', { name: 'Log in to Sendwright' }).count(), 0, `${status} is not ours`);
      t.equal(await page.getByText('Not you').count(), 0);
      await page.unroute(calls);
      await page.getByRole('button', { name: 'Try again' }).first().click();
      await page.getByText('What you see below may be out of date').waitFor({ state: 'detached' });
    }
  });

  t.test('the log is live again after an answer that is no stream', async (t) => {
    const { page } = await view(t, node, '/settings');
    await page.clock.install();
    let asked = 0;
    await page.route('**/api/v1/live', (route) => {
      asked += 1;
      return asked === 1 ? route.fulfill({ status: 502, body: 'a proxy says so' }) : route.continue();
    });
    await page.evaluate(`history.pushState(null, '', '/emails')`);
    const show = (state: string) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${state === 'hidden'}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      );
    const refused = page.waitForResponse((response) => response.status() === 502);
    await show('hidden');
    await show('visible');
    await refused;
    await page.getByText('Not live').waitFor();
    await page.waitForTimeout(200);
    await page.clock.runFor(6_000);
    await page.getByText('Live', { exact: true }).waitFor();
  });

  t.test('a server that asks to wait is said to, and asked again afterwards', async (t) => {
    const { page } = await view(t, node, '/settings');
    let asked = 0;
    await page.route('**/api/v1/keys', (route) => {
      asked += 1;
      const headers = { 'Retry-After': '6' };
      return asked === 1 ? route.fulfill({ status: 429, headers, json: { error: 'rate limited' } }) : route.continue();
    });
    await page.evaluate("history.pushState(null, '', '/keys')");
    page.setDefaultTimeout(20_000);
    await page.getByText('The server is busy, and asks to wait 6 s.').waitFor();
    await page.locator('table[aria-busy=false]').waitFor();
    t.equal(asked, 2);
  });

  t.test('the log is not called live while nothing is heard, although no connection was closed', async (t) => {
    const { page } = await view(t, node, '/emails');
    page.setDefaultTimeout(20_000);
    const live = page.getByText('Live', { exact: true });
    await live.waitFor();
    // A server that answers, and then says nothing.
    await page.evaluate(`(() => {
      globalThis.opened = 0;
      globalThis.EventSource = class extends EventTarget {
        readyState = 1;
        constructor() {
          super();
          opened += 1;
          if (opened === 1) setTimeout(() => this.onopen());
          else globalThis.alive = () => { this.onopen(); this.dispatchEvent(new Event('alive')); };
        }
        close() { this.readyState = 2; }
      };
    })()`);
    await page.clock.install();
    const show = (hidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      );
    await show(true);
    await page.getByText('Not live').waitFor();
    await show(false);
    await page.clock.runFor(1_000);
    await live.waitFor();
    await page.clock.runFor(30_000);
    t.ok(await live.isVisible());
    await page.clock.runFor(10_000);
    await page.getByText('Not live').waitFor();
    t.equal(await page.evaluate('opened'), 2, 'it is opened again');
    await page.evaluate('alive()');
    await live.waitFor();
    for (let beats = 0; beats < 5; beats += 1) {
      await page.clock.runFor(10_000);
      await page.evaluate('alive()');
    }
    t.ok(await live.isVisible(), 'and is live for as long as it is heard');
    t.equal(await page.evaluate('opened'), 2);
  });

  t.test('what was to be given up by logging out is still guarded where that failed', async (t) => {
    const { template } = (await node.call('POST', '/api/v1/templates', { token, body: { name: 'Guarded' } })).body;
    const { page } = await view(t, node, `/templates/${template.id}`);
    await page.getByLabel('The body as HTML').fill('<p>an hour of work');
    await page.route('**/api/v1/session', (route) =>
      route.request().method() === 'DELETE'
        ? route.fulfill({ status: 503, json: { error: 'unavailable' } })
        : route.fallback(),
    );
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.getByText('The server is too busy, or its database is away or full.').waitFor();
    await page.getByRole('link', { name: 'Domains', exact: true }).click();
    await page.getByText('The template was changed, and is not saved.').waitFor();
    await page.getByRole('button', { name: 'Stay' }).click();
    t.equal(await page.getByLabel('The body as HTML').inputValue(), '<p>an hour of work');
  });
});
