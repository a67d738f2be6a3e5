import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { inBrowser, sharedDashboard, view } from './browser.ts';

t.test('what goes on', inBrowser, async (t) => {
  const node = await sharedDashboard();

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
});
