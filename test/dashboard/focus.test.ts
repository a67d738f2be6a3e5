import t from 'tap';
import { inBrowser, sharedDashboard, view } from './browser.ts';

t.test('what a row had of the keyboard stays with its table when the row is gone', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const body = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body })).body;
  const addresses = ['one@focus.test', 'two@focus.test'];
  for (const address of addresses) await node.call('POST', '/api/v1/suppressions', { token, body: { address } });
  const { page } = await view(t, node, '/suppressions?q=focus.test');
  // The last one leaves the words for an empty list.
  for (const address of addresses) {
    const row = page.getByRole('row', { name: new RegExp(address) });
    await row.getByRole('button', { name: 'Remove' }).focus();
    await page.keyboard.press('Enter');
    // The dialog is there a moment before it has the keyboard.
    await page.getByRole('dialog').locator('button:focus', { hasText: 'Remove' }).waitFor();
    await page.keyboard.press('Enter');
    await row.waitFor({ state: 'detached' });
    await page.locator('.table-box:focus').waitFor();
  }
  await page.getByText('No address matches').waitFor();
});
