import { domainToASCII } from 'node:url';
import t from 'tap';
import { inOwnLetters } from '../../src/dashboard/words/own-letters.ts';
import { go, inBrowser, sharedDashboard, view } from './browser.ts';

t.test('internationalized domains are shown as their owners write them', async (t) => {
  for (const domain of [
    'bücher.example',
    'mail.bücher.example',
    'straße.example',
    'łódź.pl',
    'việtnam.vn',
    'ışık.com.tr',
    'пример.рф',
    'пример.com',
    'орех.рф',
    'παράδειγμα.gr',
    'مثال.إختبار',
    'דוגמה.example',
    'उदाहरण.भारत',
    'ตัวอย่าง.ไทย',
    '例え.jp',
    'ドメイン名例.jp',
    '例子.中国',
    '실례.한국',
    'հայերեն.am',
  ]) {
    const ascii = domainToASCII(domain);
    t.match(ascii, /xn--/);
    t.equal(inOwnLetters(ascii), domain);
    t.equal(inOwnLetters(ascii.toUpperCase()), domain);
    t.equal(inOwnLetters(`Ann <a.b@${ascii}>, xn--bcher-kva@x.test`), `Ann <a.b@${domain}>, xn--bcher-kva@x.test`);
    t.equal(inOwnLetters(`${ascii} is paused.`), `${domain} is paused.`, 'in a sentence');
  }
  for (const text of ['example.com', 'Ann <a@b.test>', '', 'xn', 'a--b.test']) t.equal(inOwnLetters(text), text);
});

t.test('what could be taken for another domain stays as it is', async (t) => {
  for (const domain of [
    // One Cyrillic letter among Latin ones.
    'pаypal.com',
    'xn--pypal-4ve.com',
    // All of them Cyrillic, and all like Latin ones.
    'аррӏе.com',
    'соrе.example',
    'οη.example',
    // Greek and Latin, Cyrillic and Greek, Han and Latin, two scripts in one host that is deceptive in a part.
    'αpple.com',
    'яα.example',
    'example.comノlogin.jp',
    'bücher.pаypal.com',
    // Phonetic letters, what is not seen, and what looks like a separator.
    'ɡoogle.com',
    'a\u200dc\u0438.com',
    'exampleǃcom.test',
    'i❤.ws',
  ]) {
    const ascii = /^[\x20-\x7e]*$/.test(domain) ? domain : domainToASCII(domain);
    t.equal(inOwnLetters(ascii), ascii, domain);
  }
  // No label of these is one that any name has.
  for (const host of [
    'xn--a',
    'xn--',
    'xn--.com',
    'xn---.com',
    'xn--99999999999.test',
    'xn--bcher-KVA-.test',
    'xn--abc-.test',
  ])
    t.equal(inOwnLetters(host), host, host);
  t.equal(inOwnLetters(`${'xn--a.'.repeat(20_000)}`).length, 120_000, 'and a long text is only long');
});

t.test('on every page people read their own letters, and find the ASCII form', inBrowser, async (t) => {
  const node = await sharedDashboard();
  const login = { email: 'admin@example.test', password: node.adminPassword };
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: login })).body;
  const body = { domain: 'bücher.test' };
  const { domain } = (await node.call('POST', '/api/v1/domains', { token, body })).body;
  await node.call('POST', `/api/v1/domains/${domain.id}/verify`, { token });
  const { page, complaints } = await view(t, node, '/settings');
  page.setDefaultTimeout(20_000);
  await go(page, '/domains?q=büch', 'bücher.test');
  await page.getByTitle('xn--bcher-kva.test').waitFor();
  await go(page, '/domains?q=xn--bch', 'bücher.test');
  await page.getByRole('link', { name: 'bücher.test' }).click();
  await page.getByRole('heading', { name: 'bücher.test' }).waitFor();
  await page.locator('.page-head').getByText('xn--bcher-kva.test').waitFor();
  const email = {
    from: 'Ann <a@bücher.test>',
    to: ['full@пример.test', 'a@pаypal.test'],
    subject: 'Own letters',
    text: 't',
  };
  const { id } = (await node.call('POST', '/api/v1/emails', { token, body: email })).body.email;
  await go(page, `/emails/${id}`, 'full@пример.test');
  await page.locator('.facts').getByText('Ann <a@bücher.test>').waitFor();
  await page.locator('.recipient').getByText('a@xn--pypal-4ve.test').waitFor();
  t.equal(await page.locator('.recipient').getByText('a@pаypal.test').count(), 0, 'what deceives is not shown');
  await go(page, '/emails?q=Own+letters', 'full@пример.test');
  const address = { address: 'gone@bücher.test' };
  t.equal((await node.call('POST', '/api/v1/suppressions', { token, body: address })).status, 200);
  await go(page, '/suppressions?q=bücher.test', 'gone@bücher.test');
  await go(page, '/emails?to=Gone@Bücher.test', 'gone@bücher.test has been on the suppression list');
  await go(page, '/overview');
  await go(page, '/sandbox', 'a@xn--pypal-4ve.test');
  t.strictSame(complaints, []);
  await node.call('DELETE', `/api/v1/domains/${domain.id}`, { token });
});
