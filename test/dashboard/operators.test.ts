import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import * as hold from '../../src/core/operations/hold.ts';
import { newId } from '../../src/ids.ts';
import { createAuthority } from '../support/authority.ts';
import { buildSender } from '../support/build.ts';
import { dayLasting } from '../support/midnight.ts';
import { eventually } from '../support/node.ts';
import { freePort } from '../support/ports.ts';
import { makeFolder } from '../support/start.ts';
import { barriersInBoth, go, inBrowser, logIn, lookAgain, startDashboard, view } from './browser.ts';

t.test('what operators see', inBrowser, async (t) => {
  const encryptionKey = randomBytes(32);
  const folder = await makeFolder(t);
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const certify = async (days: number) => {
    const credentials = createAuthority().issue(['mx.test'], { to: new Date(Date.now() + days * 86_400_000) });
    await Promise.all([writeFile(cert, credentials.cert), writeFile(key, credentials.key)]);
  };
  await certify(20);
  const port = String(await freePort());
  const env = {
    ...{ ROLES: 'api,smtp', SUBMISSION_PORT: port, SMTP_TLS_CERT: cert, SMTP_TLS_KEY: key },
    ...{ START_ON_HOLD: 'true', ENCRYPTION_KEY: encryptionKey.toString('hex') },
  };
  const node = await startDashboard(t, env);
  const shop = await buildSender(node.db, encryptionKey);
  const body = { from: `a@${shop.domain}`, to: 'a@anywhere.test', subject: 'Of the shop', text: 't' };
  t.equal((await node.call('POST', '/api/v1/emails', { key: shop.key, body })).status, 200);
  const since = (await hold.find(node.db))?.toISOString();

  t.test(
    'what a program that sends by SMTP asks for is shown beside the keys, as far as its port is open',
    async (t) => {
      const { page, complaints } = await view(t, node, '/keys');
      const panel = page.locator('.panel').filter({ has: page.getByRole('heading', { name: 'By SMTP' }) });
      await panel.waitFor();
      const shown = await panel.locator('dd').allTextContents();
      t.strictSame(
        shown.map((text) => text.trim()),
        ['localhost', `${port} (STARTTLS)`, 'anything, such as sendwright', 'a key that can send'],
      );
      t.strictSame(await barriersInBoth(page), []);
      await page.goto(`${node.baseUrl}/keys?new=1`);
      await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('by smtp');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      const words = `By SMTP: localhost, port ${port} (STARTTLS), any user name, and the key as the password.`;
      await page.getByRole('dialog').getByText(words).waitFor();
      t.strictSame(complaints, []);
    },
  );

  t.test(
    'who sends nothing themselves sees what is wrong with the mail of others, or that it is not known',
    async (t) => {
      const storm = await buildSender(node.db, encryptionKey);
      const hour = new Date(new Date().setUTCMinutes(0, 0, 0));
      const settle = (sent: number, failed: number) =>
        node.db.query({
          text: `INSERT INTO email_count_changes (facet, account_id, hour, status, type, emails)
               SELECT '', $1, $4, status::email_status, 'marketing', emails
                 FROM (VALUES ('sent', $2::int), ('failed', $3::int)) AS settled (status, emails)`,
          values: [storm.account.id, sent, failed, hour],
        });
      await settle(10, 30);
      const { page } = await view(t, node, '/overview');
      const concerns = page.locator('.concerns li');
      await concerns.filter({ hasText: '75.0 % of the emails of all accounts failed.' }).waitFor({ timeout: 20_000 });
      await concerns.filter({ hasText: 'Nothing has been sent since' }).waitFor();
      await page.getByText(/^The account .* has sent nothing yet$/).waitFor();
      t.strictSame(await barriersInBoth(page), []);
      await page.getByRole('link', { name: 'Show whose' }).click();
      await page.waitForURL('**/emails?accounts=all&status=failed&time=24h');
      await settle(-10, -30);
      for (const [path, panel, words] of [
        ['admin/emails', 'All accounts', 'This could not be loaded'],
        ['admin/accounts', 'All accounts', 'Accepted'],
        ['emails', 'What needs attention', 'This could not be loaded'],
      ] as const) {
        const calls = `**/api/v1/${path}?*`;
        await page.route(calls, (route) => route.fulfill({ status: 400, json: { error: 'not now' } }));
        await page.goto(`${node.baseUrl}/overview`);
        const shown = page.locator('.panel').filter({ has: page.getByRole('heading', { name: panel }) });
        await shown.getByText(words, { exact: true }).waitFor({ timeout: 20_000 });
        t.equal(
          await shown.getByText('Nothing: domains are in order').count(),
          0,
          `${path}: and nothing is said that is not known`,
        );
        await page.unroute(calls);
      }
      const answered = Promise.withResolvers<void>();
      await page.route('**/api/v1/admin/emails?*', (route) => answered.promise.then(() => route.continue()));
      await page.goto(`${node.baseUrl}/overview`);
      const all = page.locator('.panel').filter({ has: page.getByRole('heading', { name: 'All accounts' }) });
      const unknown = all.getByText('…', { exact: true });
      await unknown.first().waitFor({ timeout: 20_000 });
      const box = await all.boundingBox();
      answered.resolve();
      await unknown.first().waitFor({ state: 'detached' });
      t.same(await all.boundingBox(), box, 'nothing below moves once the numbers are known');
    },
  );

  t.test('while nothing is sent each page says so, since when, how much waits, and what ends it', async (t) => {
    const login = { email: 'admin@example.test', password: node.adminPassword };
    const { body: session } = await node.call('POST', '/api/v1/session', { body: login });
    t.equal(session.service.on_hold_since, since);
    await node.call('POST', '/api/v1/emails', { key: node.key, body: { ...body, from: 'a@example.test' } });
    const { page, complaints } = await view(t, node, '/overview');
    await page.getByRole('heading', { name: 'What needs attention' }).waitFor();
    t.match(
      await page.locator('.concerns li').first().textContent(),
      /^nowNothing has been sent since .* is on hold\./,
    );
    await go(page, '/settings');
    const banner = page.getByRole('region', { name: 'The service is on hold' });
    await banner.getByRole('link', { name: '2 emails are queued' }).waitFor();
    t.match(await banner.textContent(), /release --waiting fail.*release --waiting send/);
    t.strictSame(complaints, []);
  });

  t.test('a member hears of it, and not how it is ended', async (t) => {
    const { page, complaints } = await view(t, node, '/overview', { loggedIn: false });
    await logIn(page, shop.account.email, shop.account.password);
    await page.getByText('until its operators end it').waitFor();
    t.equal(await page.getByText('release --waiting').count(), 0);
    t.equal(await page.getByRole('link', { name: 'Before going live' }).count(), 0);
    for (const path of ['/accounts?new=1', '/destinations', '/doctor']) await go(page, path, 'No such page');
    t.strictSame(complaints, [], 'and what is for operators is not asked for');
  });

  t.test('emails of other accounts are listed and not opened', async (t) => {
    const { page } = await view(t, node, '/emails?accounts=all');
    await page
      .getByRole('row', { name: /Of the shop/ })
      .first()
      .waitFor();
    await page.getByText('their own users can open them').waitFor();
    const { emails } = (await node.call('GET', '/api/v1/emails', { key: node.key })).body;
    const links = await page.evaluate(
      "[...document.querySelectorAll('tbody a')].map((one) => one.getAttribute('href'))",
    );
    t.strictSame(
      links,
      emails.map(({ id }: { id: string }) => `/emails/${id}`),
      'their own are',
    );
    t.equal(await page.locator('tbody tr').count(), 2);
    const [pill, words] = await page.evaluate<number[]>(`['.status', 'td:last-child > *'].map((one) => {
      const { top, bottom } = document.querySelector('tbody tr ' + one).getBoundingClientRect();
      return (top + bottom) / 2;
    })`);
    t.ok(
      Math.abs((pill ?? 0) - (words ?? 0)) < 1,
      `the status is in line with the words beside it: ${pill} and ${words}`,
    );
  });

  t.test('what one account sends is one press away from the accounts', async (t) => {
    const { page, complaints } = await view(t, node, '/accounts');
    const { name } = await node.db.prisma.account.findUniqueOrThrow({ where: { id: shop.account.id } });
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByText('1 email', { exact: true }).waitFor();
    await page.getByRole('row', { name: /Of the shop/ }).waitFor();
    const accounts = page.getByLabel('Accounts', { exact: true });
    // Asked for by itself: until that is answered the account's id stands there.
    await eventually(async () => (await accounts.locator('option:checked').textContent()) === name);
    await accounts.selectOption('All accounts');
    await page.getByText('2 emails', { exact: true }).waitFor();
    const { body: idle } = await node.call('POST', '/api/v1/admin/accounts', {
      token: (
        await node.call('POST', '/api/v1/auth/login', {
          body: { email: 'admin@example.test', password: node.adminPassword },
        })
      ).body.token,
      body: { name: 'W'.repeat(100), email: 'idle@accounts.test' },
    });
    await go(page, `/emails?accounts=${idle.account.id}`, 'W'.repeat(100));
    await page.getByText('This account has sent nothing.').waitFor({ timeout: 20_000 });
    t.ok(((await accounts.boundingBox())?.width ?? 0) < 300, 'a long name leaves the page its head');
    t.strictSame(complaints, []);
  });

  t.test('the accounts that send the most come first if they ask for it', async (t) => {
    await node.db.query({
      text: `INSERT INTO email_count_changes (facet, account_id, hour, status, type, emails)
             VALUES ('', $1, date_trunc('hour', now()), 'sent', 'transactional', 4321)`,
      values: [shop.account.id],
    });
    const { name } = await node.db.prisma.account.findUniqueOrThrow({ where: { id: shop.account.id } });
    const { page, complaints } = await view(t, node, '/accounts');
    const first = page.locator('tbody tr').first();
    await page.getByRole('row', { name: /W{100}/ }).waitFor();
    t.notMatch(await first.textContent(), name);
    await page.getByLabel('Order').selectOption('Most emails this month first');
    await first
      .filter({ hasText: name })
      .filter({ hasText: /4,3\d\d/ })
      .waitFor({ timeout: 20_000 });
    t.match(page.url(), /[?]sort=usage$/);
    t.strictSame(complaints, []);
  });

  t.test('that webhooks of others fail is said, and whose they are is found', async (t) => {
    const webhook = { accountId: shop.account.id, url: 'https://a.test/', events: [], secret: Buffer.of(0) };
    const disabled = { ...webhook, status: 'disabled', disabledReason: 'the endpoint answered 410 Gone' } as const;
    await node.db.prisma.webhook.create({ data: { id: newId(), ...disabled } });
    await node.db.prisma.webhook.create({ data: { id: newId(), ...webhook, failingSince: new Date() } });
    const { page, complaints } = await view(t, node, '/overview');
    const concern = page.locator('.concerns li').filter({ hasText: 'Another account has webhooks that fail' });
    await concern.getByRole('link', { name: 'Show whose' }).click();
    await page.waitForURL('**/accounts?webhooks=failing');
    await page.getByText('1 account', { exact: true }).waitFor();
    const { name } = await node.db.prisma.account.findUniqueOrThrow({ where: { id: shop.account.id } });
    await page.getByRole('row', { name: `${name} 2 webhooks fail` }).waitFor();
    t.strictSame(await barriersInBoth(page), []);
    await page.setViewportSize({ width: 390, height: 844 });
    const search = await page.getByLabel('Name or user’s email').boundingBox();
    t.ok((search?.width ?? 0) > 300, `on a phone one can read what to search for, in ${search?.width} px`);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByLabel('Webhooks').selectOption('All accounts');
    await page.getByText(/^([2-9]|[0-9]{2}) accounts$/).waitFor();
    await node.db.prisma.webhook.deleteMany();
    await page.getByLabel('Webhooks').selectOption('Those whose webhooks fail');
    await lookAgain(page, '/api/v1/admin/accounts');
    await page.getByText('All webhooks answer').waitFor({ timeout: 20_000 });
    t.strictSame(complaints, []);
  });

  t.test('a member sees when the plan is nearly used up, and then that it is', async (t) => {
    await dayLasting(60_000);
    const small = await buildSender(node.db, encryptionKey);
    const use = (today: number, thisMonth = today) =>
      node.db.query({
        text: `UPDATE accounts SET plan = 'free', usage_day = (now() AT TIME ZONE 'UTC')::date, usage_day_count = $2,
                      usage_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date, usage_month_count = $3 WHERE id = $1`,
        values: [small.account.id, today, thisMonth],
      });
    await use(91);
    const mail = { from: `a@${small.domain}`, to: 'a@anywhere.test', subject: 's', text: 't' };
    t.equal((await node.call('POST', '/api/v1/emails', { key: small.key, body: mail })).status, 200);
    const { page, complaints } = await view(t, node, '/overview', { loggedIn: false });
    await logIn(page, small.account.email, small.account.password);
    const concerns = page.locator('.concerns li').filter({ hasText: 'plan free' });
    await concerns.first().waitFor();
    t.match(await concerns.allTextContents(), [
      /^soonThe plan free allows 8 more emails today [(]UTC[)], after 92[.] The op/,
    ]);
    await use(95, 2_800);
    await lookAgain(page);
    await concerns.filter({ hasText: 'The plan free allows 200 more emails this month (UTC), after 2,800.' }).waitFor();
    // What is refused now counts more than what may be refused later.
    await use(100, 2_805);
    await lookAgain(page);
    const refused = concerns.filter({
      hasText: 'Your emails are refused until tomorrow (UTC): the 100 of today use up',
    });
    await refused.getByRole('link', { name: 'Show what was sent' }).waitFor();
    t.equal(await concerns.locator('.status').textContent(), 'now');
    t.strictSame(complaints, []);
  });

  t.test('during an upgrade a node of the previous release may answer, which does not say all that', async (t) => {
    const { page, complaints } = await view(t, node, '/settings');
    await page.route('**/api/v1/session', async (route) => {
      const response = await route.fetch();
      const { account, service, ...rest } = await response.json();
      const { usage, left, ...older } = account;
      const { delivers, ...before } = service;
      await route.fulfill({ json: { ...rest, account: older, service: { ...before, on_hold_since: null } } });
    });
    await lookAgain(page);
    await page.getByRole('region', { name: 'on hold' }).waitFor({ state: 'detached' });
    await go(page, '/overview');
    await page.getByRole('heading', { name: 'What needs attention' }).waitFor();
    t.equal(await page.getByText('Nothing is sent').count(), 0);
    t.strictSame(complaints, []);
  });

  t.test('an account whose mail fails is named, also where that of others goes out', async (t) => {
    const storm = await buildSender(node.db, encryptionKey);
    const to = Array.from({ length: 20 }, (_, place) => ({
      from: `a@${storm.domain}`,
      to: `a${place}@gone.test`,
      subject: 's',
      text: 't',
    }));
    t.equal((await node.call('POST', '/api/v1/emails/batch', { key: storm.key, body: { emails: to } })).status, 200);
    await node.db.query({
      text: `UPDATE emails SET status = 'failed', failed = 1, pending = 0 WHERE account_id = $1`,
      values: [storm.account.id],
    });
    const { name } = await node.db.prisma.account.findUniqueOrThrow({ where: { id: storm.account.id } });
    const { page, complaints } = await view(t, node, '/overview');
    const concern = page
      .locator('.concerns li')
      .filter({ hasText: `100 % of the emails of the account ${name} failed.` });
    await concern.getByRole('link', { name: 'Show them' }).click({ timeout: 20_000 });
    await page.waitForURL(`**/emails?accounts=${storm.account.id}&status=failed&time=24h`);
    await page.getByText('20 emails', { exact: true }).waitFor();
    await go(page, '/overview');
    await concern.getByRole('link', { name: 'Show the account' }).click();
    await page.getByText('1 account', { exact: true }).waitFor();
    t.equal(await page.getByRole('button', { name: `Suspend ${name}` }).count(), 1, 'where it can be stopped');
    t.strictSame(complaints, []);
  });

  t.test('while no mail can be stored that comes first, and until it can be again', async (t) => {
    const { page, complaints } = await view(t, node, '/overview');
    const refused = page.locator('.concerns li').filter({ hasText: 'Mail is refused' });
    const full = `DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`;
    // As a write on a full disk would answer, for as long as there are such writes.
    const isSeen = () =>
      eventually(async () => {
        await node.db.query({ text: full }).catch(() => undefined);
        await page.waitForTimeout(1_000);
        return (await refused.count()) > 0;
      });
    await isSeen();
    t.match(await page.locator('.concerns li').first().textContent(), /^nowMail is refused .* disk space/);
    await refused.waitFor({ state: 'detached', timeout: 60_000 });
    await page.goto('about:blank');
    await page.goBack();
    await isSeen();
    await refused.getByRole('link', { name: 'Check the server' }).click();
    await page.waitForURL('**/doctor');
    t.strictSame(complaints, []);
  });

  t.test('what soon stops mail is said to operators who did not ask', async (t) => {
    const { page, complaints } = await view(t, node, '/overview');
    const concerns = page.locator('.concerns li');
    const expiring = concerns.filter({ hasText: `The server's smtp certificate, ${cert}: It expires on` });
    await concerns.first().waitFor();
    const examined = '/api/v1/admin/doctor';
    await lookAgain(page, examined);
    t.equal(await expiring.count(), 0);
    await certify(0.1);
    await lookAgain(page, examined);
    await expiring.waitFor();
    t.match(await expiring.textContent(), /^now.* Renew it: the service shows.* Check the server$/);
    t.strictSame(await barriersInBoth(page), []);
    await certify(20);
    await lookAgain(page, examined);
    await expiring.waitFor({ state: 'detached' });
    t.strictSame(complaints, []);
  });

  t.test('before going live they are told what is wrong and what to do, to pass on as text', async (t) => {
    const { page, context, complaints } = await view(t, node, '/doctor');
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByText('Not checked yet').waitFor();
    await page.getByRole('button', { name: 'Check now' }).click();
    const first = page.locator('.concerns li').first();
    await first.waitFor();
    t.match(await first.textContent(), /^problemdelivery mode sandboxNo mail leaves this machine\.→ To send mail, set/);
    t.match(await page.locator('.concerns').textContent(), /okclock/);
    await page.getByRole('button', { name: 'Copy all of it' }).click();
    const copied = await eventually(() =>
      page.evaluate<string | false>("navigator.clipboard.readText().then((text) => text !== '' && text)"),
    );
    t.match(copied, /^problem: delivery mode, sandbox: No mail leaves this machine\.\n {2}-> To send mail, set/);
    t.strictSame(complaints, []);
  });

  t.test('what is to be pasted is copied on pages by http as well, which have no clipboard', async (t) => {
    const { page, context, complaints } = await view(t, node, '/settings');
    await context.grantPermissions([]);
    await page.evaluate('void Object.defineProperty(navigator, "clipboard", { value: undefined })');
    await go(page, '/domains');
    await page.getByRole('link', { name: 'example.test' }).click();
    const copy = page.getByRole('button', { name: 'Copy the value' }).first();
    await copy.click();
    await page.getByRole('tooltip', { name: 'Copied' }).waitFor();
    t.equal(await page.evaluate('document.activeElement.getAttribute("aria-label")'), 'Copy the value');
    t.equal(await page.locator('textarea').count(), 0);
    await go(page, '/suppressions');
    const search = page.getByRole('textbox').first();
    await search.focus();
    await page.keyboard.press('Control+V');
    t.match(await search.inputValue(), /^v=DKIM1|^v=spf1|^sendwright/);
    // A page that may not copy at all.
    await go(page, '/domains');
    await page.getByRole('link', { name: 'example.test' }).click();
    await page.evaluate('document.execCommand = () => false');
    await page.getByRole('button', { name: 'Copy the value' }).first().click();
    await page.getByText('does not let this page copy').waitFor();
    t.strictSame(complaints, []);
  });

  t.test('when the hold is over it says no more', async (t) => {
    await node.db.query({ text: 'DELETE FROM service_hold' });
    const { page } = await view(t, node, '/overview');
    await page.getByRole('heading', { name: 'What needs attention' }).waitFor();
    t.equal(await page.getByText('on hold').count(), 0);
    // Here nothing but the API runs.
    await page.getByText('Nothing is sent: no process that delivers mail is running').waitFor();
  });
});
