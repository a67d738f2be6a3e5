import fc from 'fast-check';
import t from 'tap';
import { parseMailbox } from '../../src/mail/address/address.ts';
import { createReturnPath, createUnsubscribeAddress } from '../../src/mail/links/token.ts';
import { plainAddress } from '../mail/addresses.ts';
import { bounce, keys, startReturns } from './returned.ts';
import { startSubmitter } from './scene.ts';

const latin1 = (text: string) => Buffer.from(text).toString('latin1');

t.test('bounces and unsubscribes reach a host with an internationalized name', async (t) => {
  const host = 'mail.xn--mller-kva.example';
  const { dial, deliver, sender } = await startReturns(t, { host });
  const { send, suppressed, read } = await sender();
  const id = await send('jane@example.com');
  const path = createReturnPath(keys.returnPath, id, host, { position: 0, alone: true });
  t.match(await deliver(path, bounce({})), /^250 /);
  t.strictSame(await suppressed(), ['jane@example.com bounce']);
  const other = await send('ann@example.com');
  const unsubscribe = createUnsubscribeAddress(keys.unsubscribe, { emailId: other, position: 0 }, host);
  t.match(await deliver(unsubscribe, 'From: ann@example.com\nSubject: unsubscribe\n\n', 'ann@example.com'), /^250 /);
  t.match(await read(other), { returns: [{ kind: 'unsubscribe' }] });
  const dialog = await dial();
  await dialog.ask('MAIL FROM:<> SMTPUTF8');
  for (const address of [
    `abuse@${host}`,
    path.toUpperCase(),
    latin1(path.replace('xn--mller-kva', 'müller')),
    latin1(path.replace('xn--mller-kva', 'MÜLLER')),
  ])
    t.match(await dialog.ask(`RCPT TO:<${address}>`), /^250 /, address);
  for (const address of [path.replace('xn--mller-kva', 'muller'), latin1(path.replace('xn--mller-kva', 'möller'))])
    t.match(await dialog.ask(`RCPT TO:<${address}>`), /^550 5\.7\.1 /, address);
});

t.test('senders of bounces may have quoted local parts, or those of old mail systems', async (t) => {
  const { dial } = await startReturns(t);
  const dialog = await dial();
  for (const sender of [
    ...['"a b"@x.example', '"a@b"@x.example', '"a\\"> SIZE=1"@x.example', 'a@x_y.example', 'a@[192.0.2.1]', 'a@x'],
    ...['taro.@docomo.example', 'taro..x@docomo.example', '"taro..x"@docomo.example', '.a@x.example', 'MAILER-DAEMON'],
    latin1('jörg@müller.example'),
  ]) {
    t.match(await dialog.ask(`MAIL FROM:<${sender}> SIZE=100`), /^250 /, sender);
    await dialog.ask('RSET');
  }
  for (const path of [
    '<a@b',
    'a@b>',
    '<a b@c.example>',
    '<"a@b.example>',
    '<<a@b.example>>',
    '<a@b.example>SIZE=1',
    'a@b',
  ])
    t.match(await dialog.ask(`MAIL FROM:${path}`), /^501 /, path);
  t.match(await dialog.ask('MAIL TO:<a@b.example>'), /^501 /);
  t.match(await dialog.ask('MAIL FROM:<a@b.example> SIZE=99999999999'), /^552 /);
});

t.test('RCPT accepts exactly the addresses that the REST API accepts', async (t) => {
  const scene = await startSubmitter(t);
  const { from, logIn } = await scene.sender();
  const dialog = await logIn();
  const begin = () => dialog.ask(`MAIL FROM:<${from}> SMTPUTF8`);
  const isMailbox = (text: string) => {
    try {
      return parseMailbox(text).address !== '';
    } catch {
      return false;
    }
  };
  await begin();
  const agree = async (address: string) => {
    const reply = await dialog.ask(`RCPT TO:<${latin1(address)}>`);
    return /^250 /.test(reply) === isMailbox(address) && /^(?:250|501|553) /.test(reply)
      ? null
      : `${address}: ${reply}`;
  };
  for (const address of [
    // With a zero-width non-joiner, which IDNA 2008 allows here.
    'a@xn--mgba3gch31f060k.com',
    'a@xn--victim-.com',
    'a@xn--.com',
    'a@xn--a.com',
    'a@xn--80ak6aa92e.com',
    'a@XN--MLLER-KVA.example',
    'a@müller.example',
    'jörg@müller.example',
    'a@faß.example',
    'a@xn--fa-hia.example',
    'a@x_y.example',
    'a@b.example.',
    'a@-b.example',
    'a.@b.example',
    'a..b@b.example',
    '"a b"@b.example',
    '"a"@b.example',
    'a@[192.0.2.1]',
    'a@192.0.2.1',
    'a@b',
    `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.example`,
    `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(58)}.example`.slice(0, 254),
    `${'a'.repeat(65)}@b.example`,
    'a\u200d@b.example',
    'a@b\u00ad.example',
    'a\u{1f600}@b.example',
    'a%b@c.example',
  ])
    t.equal(await agree(address), null, address);
  for (const address of fc.sample(plainAddress, { numRuns: 60, seed: 1 })) t.equal(await agree(address), null, address);
  t.match(await dialog.ask('RCPT TO:<j\xf6rg@b.example>'), /^501 /, 'an address that is not UTF-8');
});
