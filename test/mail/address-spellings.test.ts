import fc from 'fast-check';
import t from 'tap';
import { AddressError, parseMailbox } from '../../src/mail/address/address.ts';
import { anywhere, spellingsOf } from '../../src/mail/address/address-spellings.ts';
import { anyAddress } from './addresses.ts';

const redact = (address: string, text: string) => text.replaceAll(new RegExp(spellingsOf(address), 'gi'), '*');

t.test('an address is found however it is written, and never within another one', async (t) => {
  const cases: [address: string, text: string, left: string][] = [
    ['ann@x.test', 'ANN@X.Test, <ann@x.test>; mailto:ann@x.test?a', '*, <*>; mailto:*?a'],
    ['ann@x.test', 'at ann@x.test.', 'at *.'],
    ['ann@x.test', 'RCPT TO:<Ann@x.test> NOTIFY=NEVER', 'RCPT TO:<*> NOTIFY=NEVER'],
    ['ann@x.test', '/?e=ann%40x.test&f=%3Cann%40X.test%3E#ann@x%2etest', '/?e=*&f=%3C*%3E#*'],
    // A link in a link, as click trackers write them.
    [
      'ann+a@x.test',
      `/?to=${encodeURIComponent('https://x.test/?e=ann%2Ba%40x.test&f=1')}&u=%2525253Dann%2525252Ba%25252540x.test`,
      `/?to=${encodeURIComponent('https://x.test/?e=')}*%26f%3D1&u=%2525253D*`,
    ],
    ['ann@x.test', '&lt;ann&#64;x.test&gt; ann&commat;x&#x2E;test', '&lt;*&gt; *'],
    ['a+b&c@x.test', 'a%2Bb%26c@x.test a&plus;b&amp;c@x.test a+b&c@x.test', '* * *'],
    ['jürgen@xn--bcher-kva.test', 'JÜRGEN@BÜCHER.test j%C3%BCrgen@xn--bcher-kva.test', '* *'],
    [
      'ann@x.test',
      'joann@x.test j.ann@x.test to-ann@x.test +ann@x.test',
      'joann@x.test j.ann@x.test to-ann@x.test +ann@x.test',
    ],
    [
      'ann@x.test',
      'ann@x.testing ann@x.test.org ann@x.test-y.org annex.test',
      'ann@x.testing ann@x.test.org ann@x.test-y.org annex.test',
    ],
  ];
  for (const [address, text, left] of cases) t.equal(redact(address, text), left);
  t.match('welcome-ann@x.testing', new RegExp(anywhere('ann@x.test'), 'i'), 'in a label it may be part of a word');
});

t.test('each spelling of any accepted address is found', async (t) => {
  let taken = 0;
  const property = fc.property(anyAddress, (text) => {
    let address: string;
    try {
      ({ address } = parseMailbox(text));
    } catch (error) {
      if (error instanceof AddressError) return;
      throw error;
    }
    taken += 1;
    const encoded = encodeURIComponent(address);
    const left = redact(address, `<${address}> e=${encoded}&"${address.toUpperCase().replace('ẞ', 'ß')}"`);
    if (address.toUpperCase().toLowerCase() === address.toLowerCase()) {
      if (left !== '<*> e=*&"*"') throw new Error(`${address}: ${left}`);
    } else if (!left.startsWith('<*> e=*&')) throw new Error(`${address}: ${left}`);
  });
  fc.assert(property, { numRuns: 1_000 });
  t.ok(taken > 100, `${taken} were addresses`);
});
