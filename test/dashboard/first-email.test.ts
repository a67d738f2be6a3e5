import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Route } from 'playwright-core';
import t from 'tap';
import { buildAccount } from '../support/build.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { makeFolder } from '../support/start.ts';
import { barriers, barriersInBoth, go, inBrowser, logIn, lookAgain, sharedDashboard, view } from './browser.ts';

const execute = promisify(execFile);

t.test('the dashboard', inBrowser, async (t) => {
  const node = await sharedDashboard();

  t.test('from the first login to the first delivered email', async (t) => {
    const { page, complaints } = await view(t, node, '/', { loggedIn: false });
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    t.strictSame(await barriers(page), []);
    await logIn(page, 'admin@example.test', adminPassword);
    await page.getByRole('heading', { name: 'Start' }).waitFor();
    await page.getByText('example.test is verified').waitFor();
    t.strictSame(await barriers(page), []);
    await page.getByRole('button', { name: 'Create another one' }).click();
    const key = await page.locator('pre', { hasText: /^sk_live_\w{43}$/ }).textContent();
    t.ok((await page.locator('pre', { hasText: 'curl' }).textContent())?.includes(String(key)), 'the curl has the key');
    await page.getByRole('button', { name: 'Send a test email' }).click();
    await page.getByRole('heading', { name: 'A first email · done' }).waitFor();
    await page.getByText('DKIM of example.test').waitFor();
    const frame = page.frameLocator('iframe');
    await frame.getByText('It works: this came from your own server.').waitFor();
    await page.getByRole('tab', { name: 'Source' }).click();
    await page.getByText('DKIM-Signature: v=1').waitFor();
    t.strictSame(await barriers(page), []);
    t.strictSame(complaints, []);
  });

  t.test('a bounce is understood: what was said, what it means, and what to do', async (t) => {
    const { page, context, complaints } = await view(t, node, '/emails');
    const body = { from: 'a@example.test', to: 'bounced+1@anywhere.test', subject: 'For nobody', html: '<p>Hi' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    // It comes up by itself, and turns from queued to failed.
    await page.getByRole('row', { name: /bounced\+1@anywhere.test failed For nobody/ }).waitFor();
    t.strictSame(await barriers(page), []);
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'For nobody' }).waitFor();
    await page
      .getByText(/Refused for good: mx.sandbox.test answered: 550 5.1.1/)
      .first()
      .waitFor();
    await page.getByText('bad mailbox').first().waitFor();
    t.match(await page.locator('.conversation').textContent(), /RCPT TO:<bounced\+1@anywhere.test>.*550 5\.1\.1/);
    t.strictSame(await barriers(page), []);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy the conversation' }).click();
    await page.getByRole('tooltip', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate('navigator.clipboard.readText()');
    t.match(copied, /^20\d\d-.*Z, bounced\+1@anywhere\.test, mx\.sandbox\.test \[127\.0\.0\.1\]\n\d+ ms · /);
    t.match(copied, /^\d+ ms › RCPT TO:<bounced\+1@anywhere\.test>$/m, 'to be passed on to a postmaster');
    await page.getByText(`<${email.id}@example.test>`).waitFor();
    await page.getByRole('tab', { name: 'Preview' }).press('Tab');
    await page.locator('.preview[data-chosen]').waitFor();
    await page.getByRole('button', { name: 'Resend' }).click();
    await page.getByText('suppressed').first().waitFor();
    const later = { scheduled_at: new Date(Date.now() + 86_400_000).toISOString(), subject: 'Later', text: 't' };
    const send = { from: 'a@example.test', to: 'later@anywhere.test', ...later };
    const { email: scheduled } = (await node.call('POST', '/api/v1/emails', { key: node.key, body: send })).body;
    await go(page, '/overview', 'Why mail failed');
    await page.getByText(/^emails, \d+ of them for later$/).waitFor();
    await go(page, '/emails?scheduled=true', 'later@anywhere.test');
    await page.getByRole('row', { name: /later@anywhere.test.* scheduled in 1 d / }).waitFor({ timeout: 20_000 });
    await go(page, '/overview', 'Why mail failed');
    await node.call('DELETE', `/api/v1/emails/${scheduled.id}`, { key: node.key });
    t.match(await page.locator('.bars li', { hasText: 'bad mailbox' }).textContent(), /^bad mailbox[1-9]/);
    const sliders = page.getByRole('slider', { name: /: show the values at$/ });
    const names = await page.evaluate<string[]>(
      `[...document.querySelectorAll('input[type=range]')].map((one) => one.ariaLabel)`,
    );
    t.equal(new Set(names).size, 2, 'each has a name of its own');
    const slider = sliders.first();
    const said = () => page.locator('.chart-legend').first().textContent();
    await slider.focus();
    const atLast = await said();
    t.match(
      atLast,
      /^Accepted\d+Delivered\d+Deferred\d+Failed\d+still under way\D+\d+, \d\d:\d\d–\d\d:\d\d$/,
      'values for who has no mouse',
    );
    const note = page.locator('.chart-legend .under-way').first();
    t.ok(await note.isVisible(), 'a part of an interval is no drop');
    t.match(await slider.getAttribute('aria-valuetext'), /, still under way: Accepted \d/);
    t.match(await page.locator('figure tbody tr').nth(24).textContent(), ', still under way');
    await slider.press('Home');
    t.notOk(await note.isVisible(), 'beside the time of another one it would be taken for that');
    t.not(await said(), atLast);
    t.match(await slider.getAttribute('aria-valuetext'), /: Accepted 0, Delivered 0, Deferred 0, Failed 0$/);
    await slider.blur();
    t.equal(await said(), 'AcceptedDeliveredDeferredFailedstill under way');
    await page.emulateMedia({ forcedColors: 'active' });
    const colors = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.chart-legend .swatch')].slice(0, 4).map((one) => getComputedStyle(one).backgroundColor)`,
    );
    t.equal(new Set(colors).size, 4, 'a line is known by its color where the system chooses the others');
    await page.emulateMedia({ forcedColors: 'none' });
    t.strictSame(await barriersInBoth(page), []);
    t.strictSame(complaints, []);
  });

  t.test('when an interval of a chart begins and ends is said, as its days are those of UTC', async (t) => {
    const { page, context } = await view(t, node, '/settings');
    const zone = await context.newCDPSession(page);
    for (const [timezoneId, said] of [
      ['America/St_Johns', /\d, 2[01]:30 – \D+\d+, 2[01]:30$/],
      ['UTC', /\D \d+$/],
    ] as const) {
      await zone.send('Emulation.setTimezoneOverride', { timezoneId });
      await page.goto(`${node.baseUrl}/overview?range=month`);
      const slider = page.getByRole('slider', { name: 'Show the values at' }).first();
      await slider.focus();
      t.match(await page.locator('.chart-legend .time').first().textContent(), said, timezoneId);
    }
    // Its hours are those of the server, however far off the clock of this machine is.
    await page.clock.setSystemTime(Date.now() + 5 * 3_600_000);
    await page.goto(`${node.baseUrl}/overview`);
    const last = page.locator('figure tbody tr:last-child').first();
    await last.waitFor({ state: 'attached' });
    t.match(await last.textContent(), /, still under way[1-9]/);
    await go(page, '/emails', 'ago');
    t.notMatch(await page.locator('td time').first().textContent(), /h ago/);
  });

  t.test('of many recipients those that did not get it come first, and the rest is one press away', async (t) => {
    const readers = Array.from({ length: 11 }, (_, n) => `reader-${n}@anywhere.test`);
    const to = [...readers, 'bounced+last@anywhere.test'];
    const body = { from: 'a@example.test', to, subject: 'To twelve', text: 't' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const statusNow = async () =>
      (await node.call('GET', `/api/v1/emails/${email.id}`, { key: node.key })).body.email.status;
    await eventually(async () => (await statusNow()) === 'failed');
    const { page } = await view(t, node, `/emails/${email.id}`);
    const recipients = page.locator('.panel', { hasText: 'Recipients (12)' });
    const attempts = page.locator('.panel', { hasText: 'Attempts (12)' });
    await Promise.all([recipients.waitFor(), attempts.waitFor()]);
    const seen = async () => recipients.locator('.recipient b:visible').allTextContents();
    t.strictSame(await seen(), ['bounced+last@anywhere.test', ...readers.slice(0, 9)]);
    await page.evaluate(
      `document.querySelector('.rest .recipient:last-child').id = 'sought'; location.hash = 'sought'`,
    );
    await recipients.getByRole('button', { name: 'Show only 10' }).click();
    t.equal((await seen()).length, 10, 'what was found is folded again');
    await recipients.getByRole('button', { name: 'Show all 12' }).click();
    t.strictSame(await seen(), ['bounced+last@anywhere.test', ...readers]);
    await recipients.locator('button:focus', { hasText: 'Show only 10' }).waitFor();
    t.equal(await attempts.locator('.attempt:visible').count(), 10);
    await page.emulateMedia({ media: 'print' });
    t.equal(await attempts.locator('.attempt:visible').count(), 12, 'on paper there are all of them');
    await page.evaluate(`document.querySelector('.attempt time').id = 'made'`);
    const [time = '', shown = ''] = await page.evaluate<string[]>(
      `[made.title, getComputedStyle(made, '::after').content]`,
    );
    t.equal(shown, `" · ${time}"`, 'and when they were made');
    t.equal(await attempts.getByText(time, { exact: true }).locator('visible=true').count(), 0, 'once');
    const conversations = attempts.locator('.conversation:visible');
    t.equal(await conversations.count(), 1);
    await page.evaluate(`dispatchEvent(new Event('beforeprint'))`);
    t.equal(await conversations.count(), 12, 'and what was said in each');
    await page.evaluate(`dispatchEvent(new Event('afterprint'))`);
    await page.emulateMedia({ media: 'screen' });
    const path = `/api/v1/emails/${email.id}/attempts`;
    await page.route(`**${path}`, async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      await route.fulfill({ response, json: { ...json, attempts: json.attempts.slice(0, 10) } });
    });
    await page.reload();
    const growing = page.locator('.panel', { hasText: /Attempts \(1[02]\)/ });
    await growing.locator('.attempt').nth(5).getByRole('button', { name: 'Show the conversation' }).click();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await lookAgain(page, path);
    await attempts.waitFor();
    // The one that was latest, the one that was opened, and the one that is latest now.
    t.equal(await attempts.getByRole('button', { name: 'Hide the conversation' }).count(), 3);
  });

  t.test('the labels of an axis of durations are as far apart as they stand, and no two are the same', async (t) => {
    const { page } = await view(t, node, '/settings');
    await page.addInitScript(`{
      globalThis.drawn = [];
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        drawn.push(text);
        return fillText.call(this, text, ...rest);
      };
    }`);
    for (const [longest, expected] of [
      [1_700_000, ['0 min', '10 min', '20 min', '30 min']],
      [75_000, ['0 s', '20 s', '40 s', '60 s', '80 s']],
    ] as const) {
      await page.route('**/api/v1/stats?*', async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        const latency_ms = { p50: 10, p95: longest, p99: longest };
        const buckets = json.buckets.map((bucket: object) => ({ ...bucket, latency_ms }));
        await route.fulfill({ response, json: { ...json, buckets } });
      });
      await page.goto(`${node.baseUrl}/overview`);
      await eventually(() => page.evaluate<boolean>(`drawn.some((text) => / (s|min)$/.test(text))`));
      const drawn = await page.evaluate<string[]>(`[...new Set(drawn)].filter((text) => / (ms|s|min)$/.test(text))`);
      t.strictSame(drawn, expected);
      await page.unrouteAll({ behavior: 'ignoreErrors' });
    }
  });

  t.test('numbers that the server counted some minutes ago say so, and new ones do not', async (t) => {
    const { page } = await view(t, node, '/overview');
    await page.getByText('In the queue').waitFor();
    const note = page.getByText(/Counting this much mail takes a while: these numbers are from/);
    t.equal(await note.count(), 0);
    await page.route('**/api/v1/stats?*', async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      await route.fulfill({ response, json: { ...json, to: new Date(Date.parse(json.to) - 300_000).toISOString() } });
    });
    await page.goto(`${node.baseUrl}/overview`);
    t.match(await note.textContent(), /these numbers are from 5 min ago\.$/);
  });

  t.test('of more than a hundred webhook calls for an email the earlier ones can be loaded', async (t) => {
    const call = { status: 'succeeded', event: 'email.sent', attempts: [], created_at: new Date(), webhook_id: 'w' };
    const calls = Array.from({ length: 130 }, (_, n) => ({
      ...call,
      id: `${n}`,
      recipient: `reader-${n}@anywhere.test`,
    }));
    const { emails } = (await node.call('GET', '/api/v1/emails?limit=1', { key: node.key })).body;
    const { page } = await view(t, node, '/emails');
    await page.route('**/api/v1/webhook-deliveries?*', (route) => {
      const { searchParams } = new URL(route.request().url());
      const [limit, offset] = [Number(searchParams.get('limit')), Number(searchParams.get('offset'))];
      return route.fulfill({ json: { deliveries: calls.slice(offset, offset + limit), count: calls.length } });
    });
    await go(page, `/emails/${emails[0].id}`, 'Webhooks (130)');
    t.equal(await page.getByText('reader-129@anywhere.test').count(), 0);
    await page.getByRole('button', { name: 'Load earlier ones' }).click();
    await page.getByRole('button', { name: 'Show all 130' }).click();
    await page.getByText('reader-129@anywhere.test').waitFor();
    t.equal(await page.getByRole('button', { name: 'Load earlier ones' }).count(), 0);
  });

  t.test('what came back after it was delivered is seen in the list', async (t) => {
    const body = { from: 'a@example.test', to: 'later@anywhere.test', subject: 'Came back', text: 't' };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const { page } = await view(t, node, '/emails?to=later@anywhere.test');
    await page.getByRole('row', { name: /later@anywhere.test sent Came back/ }).waitFor();
    await node.db.query({
      text: `INSERT INTO returns (account_id, email_id, recipient, kind)
             SELECT account_id, id, r, k::return_kind FROM emails, unnest(ARRAY['one', 'other']) r, unnest(ARRAY['bounce', 'unsubscribe']) k
              WHERE id = $1`,
      values: [email.id],
    });
    await page.reload();
    await page.getByRole('row', { name: /later@anywhere.test sent bounced unsubscribed Came back/ }).waitFor();
    t.strictSame(await barriersInBoth(page), []);
  });

  t.test('what happens while the list is being asked for is not missed', async (t) => {
    const { page } = await view(t, node, '/domains');
    const [answered, shown] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const late = async (route: Route) => {
      const response = await route.fetch();
      answered.resolve();
      await shown.promise;
      await route.fulfill({ response });
    };
    await page.route('**/api/v1/emails?*', late, { times: 1 });
    await page.evaluate("history.pushState(null, '', '/emails')");
    await answered.promise;
    const body = { from: 'a@example.test', to: 'meanwhile@anywhere.test', subject: 'Meanwhile', text: 't' };
    await node.call('POST', '/api/v1/emails', { key: node.key, body });
    const { page: other } = await view(t, node, '/emails');
    // All that look on are told of it at once.
    await other.getByRole('row', { name: /meanwhile@anywhere.test sent/ }).waitFor();
    shown.resolve();
    await page.getByRole('row', { name: /meanwhile@anywhere.test sent/ }).waitFor();
  });

  t.test('what is looked for stands in the address', async (t) => {
    for (const n of [1, 2, 3]) {
      const to = `slow+${n}@anywhere.test`;
      const body = { from: 'a@example.test', to, subject: `Number ${n}`, text: 't', tags: [`t${n}`] };
      await node.call('POST', '/api/v1/emails', { key: node.key, body });
    }
    const { page } = await view(t, node, '/emails?tag=t2');
    await page.getByText('1 email', { exact: true }).waitFor();
    t.equal(await page.locator('tbody tr').count(), 1);
    await page.keyboard.press('/');
    await page.keyboard.type('slow+3@anywhere.test');
    await page.waitForURL(/tag=t2&to=slow%2B3%40anywhere.test/);
    await page.getByText('No email matches').waitFor();
    await page.getByRole('button', { name: 'Clear' }).last().click();
    await page.getByRole('row', { name: /Number 1/ }).waitFor();
    await page.getByLabel('Recipient, @domain or id').fill('Ann <SLOW+3@anywhere.test>,');
    await page.getByText('1 email', { exact: true }).waitFor();
    await page.getByRole('row', { name: /Number 3/ }).waitFor();
    await page.getByLabel('Recipient, @domain or id').fill('slow+3');
    await page.getByText('by the whole address').waitFor();
    await page.getByRole('button', { name: 'Clear' }).last().click();
    await page.getByRole('row', { name: /Number 1/ }).waitFor();
    t.notMatch(page.url(), 'tag');
    const { id } = (await node.call('GET', '/api/v1/emails?tag=t1', { key: node.key })).body.emails[0];
    await page.getByLabel('Recipient, @domain or id').fill(`<${id}@example.test>`);
    await page.getByRole('heading', { name: 'Number 1' }).waitFor();
    t.equal(new URL(page.url()).pathname, `/emails/${id}`);
    await page.goBack();
    await page.getByRole('row', { name: /Number 1/ }).waitFor();
    await page.getByLabel('Status').selectOption('failed');
    await page.waitForURL(/status=failed/);
    await page.getByRole('row', { name: /Number 1/ }).waitFor({ state: 'detached' });
    await go(page, '/emails?page=99', 'This page is empty');
    await go(page, '/accounts?page=99', 'This page is empty');
    await go(page, '/sandbox?page=99', 'This page is empty');
    await page.getByRole('button', { name: 'Go to the first page' }).click();
    await page.getByRole('navigation', { name: 'Messages' }).getByRole('link').first().waitFor();
    await page.getByLabel('Recipient or subject').fill('SLOW+2@any');
    await page.getByText('1 message', { exact: true }).waitFor();
    await page.getByRole('navigation', { name: 'Messages' }).getByRole('link', { name: 'Number 2' }).click();
    await page.waitForURL(/\/sandbox\/[\w-]{36}\?q=SLOW%2B2%40any$/);
    await page.getByText('1 message', { exact: true }).waitFor();
    await page.getByLabel('Recipient or subject').fill('nobody');
    await page.getByText('No message matches').waitFor();
    await go(page, '/emails?page=99', 'This page is empty');
    t.match(await page.locator('.pager').textContent(), /^none of \d/);
    await page.getByRole('button', { name: 'Go to the first page' }).click();
    await page.getByRole('row', { name: /Number 1/ }).waitFor();
  });

  t.test('one that waits for a decision is found, and decided', async (t) => {
    const to = 'disconnects+2@anywhere.test';
    const body = { from: 'a@example.test', to, subject: 'Arrived?', text: 't', on_uncertain: 'hold' };
    await node.call('POST', '/api/v1/emails', { key: node.key, body });
    // No status changes with that, so a list that was asked for before would not hear of it.
    const held = async () => (await node.call('GET', '/api/v1/emails?held=true', { key: node.key })).body.count;
    await eventually(async () => (await held()) === 1);
    const { page } = await view(t, node, '/emails?held=true');
    await page.getByRole('row', { name: /^disconnects\+2@anywhere.test queued held Arrived\?/ }).waitFor();
    t.strictSame(await barriersInBoth(page), []);
    await go(page, '/overview', 'waits for your decision');
    const concern = page.locator('.concerns li', { hasText: '1 email waits for your decision' });
    await concern.getByRole('link', { name: 'Show it' }).click();
    await page.getByRole('link', { name: to }).click();
    await page.getByText('Is not tried again until somebody decides').first().waitFor();
    t.notMatch(await page.locator('main .recipient').first().textContent(), /`|POST|\dT\d\d:/);
    await page.getByRole('button', { name: 'It arrived' }).click();
    await page.locator('.page-head .status', { hasText: 'sent' }).waitFor();
    await go(page, '/emails?held=true', 'No email matches');
  });

  t.test('one for later is canceled', async (t) => {
    const later = new Date(Date.now() + 86_400_000).toISOString();
    const body = { from: 'a@example.test', to: 'a@anywhere.test', subject: 'Tomorrow', text: 't', scheduled_at: later };
    const { email } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body;
    const { page } = await view(t, node, '/emails');
    await page.getByLabel('Status').selectOption('scheduled, for later');
    await page.waitForURL(/\?scheduled=true$/);
    await page.getByText('1 email', { exact: true }).waitFor();
    await go(page, `/emails/${email.id}`, 'Tomorrow');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.page-head', { hasText: 'canceled' }).waitFor();
    t.match((await node.call('GET', `/api/v1/emails/${email.id}`, { key: node.key })).body.email, {
      status: 'canceled',
    });
  });

  t.test('logging out ends the session and shows the login again', async (t) => {
    const { page, context } = await view(t, node, '/emails', { loggedIn: false });
    await logIn(page, 'admin@example.test', adminPassword);
    const [cookie] = await context.cookies();
    t.match(cookie, { httpOnly: true, sameSite: 'Strict' });
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
    // A member has no terminal, and nobody is sent a new password by mail.
    await page.getByLabel('Email', { exact: true }).fill('nobody@example.test');
    await page.getByLabel('Password', { exact: true }).fill('not the password');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('an operator of this server can set another one').waitFor();
    const headers = { Cookie: `${cookie?.name}=${cookie?.value}` };
    t.equal((await node.call('GET', '/api/v1/session', { headers })).status, 401);
  });
});

t.test('the first email is one that a key may send from a domain that can', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const { password, email, id } = await buildAccount(node.db);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  const create = async (body: object) => (await node.call('POST', '/api/v1/keys', { token, body })).body;
  const [shop, other] = [`shop-${id}.test`, `other-${id}.test`];
  const { page, complaints } = await view(t, node, '/', { loggedIn: false });
  await logIn(page, email, password);
  const shown = async (step: RegExp) => {
    await page.goto(`${node.baseUrl}/start`);
    return page.locator('.step').filter({ hasText: step });
  };
  const add = (domain: string) => node.call('POST', '/api/v1/domains', { token, body: { domain } });
  const verify = (domain: string) =>
    node.db.prisma.domain.updateMany({ where: { accountId: id, domain }, data: { status: 'verified' } });

  await create({ name: 'reader', scopes: ['read'] });
  await (await shown(/“reader” has no permission to send\./)).waitFor();
  await add(shop);
  const { key } = await create({ name: 'of the shop', scopes: ['send'], domains: [shop] });
  await (await shown(new RegExp(`“of the shop” may send only from ${shop}, which is not verified\\.`))).waitFor();
  await (await shown(/Once a domain is verified, paste this\./)).waitFor();
  await add(other);
  await verify(other);
  await (await shown(new RegExp(`“of the shop” may send only from ${shop}, which is not verified\\.`))).waitFor();
  await (await shown(/Once you have a key that can send, paste this/)).waitFor();
  t.equal(await page.getByRole('heading', { name: 'An API key · done' }).count(), 0);

  await verify(shop);
  await (await shown(/“of the shop” .* can be used/)).waitFor();
  await page.getByText(`${shop} is verified`).waitFor();
  const command = (await page.locator('pre', { hasText: 'curl' }).textContent()) ?? '';
  t.match(command, `hello@${shop}`);
  const body = JSON.parse(/-d '(.*)'/s.exec(command)?.[1] ?? '');
  t.equal((await node.call('POST', '/api/v1/emails', { key, body })).status, 200, 'what is shown can be sent');
  const folder = await makeFolder(t);
  for (const [language, runs, file] of [
    ['Node.js', process.execPath, 'send.mjs'],
    ['Python', 'python3', 'send.py'],
    ['PHP', 'php', 'send.php'],
  ] as const) {
    await page.getByRole('tab', { name: language }).click();
    const program = (await page.locator('.step pre', { hasText: file }).textContent()) ?? '';
    const path = join(folder, file);
    // A test's node is told to take any port.
    await writeFile(path, program.replace('sk_live_…', key).replace('http://localhost:0', node.baseUrl));
    const output = await execute(runs, [path], { timeout: 30_000 }).catch((error) => error);
    if (output.code === 'ENOENT') t.comment(`${runs} is not installed: the program in ${language} was not run`);
    else t.match(output.stdout, /status\W+queued/, `${language}: ${output.stderr}`);
  }
  await page.reload();
  await page.getByRole('tab', { name: 'PHP', selected: true }).waitFor();
  await page.getByRole('tab', { name: 'curl' }).click();

  // A new key's own command keeps to its domains, too.
  await page.goto(`${node.baseUrl}/keys?new=1`);
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('made here');
  await page.getByRole('checkbox', { name: shop }).check();
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await page.getByText('Try it:').waitFor();
  t.match(await page.locator('pre', { hasText: 'curl' }).textContent(), `hello@${shop}`);
  t.strictSame(complaints, []);
});
