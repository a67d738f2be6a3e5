import { readFileSync } from 'node:fs';
import t from 'tap';
import { eventually } from '../support/node.ts';
import { barriers, go, inBrowser, sharedDashboard, view } from './browser.ts';

t.test('the account is exported, a recipient is erased, and what is gone says so', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const person = 'erased-one@anywhere.test';
  const body = { from: 'a@example.test', to: `Ann <${person}>`, subject: 'A secret', text: 'the text of it' };
  const { id } = (await node.call('POST', '/api/v1/emails', { key: node.key, body })).body.email;
  const status = async () => (await node.call('GET', `/api/v1/emails/${id}`, { key: node.key })).body.email.status;
  await eventually(async () => (await status()) === 'sent');

  const { page, complaints } = await view(t, node, '/settings');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Export' }).click(),
  ]);
  t.match(download.suggestedFilename(), /^sendwright-[0-9a-f-]{36}\.ndjson$/);
  const lines = readFileSync(await download.path(), 'utf8')
    .trimEnd()
    .split('\n');
  t.match(JSON.parse(lines.at(-1) ?? ''), { type: 'end', complete: true });
  t.ok(lines.some((line) => line.includes(person)));

  const erase = page.getByRole('button', { name: 'Erase', exact: true });
  t.ok(await erase.isDisabled(), 'without an address');
  await page.getByLabel('Address', { exact: true }).fill(person);
  await erase.click();
  await page.getByRole('dialog').getByText(person).waitFor();
  t.strictSame(await barriers(page), []);
  await page.getByRole('dialog').getByRole('button', { name: 'Erase' }).click();
  await page.getByText('It is being erased.').waitFor();
  await page.getByText('1 email · requested').waitFor();
  await page.getByText('done', { exact: true }).first().waitFor();
  t.strictSame(await barriers(page), []);

  const listed = 'taken off the suppression list';
  const remove = page.getByLabel('Also remove it from the suppression list');
  await page.getByLabel('Address', { exact: true }).fill('gone@anywhere.test');
  await remove.check();
  await erase.click();
  await page.getByRole('dialog').getByText(listed).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Erase' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.notOk(await remove.isChecked(), 'the next one may have unsubscribed');
  await page.getByLabel('Address', { exact: true }).fill('next@anywhere.test');
  await erase.click();
  t.notMatch(await page.getByRole('dialog').innerText(), listed);
  await page.getByRole('button', { name: 'No' }).click();

  await node.db.query({
    text: `INSERT INTO erasures SELECT (jsonb_populate_record(e, jsonb_build_object('id', uuidv7(), 'address_hash', 'another ' || n))).*
             FROM erasures e, generate_series(1, 30) n WHERE e.id = (SELECT id FROM erasures WHERE done_at IS NOT NULL ORDER BY id LIMIT 1)`,
  });
  await go(page, '/settings?receipts=2', '26–32 of 32');
  const receipts = page.locator('main .panel .recipient');
  t.equal(await receipts.count(), 7);
  await page.getByLabel('Receipt for this address').fill('erased-one');
  await page.getByText('1–25 of 32').waitFor();
  await page.getByLabel('Receipt for this address').fill(`Ann <${person.toUpperCase()}>`);
  await page.getByText('1 receipt', { exact: true }).waitFor();
  t.equal(await receipts.count(), 1, 'of one person');
  t.notMatch(page.url(), /erased-one/i, 'the address stays out of the history of the browser');
  t.strictSame(await barriers(page), []);
  await page.getByLabel('Receipt for this address').fill('nobody@anywhere.test');
  await page.getByText('0 receipts', { exact: true }).waitFor();

  const { page: email } = await view(t, node, `/emails/${id}`);
  await email.getByText('The content is no longer kept').waitFor();
  await email.getByText('erased, with the data of its recipient').waitFor();
  t.notMatch(await email.content(), /erased-one|A secret/);
  t.strictSame(await barriers(email), []);
  t.strictSame(complaints, []);
});
