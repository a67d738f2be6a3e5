import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eventually } from '../support/node.ts';
import { go, inBrowser, sharedDashboard, view } from './browser.ts';

t.test('what goes on', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const loginOf = async (email: string, password: string): Promise<string> =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token;

  t.test('is seen while it does, also where the list is answered later than it changes', async (t) => {
    const { page } = await view(t, node, '/emails');
    let underWay = 0;
    let most = 0;
    await page.route('**/api/v1/emails?*', async (route) => {
      underWay += 1;
      most = Math.max(most, underWay);
      const response = await route.fetch();
      await sleep(2_500);
      underWay -= 1;
      await route.fulfill({ response });
    });
    let goesOn = true;
    const sending = (async () => {
      for (let n = 1; goesOn; n++) {
        const body = { from: 'a@example.test', to: `often+${n}@anywhere.test`, subject: 'Often', text: 't' };
        await node.call('POST', '/api/v1/emails', { key: node.key, body });
        await sleep(500);
      }
    })();
    try {
      await page
        .getByRole('row', { name: /^often\+\d+@anywhere.test sent Often/ })
        .first()
        .waitFor();
    } finally {
      goesOn = false;
      await sending;
    }
    t.equal(most, 1, 'one after the other');
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  });

  t.test(
    'is seen soon where the server does not report it: mail that is held, and mail of other accounts',
    async (t) => {
      const { page } = await view(t, node, '/settings');
      await page.route('**/api/v1/live', (route) => route.abort());
      await page.reload();
      await page.clock.install();
      await go(page, '/emails?held=true', 'No email matches');
      const held = { from: 'a@example.test', to: 'disconnects+live@anywhere.test', subject: 'Kept', text: 't' };
      await node.call('POST', '/api/v1/emails', { key: node.key, body: { ...held, on_uncertain: 'hold' } });
      const isHeld = async () =>
        (await node.call('GET', '/api/v1/emails?held=true', { key: node.key })).body.count === 1;
      await eventually(isHeld);
      await page.clock.runFor(11_000);
      await page.getByRole('row', { name: /^disconnects\+live@anywhere.test queued held Kept/ }).waitFor();
      await go(page, '/emails?accounts=all&q=of+somebody+else', 'No email matches');
      const token = await loginOf('admin@example.test', node.adminPassword);
      const account = { name: 'Else', email: 'live@else.test', plan: 'free' };
      const { user } = (await node.call('POST', '/api/v1/admin/accounts', { token, body: account })).body;
      const theirs = await loginOf(user.email, user.password);
      const body = { domain: 'else.test' };
      const { domain } = (await node.call('POST', '/api/v1/domains', { token: theirs, body })).body;
      await node.call('POST', `/api/v1/domains/${domain.id}/verify`, { token: theirs });
      const email = { from: 'a@else.test', to: 'a@anywhere.test', subject: 'of somebody else', text: 't' };
      await node.call('POST', '/api/v1/emails', { token: theirs, body: email });
      await page.clock.runFor(11_000);
      await page.getByRole('row', { name: /of somebody else/ }).waitFor();
      // Those of all accounts stand above those of one, and lead to the emails that were counted.
      await go(page, '/overview', 'The account Admin');
      const { count } = (await node.call('GET', '/api/v1/admin/emails?limit=1', { token })).body;
      const all = page.locator('.panel').filter({ has: page.getByRole('heading', { name: 'All accounts' }) });
      await all.getByRole('link', { name: `Accepted ${count} emails` }).click();
      await page.getByRole('row', { name: /of somebody else/ }).waitFor();
    },
  );
});
