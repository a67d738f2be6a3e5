import type { Page, Route } from 'playwright-core';
import t from 'tap';
import { crashedNote, heldNote } from '../../src/core/recipients/waiting-for.ts';
import { newId } from '../../src/ids.ts';
import { adminPassword, eventually } from '../support/node.ts';
import { barriers, barriersInBoth, go, inBrowser, logIn, lookAgain, startDashboard, view, whole } from './browser.ts';

/** Of what is shown: how wide it would be, how wide it is, and how high. */
const sizes = (shown: object) => {
  const { scrollWidth = 0, clientWidth = 0, clientHeight = 0 } = shown as Record<string, number>;
  return { needs: scrollWidth, has: clientWidth, height: clientHeight };
};

t.test('at night, when something is wrong', inBrowser, async (t) => {
  // Nothing is delivered here: what waits stays as it is.
  const node = await startDashboard(t, { ROLES: 'api' });
  const send = async (fields: object) => {
    const body = { from: 'a@example.test', subject: 'Your order', text: 't', ...fields };
    return (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body.email;
  };
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const other = newId();
  // One that delivers, and was seen just now for as long as this takes.
  await node.db.query({
    text: `INSERT INTO nodes (id, hostname, roles, seen_at) VALUES ($1, 'other', '{mta}', now() + interval '1 hour')`,
    values: [other],
  });
  const suppress = (address: string, reason: string) =>
    node.call('POST', '/api/v1/suppressions', { token, body: { address, reason } });
  const reply = `451 4.7.650 The mail server has been rate limited. ${'For information see https://postmaster.test. '.repeat(4)}`;
  const report = (
    site: string,
    { backingOff = false, reason = null as string | null, success = null as string | null } = {},
  ) =>
    node.db.query({
      text: `INSERT INTO destination_reports (node_id, site, destinations, running, waiting, connections, most_connections, backoff_until, reason, last_reply, last_success_at)
             SELECT $6::uuid, $1, ARRAY[$1], 0, 1, 1, 1, CASE WHEN $2 THEN now() + interval '1 hour' END, $3, $4, now() - $5::interval`,
      values: [site, backingOff, reason, reply, success, other],
    });
  const putOff = (destinations: string[], waitingFor: string) =>
    node.db.query({
      text: `UPDATE recipients SET next_attempt_at = now() + interval '1 hour', job_id = NULL, attempts = 1, waiting_for = $2
              WHERE destination = ANY ($1)`,
      values: [destinations, waitingFor],
    });

  t.test('what a leaked key has sent is found, and what of it waits is stopped', async (t) => {
    const made = await node.call('POST', '/api/v1/keys', { token, body: { name: 'leaked one' } });
    const spam = { from: 'a@example.test', to: 'a@spam.test', subject: 'You win', text: 't' };
    const sendIt = (fields: object = {}) =>
      node.call('POST', '/api/v1/emails', { key: made.body.key, body: { ...spam, ...fields } });
    await sendIt();
    await sendIt({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() });
    const own = await send({ to: 'a@own.test' });
    const { page, complaints } = await view(t, node, '/keys');
    await page.getByRole('link', { name: 'Emails sent with leaked one' }).click();
    await page.getByText('2 emails', { exact: true }).waitFor();
    t.equal(await page.getByLabel('API key').inputValue(), made.body.api_key.id);
    t.equal(await page.getByRole('button', { name: 'Stop all' }).count(), 0, 'only of what is queued');
    await page.getByLabel('Status').selectOption('queued');
    await page.getByRole('button', { name: 'Stop all' }).click();
    await page.getByRole('dialog').getByText('that match the filters (2)').waitFor();
    t.strictSame(await barriers(page), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Stop all' }).click();
    await page.getByText('1 recipient is given up, 1 scheduled email is canceled.').waitFor();
    await page.getByText('0 emails', { exact: true }).waitFor();
    t.equal((await node.call('GET', `/api/v1/emails/${own.id}`, { key: node.key })).body.email.status, 'queued');
    await page.getByLabel('Status').selectOption('');
    await page.getByText('2 emails', { exact: true }).waitFor();
    await page.locator('tbody a').first().click();
    const sentWith = page.getByRole('link', { name: 'leaked one' });
    await sentWith.waitFor();
    t.match(await sentWith.getAttribute('href'), new RegExp(`/emails\\?key=${made.body.api_key.id}$`));
    t.strictSame(complaints, []);
    await node.db.query({ text: 'DELETE FROM emails' });
    await node.db.query({ text: 'DELETE FROM recipients' });
  });

  t.test('who gets no mail is named with how much waits, also between two tries', async (t) => {
    const small = ['one', 'two', 'three', 'four', 'five'].map((name) => `${name}.test`);
    await send({ to: ['a@later.test', 'b@later.test', 'c@later.test'] });
    await send({ to: ['a@silent.test', 'b@silent.test'] });
    await send({ to: ['a@held.test', 'a@crashed.test'] });
    await send({ to: [...small, 'taking.test'].map((domain) => `a@${domain}`) });
    await report('later.test', { backingOff: true, reason: 'the server wants less mail at a time' });
    await report('empty.test', { backingOff: true, reason: 'the server could not be reached' });
    await report('silent.test');
    await report('held.test');
    await report('crashed.test');
    await report('taking.test', { success: '1 minute' });
    for (const site of small) await report(site, { success: '1 hour' });
    await putOff(['later.test'], 'later.test: the server wants less mail at a time');
    await putOff(['silent.test', ...small], 'silent.test: the server could not be reached');
    await putOff(['held.test'], heldNote);
    await putOff(['crashed.test'], crashedNote);
    await putOff(['taking.test'], 'taking.test: so many connections are open already');
    const { page, complaints } = await view(t, node, '/overview');
    await whole(page, 'recipients waiting');
    const said = await page.locator('.concerns li').allTextContents();
    t.strictSame(said.slice(0, 2), [
      'nowlater.test gets nothing for now, 3 recipients waiting: the server wants less mail at a time. Show it',
      'nowsilent.test has accepted nothing for a while, 2 recipients waiting: the server could not be reached. Show it',
    ]);
    t.match(said[2], /^now\w+[.]test has accepted nothing since \w+ \d+, \d+, .*, 1 recipient waiting: /);
    t.equal(said[5], 'now2 more destinations get nothing. Show all');
    t.notMatch(said.join(), /taking[.]test|empty[.]test|held[.]test|crashed[.]test/);
    await page.setViewportSize({ width: 390, height: 844 });
    const [concerns, volume, tiles, last] = await page.evaluate<number[]>(`[
      ...['What needs attention', 'Volume'].map((title) =>
        [...document.querySelectorAll('h2')].find((one) => one.textContent === title).getBoundingClientRect().top),
      ...['.tiles', '.tile:last-child'].map((one) => Math.round(document.querySelector(one).getBoundingClientRect().right)),
    ]`);
    t.ok((concerns ?? 0) < (volume ?? 0), 'on a phone that is seen before the lines');
    t.ok((tiles ?? 0) - (last ?? 0) <= 1, 'there is no hole among the numbers');
    await page.getByRole('link', { name: /^Failed/ }).click();
    await page.waitForURL('**/emails?status=failed&time=24h');
    // In this page alone: no hour begins between the two questions.
    await page.evaluate('void (Date.now = ((now) => () => now)(Date.now()))');
    for (const [range, time] of Object.entries({ week: '7d', month: '30d' })) {
      const counted = page.waitForRequest(/[/]stats[?]/);
      const grouped = page.waitForRequest(/[/]stats[?].*group_by=provider/);
      await go(page, `/overview?range=${range}`, 'of those settled');
      t.match((await grouped).url(), /[?&]interval=day(&|$)/, 'providers have one number for all hours of a day');
      const { searchParams } = new URL((await counted).url());
      const listed = page.waitForRequest(/[/]emails[?].*created_after/);
      await page.getByRole('link', { name: /^Accepted/ }).click();
      await page.waitForURL(`**/emails?time=${time}`);
      const { searchParams: sought } = new URL((await listed).url());
      t.equal(sought.get('created_after'), searchParams.get('from'), `${time}: what is counted is listed`);
    }
    t.strictSame(complaints, []);
  });

  t.test('who refuses all mail is named, although nothing waits there', async (t) => {
    const said = `550 5.7.1 Our system has detected that this message is likely unsolicited mail`;
    const judged = async (site: string, words: string, arrived: string) => {
      await report(site, { success: '1 minute' });
      await node.db.query({
        text: 'UPDATE destination_reports SET last_reply = $2 WHERE site = $1',
        values: [site, words],
      });
      await node.db.query({
        text: 'INSERT INTO destination_deliveries VALUES ($1, now() - $2::interval)',
        values: [site, arrived],
      });
    };
    await judged('refusing.test', said, '3 hours');
    await judged('unknown-user.test', '550 5.1.1 no such user', '3 hours');
    await judged('one-refused.test', said, '2 minutes');
    await judged('seldom.test', said, '3 days');
    // More sites than any page of the list has, which stand before it.
    await node.db.query({
      text: `INSERT INTO destination_reports (node_id, site, destinations, running, waiting, connections, most_connections, last_success_at)
             SELECT $1, site, ARRAY[site], 0, 0, 1, 1, now() FROM generate_series(1, 120) n, concat('fine', n, '.test') AS site`,
      values: [other],
    });
    const { page, complaints } = await view(t, node, '/overview');
    const refusals = page.locator('.concerns li').filter({ hasText: 'refuses our mail' });
    await refusals.first().waitFor({ timeout: 20_000 });
    t.match(await refusals.allTextContents(), [
      /^nowrefusing[.]test refuses our mail, and has accepted none since .*: 550 5[.]7[.]1 Our .* Show it$/,
      // One email of a server that seldom gets any is no reason to get up at night.
      /^soonseldom[.]test refuses our mail, /,
    ]);
    t.equal(await refusals.count(), 2, 'not for one recipient who does not exist, nor for one email among others');
    for (const n of [1, 2, 3, 4, 5]) await judged(`too${n}.test`, said, '3 hours');
    await lookAgain(page, '/api/v1/admin/destinations');
    await page.getByText('2 more destinations refuse our mail.').waitFor({ timeout: 20_000 });
    await page.getByRole('link', { name: 'Show all that refuse it' }).click();
    await page.waitForURL('**/destinations?now=refusing');
    await page.getByText('7 destinations', { exact: true }).waitFor();
    await page.getByRole('row', { name: /^seldom[.]test / }).waitFor();
    t.equal(await page.getByLabel('Now').locator('option:checked').textContent(), 'refusing our mail');
    await node.db.query({ text: `DELETE FROM destination_reports WHERE site ~ '^too[0-9][.]test$'` });
    await go(page, '/overview');
    await refusals.first().getByRole('link', { name: 'Show it' }).click();
    const row = page.getByRole('row', { name: /^refusing[.]test .*mail last arrived 3 h ago/ });
    await row.waitFor({ timeout: 20_000 });
    const { needs, has } = await row.getByText('550 5.7.1').evaluate(sizes);
    t.ok(needs <= has, `what it said is not cut: ${needs} px in ${has}`);
    await node.db.query({
      text: `DELETE FROM destination_reports WHERE site ~ '^(refusing|unknown-user|one-refused|seldom|fine[0-9]+)[.]test$'`,
    });
    t.strictSame(complaints, []);
  });

  t.test('what it said last is read without a pointer, and what waits is not green', async (t) => {
    const { page } = await view(t, node, '/destinations');
    const row = page.getByRole('row', { name: /^silent[.]test/ });
    await row.waitFor();
    t.equal(await row.locator('.status').getAttribute('data-tone'), 'mute');
    const taking = page.getByRole('row', { name: /^taking[.]test/ });
    t.equal(await taking.locator('.status').getAttribute('data-tone'), 'good');
    const { emails } = (await node.call('GET', '/api/v1/emails?to=a@silent.test', { key: node.key })).body;
    await go(page, `/emails/${emails[0].id}`, 'under Destinations');
    await page.getByRole('link', { name: 'Show the destination' }).first().click();
    await page.waitForURL('**/destinations?q=silent.test');
    await go(page, '/destinations');
    await page.getByRole('row', { name: /^one[.]test .*last settled mail 1 h ago · / }).waitFor({ timeout: 20_000 });
    await send({ to: ['a@unknown.test'] });
    await page.getByRole('row', { name: /^unknown[.]test open 1 0 – / }).waitFor({ timeout: 20_000 });
    t.notMatch(await taking.textContent(), /last settled/, 'where mail goes that is no question');
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 844 });
      const words = row.getByText('451 4.7.650');
      const { needs, has, height } = await words.evaluate(sizes);
      t.ok(needs <= has && height > 50, `${width}: ${needs} px in ${has}, ${height} high`);
    }
    const { height } = (await row.getByRole('button', { name: 'Pause' }).boundingBox()) ?? { height: 0 };
    t.ok(height >= 32, 'a button on a phone has room for a finger');
  });

  t.test('mail for a domain that is gone is given up, for all accounts', async (t) => {
    await send({ to: ['a@gone.test', 'b@gone.test', 'a@typo.test'] });
    await putOff(['gone.test'], 'gone.test: the server could not be reached');
    await node.db.query({
      text: `INSERT INTO destination_reports (node_id, site, destinations, running, waiting, connections, most_connections)
             SELECT $1::uuid, 'Parked', ARRAY['gone.test', 'typo.test'], 0, 1, 1, 1`,
      values: [other],
    });
    const { page, complaints } = await view(t, node, '/destinations?q=Parked');
    const open = page.getByRole('button', { name: 'Give up what waits for Parked' });
    await open.click();
    const dialog = page.getByRole('dialog', { name: 'Give up what waits?' });
    await dialog.locator('select:focus').waitFor();
    t.equal(await dialog.getByLabel('Domain').inputValue(), '', 'of several none is given up unless it is chosen');
    t.ok(await dialog.locator('button[type=submit]').isDisabled());
    await dialog.getByLabel('Domain').selectOption('gone.test');
    await dialog.getByText(/^2 recipients at gone[.]test, of all accounts, will fail for good/).waitFor();
    t.strictSame(await barriersInBoth(page), []);
    await dialog.getByLabel('Domain').selectOption('typo.test');
    await dialog.getByRole('button', { name: 'Give up 1' }).waitFor();
    await dialog.getByLabel('Domain').selectOption('gone.test');
    await dialog.getByLabel('Reason, for the senders').fill('the domain is gone');
    await dialog.getByRole('button', { name: 'Give up 2' }).click();
    await page.getByText('2 recipients are given up.').waitFor();
    await dialog.waitFor({ state: 'detached' });
    const { emails } = (await node.call('GET', '/api/v1/emails?to=b@gone.test', { key: node.key })).body;
    await go(page, `/emails/${emails[0].id}`, 'as an operator decided for all mail to gone.test: the domain is gone');
    t.strictSame(complaints, []);
  });

  t.test('what takes several calls is shown as under way, and asks before its tab is closed', async (t) => {
    await send({ to: ['a@many.test', 'b@many.test'], tags: ['many'] });
    await putOff(['many.test'], 'many.test: the server could not be reached');
    const focusedIn = (page: Page) => page.evaluate('document.activeElement.closest("[role=dialog], main")?.tagName');
    for (const { path, name, call, first, words, done } of [
      {
        path: '/destinations?q=many.test',
        name: 'Give up',
        call: '**/api/v1/admin/destinations/many.test/stop',
        first: { domain: 'many.test', stopped: 7, in_hand: 0, held: 0, rest_waits: true },
        words: 'Recipients left: 2.',
        done: '9 recipients are given up.',
      },
      {
        path: '/emails?status=queued&tag=many',
        name: 'Stop all',
        call: '**/api/v1/emails/stop',
        first: { stopped: 7, canceled: 0, in_hand: 0, held: 0, rest_waits: true },
        words: 'Emails left: 1.',
        done: '9 recipients are given up, 0 scheduled emails are canceled.',
      },
    ]) {
      await putOff(['many.test'], 'many.test: the server could not be reached');
      const { page, complaints } = await view(t, node, path);
      let goOn: (() => void) | undefined;
      let calls = 0;
      await page.route(call, async (route) => {
        calls += 1;
        if (calls === 1) return route.fulfill({ json: first });
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
        const last = { ...first, stopped: 2, rest_waits: false };
        await (name === 'Stop all' ? route.continue() : route.fulfill({ json: last }));
      });
      const open = page.getByRole('button', { name }).first();
      await open.focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByText('for good').waitFor();
      await dialog.getByRole('button', { name }).focus();
      await page.keyboard.press('Enter');
      await dialog.getByText(words).waitFor();
      await eventually(async () => goOn !== undefined);
      t.equal(await focusedIn(page), 'SECTION', `${name}: the focus does not fall out of the dialog`);
      await page.keyboard.press('Tab');
      t.equal(await focusedIn(page), 'SECTION', `${name}: nor does the next key lead behind it`);
      t.equal(await dialog.getByRole('button', { name: 'No', exact: true }).count(), 0, 'it is too late for that');
      t.strictSame(await barriers(page), []);
      const closing = page.waitForEvent('dialog');
      await page.close({ runBeforeUnload: true });
      const asked = await closing;
      t.equal(asked.type(), 'beforeunload');
      await asked.dismiss();
      goOn?.();
      await page.getByText(done).waitFor();
      await dialog.waitFor({ state: 'detached' });
      if (name === 'Stop all') {
        await open.waitFor({ state: 'detached' });
        await eventually(async () => (await focusedIn(page)) === 'MAIN');
      }
      t.strictSame(complaints, []);
    }
  });

  t.test('what several calls have not finished is said until somebody has seen it', async (t) => {
    await send({ to: 'a@half.test', tags: ['half'] });
    await putOff(['half.test'], 'half.test: the server could not be reached');
    const first = { stopped: 7, canceled: 0, in_hand: 0, held: 0, rest_waits: true };
    const begin = async (rest: (route: Route, page: Page) => Promise<void>) => {
      const { page } = await view(t, node, '/emails?status=queued&tag=half', { loggedIn: false });
      await logIn(page, 'admin@example.test', adminPassword);
      await page.clock.install();
      let calls = 0;
      await page.route('**/api/v1/emails/stop', async (route) => {
        calls += 1;
        await (calls === 1 ? route.fulfill({ json: first }) : rest(route, page));
      });
      await page.getByRole('button', { name: 'Stop all' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Stop all' }).click();
      return page;
    };

    const cut = await begin((route) => route.abort());
    const alert = cut.getByText('Not all is stopped: press “Stop all” again.');
    await alert.waitFor();
    t.match(await alert.textContent(), 'The server does not answer.');
    await cut.clock.runFor(60_000);
    t.equal(await alert.count(), 1, 'also to who looks a minute later');

    // The login page takes the place of the dialog, which another question may have brought before this one fails.
    const ended = await begin(async (route, page) => {
      await page.context().clearCookies();
      await lookAgain(page);
      await page.getByText('Your login has ended').waitFor();
      await route.continue();
    });
    await ended.getByText('Not all is stopped: press “Stop all” again.').waitFor();
    await logIn(ended, 'admin@example.test', adminPassword);
    await ended.getByRole('button', { name: 'Stop all' }).waitFor();

    const left = await begin(async (route, page) => {
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByRole('heading', { name: 'Log in to Sendwright' }).waitFor();
      await route.continue();
    });
    await left.getByText('Not all is stopped: press “Stop all” again.').waitFor();
    t.equal(await left.getByText('Your login has ended').count(), 0, 'who logs out knows that');
  });

  t.test('a button of a dialog whose work fails has the keyboard again', async (t) => {
    await send({ to: ['a@again.test'] });
    await putOff(['again.test'], 'again.test: the server could not be reached');
    const { page } = await view(t, node, '/destinations?q=again.test');
    const failing: (() => void)[] = [];
    await page.route('**/api/v1/admin/destinations/again.test/stop', async (route) => {
      await new Promise<void>((resolve) => {
        failing.push(resolve);
      });
      await route.fulfill({ status: 409, json: { error: 'conflict' } });
    });
    await page.getByRole('button', { name: 'Give up' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('for good').waitFor();
    for (const attempt of [1, 2]) {
      if (attempt === 1) await dialog.getByRole('button', { name: 'Give up' }).focus();
      await page.keyboard.press('Enter');
      await eventually(async () => failing.length === attempt);
      await dialog.locator('div[tabindex="-1"]:focus').waitFor();
      failing[attempt - 1]?.();
      await dialog.locator('button:focus', { hasText: 'Give up' }).waitFor();
    }
  });

  t.test('why somebody gets no mail is said where their emails are looked for', async (t) => {
    await suppress('maria@anywhere.test', 'complaint');
    await suppress('also-maria@anywhere.test', 'bounce');
    await suppress('reader@anywhere.test', 'unsubscribe');
    const email = await send({ to: ['maria@anywhere.test', 'other@anywhere.test'] });
    const { page, complaints } = await view(t, node, '/emails?to=Maria@anywhere.test');
    const line = page.locator('.on-the-list');
    await line.waitFor();
    t.match(
      await line.textContent(),
      /^complaint maria@anywhere.test has been on the suppression list for \d+ \w+, which stops all/,
    );
    t.strictSame(await barriersInBoth(page), []);
    await go(page, '/emails?to=reader@anywhere.test', 'which stops marketing');
    await go(page, '/emails?to=other@anywhere.test', '1 email');
    t.equal(await line.count(), 0);
    await go(page, `/emails/${email.id}`, 'has been on the suppression list for');
    t.equal(await line.count(), 1, 'of those who get it nothing is said');
    await line.getByRole('link', { name: 'Show it there' }).click();
    await page.getByRole('row', { name: /^maria@anywhere[.]test complaint all mail/ }).waitFor();
    t.strictSame(complaints, []);
  });

  t.test('what is scheduled is called so on its page too, and what is due is not past', async (t) => {
    const later = await send({ to: 'a@anywhere.test', scheduled_at: new Date(Date.now() + 3_600_000).toISOString() });
    const { page } = await view(t, node, `/emails/${later.id}`);
    await page.getByText('Waits for its scheduled time').first().waitFor();
    t.equal(await page.locator('.page-head .status').textContent(), 'scheduled');
    await page.getByRole('button', { name: 'Change the time' }).click();
    const dialog = page.getByRole('dialog');
    const time = dialog.getByLabel('Send it at');
    t.ok(Math.abs(Date.parse(await time.inputValue()) - Date.parse(later.scheduled_at)) < 60_000, 'as it is now');
    await time.fill('2020-02-29T09:30');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('is in the past').waitFor();
    t.strictSame(await barriers(page), []);
    const tomorrow = new Date(Date.now() + 86_400_000);
    tomorrow.setHours(9, 30, 0, 0);
    await time.fill(`${tomorrow.toLocaleDateString('sv')}T09:30`);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    const { body } = await node.call('GET', `/api/v1/emails/${later.id}`, { key: node.key });
    t.equal(body.email.scheduled_at, tomorrow.toISOString());
    const due = await send({ to: 'a@anywhere.test' });
    await go(page, `/emails/${due.id}`, 'next try due');
  });

  t.test('a warning leaves the name of the domain to be read', async (t) => {
    const domain = 'newsletter.of-a-shop.example';
    await node.call('POST', '/api/v1/domains', { token, body: { domain } });
    await node.db.query({
      text: `UPDATE domains SET status = 'verified', verified_at = now(), dns_warning = $2 WHERE domain = $1`,
      values: [domain, 'dkim: there is no TXT record; '.repeat(12)],
    });
    const { page } = await view(t, node, '/domains');
    const name = page.getByText(domain, { exact: true });
    await name.waitFor();
    const { needs, has } = await name.evaluate(sizes);
    t.ok(needs <= has, `${needs} px in ${has}`);
  });

  t.test(
    'what waits for a pause of the site of several domains is counted with the pause, as no fault of theirs',
    async (t) => {
      await send({ to: ['a@of-site-1.test', 'b@of-site-1.test', 'a@of-site-2.test'] });
      await node.call('POST', '/api/v1/admin/destinations/paused-site.test/pause', { token });
      // As after a restart: the node has not looked up yet where these domains have their mail.
      await putOff(['of-site-1.test', 'of-site-2.test'], 'paused: paused-site.test');
      const { page } = await view(t, node, '/overview');
      await page.locator('.concerns li').filter({ hasText: 'paused-site.test' }).waitFor();
      const said = await page.locator('.concerns li').allTextContents();
      t.strictSame(
        said.filter((words) => /of-site|paused-site/.test(words)),
        ['soonpaused-site.test is paused, 3 recipients waiting. Show it'],
      );
      await node.call('POST', '/api/v1/admin/destinations/paused-site.test/resume', { token });
      await node.call('POST', '/api/v1/admin/destinations/of-site-1.test/stop', { token, body: {} });
      await node.call('POST', '/api/v1/admin/destinations/of-site-2.test/stop', { token, body: {} });
    },
  );

  t.test('a long word of what a server or an operator said does not widen the page of an email', async (t) => {
    const email = await send({ to: 'a@long-word.test' });
    const reason = `https://support.example/${'a-very-long-page'.replaceAll('-', '').repeat(12)}`;
    await node.call('POST', '/api/v1/admin/destinations/long-word.test/stop', { token, body: { reason } });
    const { page } = await view(t, node, '/settings');
    for (const width of [360, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      await go(page, `/emails/${email.id}`, reason);
      const { needs, has } = await page.locator('html').evaluate(sizes);
      t.ok(needs <= has, `${needs} px in ${has}`);
      const { needs: words, has: room } = await page.locator('.page-head p').evaluate(sizes);
      t.ok(words <= room, `the words of the head: ${words} px in ${room}`);
    }
  });

  t.test('the same trouble of many domains or webhooks takes one line, which leads to them', async (t) => {
    const create = (path: string, bodies: object[]) =>
      Promise.all(bodies.map((body) => node.call('POST', `/api/v1/${path}`, { token, body })));
    const numbers = [1, 2, 3, 4, 5, 6];
    await create(
      'domains',
      [...numbers, 7, 8, 9, 10, 11, 12].map((number) => ({ domain: `many-${number}.example` })),
    );
    await node.db.query({
      text: `UPDATE domains SET status = 'verified', verified_at = now(), dns_warning = 'spf is missing' WHERE domain = ANY ($1)`,
      values: [numbers.map((number) => `many-${number}.example`)],
    });
    const hooks = [...numbers, 7, 8, 9, 10, 11, 12].map((number) => ({
      url: `https://many-${number}.example/hook`,
      events: ['email.failed'],
    }));
    await create('webhooks', hooks);
    await node.db.query({
      text: `UPDATE webhooks SET failing_since = now() WHERE url = ANY ($1)`,
      values: [numbers.map((number) => `https://many-${number}.example/hook`)],
    });
    await node.db.query({
      text: `UPDATE webhooks SET status = 'disabled', disabled_reason = 'too many failures'
              WHERE url LIKE 'https://many-%' AND failing_since IS NULL`,
      values: [],
    });
    const { page, complaints } = await view(t, node, '/overview');
    const lines = page.locator('.concerns li');
    const expected: [words: RegExp, list: string, first: string, second: string][] = [
      [/^now7 verified domains have a DNS warning\. Show them$/, '/domains?status=warning', 'many-1.', 'many-7.'],
      [/^soon6 domains cannot send yet/, '/domains?status=pending', 'many-7.', 'many-1.'],
      [/^now6 webhooks are off/, '/webhooks?status=disabled', 'many-7.', 'many-1.'],
      [/^soonCalls to 6 webhooks fail\. Show them$/, '/webhooks?status=failing', 'many-1.', 'many-7.'],
    ];
    await lines.filter({ hasText: 'webhooks fail' }).waitFor();
    t.equal(await lines.filter({ hasText: 'many-' }).count(), 0, 'none is named');
    for (const [words, list, listed, unlisted] of expected) {
      await go(page, '/overview', 'webhooks fail');
      const line = lines.filter({ has: page.locator(`a[href="${list}"]`) });
      t.match(await line.textContent(), words);
      await line.getByRole('link').click();
      await page.locator('tbody').getByText(listed).first().waitFor();
      t.equal(await page.locator('tbody').getByText(unlisted).count(), 0, `${list} lists only these`);
    }
    t.strictSame(complaints, []);
  });

  t.test('that nothing is left that delivers is said, and who can end that', async (t) => {
    const { page, complaints } = await view(t, node, '/overview');
    const nobody = page.locator('.concerns li').filter({ hasText: 'Nothing is sent' });
    await page.locator('.concerns li').first().waitFor();
    t.equal(await nobody.count(), 0);
    await node.db.query({
      text: `UPDATE nodes SET seen_at = now() - interval '1 minute' WHERE id = $1`,
      values: [other],
    });
    await lookAgain(page);
    await nobody.getByRole('link', { name: 'Show what waits' }).waitFor();
    t.match(await nobody.textContent(), /^nowNothing is sent: no process that delivers mail is running: start one/);
    t.strictSame(complaints, []);
  });
});
