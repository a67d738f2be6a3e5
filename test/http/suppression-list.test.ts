import t from 'tap';
import { readSuppressionsCsv } from '../../src/client/index.ts';
import { sharedNode } from '../support/shared-node.ts';
import { manageAccount } from './scene.ts';

t.test('the suppression list can be searched by part of an address', async (t) => {
  const call = await manageAccount();
  for (const address of ['ann@shop.test', 'a_n@shop.test', 'bob@Shop.TEST', 'carl@other.test'])
    await call('POST', '/suppressions', { address });
  const found = async (text: string) => {
    const { body } = await call('GET', `/suppressions?address=${encodeURIComponent(text)}`);
    t.equal(body.count, body.suppressions.length);
    return body.suppressions.map(({ address }: { address: string }) => address).sort();
  };
  t.strictSame(await found('SHOP'), ['a_n@shop.test', 'ann@shop.test', 'bob@shop.test']);
  t.strictSame(await found('a_n'), ['a_n@shop.test'], 'special characters of a pattern stand for themselves');
  t.strictSame(await found('%'), []);
  t.strictSame(await found('\\'), []);

  for (const address of ['dora@bücher.test', 'bü.cher@other.test']) await call('POST', '/suppressions', { address });
  for (const text of [
    'dora@bücher.test',
    'a@BÜCHER.test',
    '@bücher.test',
    'bücher.test',
    '@bücher',
    'Bücher',
    'xn--bcher',
  ])
    t.strictSame(await found(text), ['dora@xn--bcher-kva.test'], `${text}: a domain in either spelling`);
  t.strictSame(await found('bü.cher'), ['bü.cher@other.test'], 'what could be a domain is also found before the @');
  t.strictSame(await found('Bü'), ['bü.cher@other.test']);
  t.strictSame(await found('@büch'), [], 'part of a label stands for itself');

  await call('POST', '/suppressions', { address: 'joann@shop.test' });
  t.strictSame(await found('ann@shop.test'), ['ann@shop.test', 'joann@shop.test']);
  const exactly = async (address: string) => {
    const { body } = await call('GET', `/suppressions?exact=true&address=${encodeURIComponent(address)}`);
    t.strictSame([body.count, body.count_exact], [body.suppressions.length, true]);
    return body.suppressions.map((one: { address: string }) => one.address);
  };
  t.strictSame(await exactly('Ann@SHOP.test'), ['ann@shop.test']);
  t.strictSame(await exactly('DORA@Bücher.test'), ['dora@xn--bcher-kva.test']);
  t.strictSame(await exactly('nn@shop.test'), []);
  t.match(await call('GET', '/suppressions?exact=true'), {
    status: 400,
    body: { detail: 'address: is required with exact' },
  });
});

t.test('many addresses are added with one call, or none of them', async (t) => {
  const call = await manageAccount();
  const entries = Array.from({ length: 5_100 }, (_, n) => ({ address: `U${n}@shop.test`, reason: 'complaint' }));
  const added = await call('POST', '/suppressions/import', { suppressions: [...entries, { address: 'u1@shop.test' }] });
  t.strictSame(added.body, { message: '5100 addresses are on the list', count: 5_100 });
  const again = await call('POST', '/suppressions/import', { suppressions: [entries[0], { address: 'u0@SHOP.test' }] });
  t.strictSame(again.body, { message: '1 address is on the list', count: 1 });
  t.match((await call('GET', '/suppressions?address=u77@')).body, {
    count: 1,
    suppressions: [{ reason: 'complaint' }],
  });
  const refused = await call('POST', '/suppressions/import', {
    suppressions: [{ address: 'x@y.test' }, { address: 'z' }],
  });
  t.match(refused.body, { error: 'invalid request', detail: /^suppressions\[1\]\.address: / });
  t.equal((await call('GET', '/suppressions?address=x@y')).body.count, 0);
  const star = 'must be a single address: wildcards are not supported';
  t.equal((await call('POST', '/suppressions', { address: '*@spam.test' })).body.detail, `address: ${star}`);
  t.equal(
    (await call('POST', '/suppressions/import', { suppressions: [{ address: '*@spam.test' }] })).body.detail,
    `suppressions[0].address: ${star}`,
  );
  const tooMany = Array.from({ length: 10_001 }, () => ({ address: 'a@b.test' }));
  t.match(
    (await call('POST', '/suppressions/import', { suppressions: tooMany })).body.detail,
    /at most 10,000 entries/,
  );

  for (const reasons of [
    ['unsubscribe', 'complaint'],
    ['complaint', 'unsubscribe'],
  ]) {
    const address = `${reasons[0]}-first@two.test`;
    await call('POST', '/suppressions/import', { suppressions: reasons.map((reason) => ({ address, reason })) });
    const { body } = await call('GET', `/suppressions?address=${address}`);
    t.match(body, { count: 1, suppressions: [{ reason: 'complaint' }] }, 'of two reasons the stronger one');
    for (const left of [1, 0]) {
      await call('DELETE', `/suppressions/${address}`);
      t.equal((await call('GET', `/suppressions?address=${address}`)).body.count, left, 'then the weaker one');
    }
  }

  const bounced = '01a2001a-7976-7081-b3d3-f5117420f571';
  const { db } = await sharedNode('api');
  await call('POST', '/suppressions', { address: 'gone@shop.test', reason: 'bounce' });
  await db.query({ text: `UPDATE suppressions SET email_id = $1 WHERE address = 'gone@shop.test'`, values: [bounced] });
  await call('POST', '/suppressions', { address: 'last@shop.test' });
  const { headers, body } = await call('GET', '/suppressions/export');
  t.match(headers.get('content-disposition'), 'attachment; filename="suppressions.csv"');
  const lines: string[] = body.split('\r\n');
  t.equal(lines.length, 5_102 + 2, 'more than are read at once, the header, and nothing after the last line');
  t.equal(lines[0], 'address,reason,email_id,created_at');
  t.match(lines[1], /^"last@shop\.test",manual,,20\d\d-\S+Z$/);
  t.match(lines[2], `"gone@shop.test",bounce,${bounced},20`);
  t.equal(new Set(lines).size, lines.length, 'each once');

  const formulas = ["'=2@shop.test", '=1+1@shop.test'];
  for (const address of formulas) await call('POST', '/suppressions', { address });
  const { body: csv } = await call('GET', '/suppressions/export');
  t.match(csv, /^"'=1\+1@shop\.test",manual/m, 'a spreadsheet takes it for text');
  const read = readSuppressionsCsv(csv).entries.map(({ address }) => address);
  t.strictSame(read.slice(0, 2).sort(), formulas);
});
