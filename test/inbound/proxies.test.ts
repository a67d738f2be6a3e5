import { PassThrough } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createLog } from '../../src/log.ts';
import { eventually } from '../support/node.ts';
import { startReturns } from './returned.ts';
import { Dialog, plain, startSubmitter } from './scene.ts';

/** The header of version 1 of the PROXY protocol. */
const header = (client: string) =>
  `PROXY ${client.includes(':') ? 'TCP6' : 'TCP4'} ${client} ${client.includes(':') ? '2001:db8::1' : '192.0.2.1'} 40000 587\r\n`;

const proxies = ['127.0.0.1'];
const both = [
  { port: 'submission', tls: false },
  { port: 'submissions', tls: true },
] as const;

t.test('clients of a proxy are told apart by the addresses that it names: DOS-09', async (t) => {
  const { ports } = await startSubmitter(t, { proxies, most: { mostInAll: 12, mostOfOne: 2 } });
  for (const { port, tls } of both) {
    const open = (client: string) => Dialog.open(t, ports[port], tls, false, { through: header(client) });
    const greeting = async (client: string) => {
      const dialog = await open(client);
      return { dialog, reply: await dialog.reply() };
    };
    const all = [];
    for (const client of ['203.0.113.1', '203.0.113.1', '2001:db8:0:1::1', '2001:DB8:0:1::2']) {
      const one = await greeting(client);
      t.match(one.reply, /^220 /, client);
      all.push(one.dialog);
    }
    for (const client of ['203.0.113.1', '::ffff:203.0.113.1', '2001:db8:0:1::3']) {
      const { dialog, reply } = await greeting(client);
      t.equal(reply, '421 4.7.0 too many connections, try again later', client);
      t.equal(await dialog.rest(), '');
    }
    t.match((await greeting('203.0.113.2')).reply, /^220 /, 'another client');
    all[0]?.end();
    await all[0]?.rest();
    t.match((await greeting('203.0.113.1')).reply, /^220 /, 'room is given back');
  }
  const direct = (from: string) => Dialog.open(t, ports.submission, false, false, { from });
  for (const _ of [1, 2]) t.match(await (await direct('127.0.0.2')).reply(), /^220 /, 'no proxy');
  t.match(await (await direct('127.0.0.2')).reply(), /^421 .* too many connections/);
});

t.test('a proxy has no limit but that of the port', async (t) => {
  const { ports } = await startSubmitter(t, { proxies, most: { mostInAll: 4, mostOfOne: 2 } });
  const greeting = async (n: number) =>
    (await Dialog.open(t, ports.submission, false, false, { through: header(`203.0.113.${n}`) })).reply();
  for (const n of [1, 2, 3, 4]) t.match(await greeting(n), /^220 /);
  t.match(await greeting(5), /^421 .* too many connections/);
});

t.test('failed logins behind a proxy count for the client, not for the proxy: MAIL-02', async (t) => {
  const { ports } = await startSubmitter(t, { proxies });
  const tries = async (client: string) => {
    const dialog = await Dialog.open(t, ports.submissions, true, true, { through: header(client) });
    await dialog.ask('EHLO client.test');
    let count = 0;
    while (count < 5 && (await dialog.ask(`AUTH PLAIN ${plain('wrong')}`)).startsWith('535')) count += 1;
    return count;
  };
  let seen = 3;
  for (let n = 0; n < 5; n += 1) seen = await tries('203.0.113.7');
  t.equal(seen, 1, 'many have failed from there');
  t.equal(await tries('203.0.113.8'), 3);
});

t.test('only the listed addresses say whose their connections are, and they must', async (t) => {
  const { ports, sender } = await startSubmitter(t, {
    proxies,
    patience: { idleMs: 60_000, loginMs: 500, contentMs: 60_000 },
  });
  for (const { port, tls } of both) {
    const stranger = await Dialog.open(t, ports[port], false, false, {
      from: '127.0.0.2',
      through: `${header('203.0.113.1')}QUIT\r\n`,
    });
    const answers = await stranger.rest();
    t.notMatch(answers, /^2/m, 'a header from elsewhere opens nothing');
    const served = await Dialog.open(t, ports[port], tls, true, { from: '127.0.0.2' });
    t.match(await served.ask('EHLO client.test'), /^250/, 'a client that comes directly');
    const unknown = await Dialog.open(t, ports[port], tls, true, { through: 'PROXY UNKNOWN\r\n' });
    t.match(await unknown.ask('EHLO client.test'), /^250/, 'the proxy itself, such as to see whether the port works');
    for (const through of [
      'EHLO client.test\r\n',
      'PROXY TCP4 nobody 192.0.2.1 1 2\r\n',
      `PROXY ${'x'.repeat(2_000)}`,
      'PROXY TCP4 ',
    ])
      t.notMatch(
        await (await Dialog.open(t, ports[port], false, false, { through })).rest(),
        /220/,
        through.slice(0, 20),
      );
  }
  const one = await sender();
  const dialog = await Dialog.open(t, ports.submissions, true, true, { through: header('203.0.113.1') });
  await dialog.ask('EHLO client.test');
  await dialog.ask(`AUTH PLAIN ${plain(one.key)}`);
  t.match(await dialog.message(one.from, `From: ${one.from}\r\nTo: a@b.test\r\nSubject: s\r\n\r\nt`), /^250 /);
});

t.test('a proxy that sends no header is in the log, and a health check is not', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const out = new PassThrough().on('data', (line) => lines.push(JSON.parse(String(line))));
  const log = createLog('warn', out as unknown as NodeJS.WriteStream);
  const patience = { idleMs: 60_000, loginMs: 2_500, contentMs: 60_000 };
  const { ports } = await startSubmitter(t, { proxies, log, patience });
  const returns = await startReturns(t, { proxies, log });
  const said = (from: number) => lines.slice(from).map(({ from, error }) => ({ from, error }));
  for (const port of [ports.submission, ports.submissions, returns.server.port]) {
    const before = lines.length;
    const check = await Dialog.open(t, port, false, false);
    await wait(50);
    check.end();
    await check.rest();
    const good = await Dialog.open(t, port, port === ports.submissions, true, { through: header('203.0.113.1') });
    t.match(await good.ask('EHLO client.test'), /^250/);
    t.same(said(before), [], 'nothing is wrong with these');
    for (const _ of [1, 2])
      await (await Dialog.open(t, port, false, false, { through: '\r\n\r\n\0\r\nQUIT\n' })).rest();
    t.same(said(before), [{ from: '127.0.0.1', error: 'Invalid PROXY header' }], 'version 2, said once');
    t.equal(lines.at(-1)?.msg, 'a connection from SMTP_PROXIES has no PROXY header, version 1');
  }
  const before = lines.length;
  await (await Dialog.open(t, ports.submission, false, false)).rest();
  await eventually(async () => lines.length > before);
  t.match(said(before), [{ from: '127.0.0.1', error: /Socket closed/ }], 'both wait for the other one');
});

t.test('the port for bounces knows its visitors behind a proxy too', async (t) => {
  const { server } = await startReturns(t, { proxies });
  const greeting = async (client: string) =>
    (await Dialog.open(t, server.port, false, false, { through: header(client) })).reply();
  for (let n = 0; n < 20; n += 1) t.match(await greeting('203.0.113.1'), /^220 /);
  t.equal(await greeting('203.0.113.1'), '421 4.7.0 too many connections, try again later');
  t.match(await greeting('203.0.113.2'), /^220 /);
});
