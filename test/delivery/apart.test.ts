import t from 'tap';
import { Apart, type Whose } from '../../src/delivery/sites/apart.ts';
import { type Site, wellKnown } from '../../src/delivery/sites/providers.ts';

const google: Site = { name: 'Google', connections: 20, perMinute: 60, perConnection: null };

t.test(
  'a destination that cannot be reached is treated as its own site for a while, and its provider is not blamed',
  async (t) => {
    t.ok(wellKnown.some(({ name }) => name === google.name));
    let now = 0;
    const apart = new Apart(() => now);
    const itself = { ...google, name: 'a.test' };
    const first = apart.judge(google, 'a.test', 'unreachable', 'site');
    t.strictSame(first, { verdict: 'nothing', apart: true, newSite: itself });
    const beside = apart.judge(google, 'a.test', 'unreachable', 'site');
    t.strictSame(
      beside,
      { verdict: 'nothing', apart: true, newSite: null },
      'one that was in progress at the same time',
    );
    t.strictSame([apart.siteOf('a.test'), apart.sharedSiteOf('a.test')], [itself, 'Google']);
    t.equal(apart.siteOf('b.test'), null);
    t.strictSame(apart.judge(itself, 'a.test', 'unreachable', 'site'), {
      verdict: 'unreachable',
      apart: false,
      newSite: null,
    });
    now = 15 * 60_000;
    t.strictSame([apart.siteOf('a.test'), apart.sharedSiteOf('a.test')], [null, null], 'not for longer');
  },
);

t.test('once it accepts mail again, it belongs to its provider', async (t) => {
  const apart = new Apart(() => 0);
  apart.judge(google, 'a.test', 'unreachable', 'site');
  t.strictSame(apart.judge({ ...google, name: 'a.test' }, 'a.test', 'fine', 'site'), {
    verdict: 'fine',
    apart: false,
    newSite: null,
  });
  t.equal(apart.siteOf('a.test'), null);
});

t.test("if many of a provider's destinations fail and none is reached meanwhile, it is the provider", async (t) => {
  const apart = new Apart(() => 0);
  const fail = (destination: string, whose: Whose = 'site') =>
    apart.judge(google, destination, 'unreachable', whose).verdict;
  for (const one of ['a', 'b', 'c', 'd', 'a', 'b']) t.equal(fail(one), 'nothing', one);
  apart.judge(google, 'z', 'fine', 'site');
  for (const one of ['e', 'f', 'g', 'h']) t.equal(fail(one), 'nothing', `${one} after a success`);
  apart.judge(google, 'z', 'slower', 'site');
  for (const one of ['a', 'b', 'c', 'd']) t.equal(fail(one), 'nothing', `${one} after a request for less`);
  for (const one of ['i', 'j', 'k', 'l']) t.equal(fail(one, 'dns'), 'nothing', `${one} has no DNS`);
  t.equal(fail('i'), 'unreachable');
  t.equal(fail('j'), 'nothing', 'and they are counted from zero');
});

t.test(
  'a request for less mail from another host says nothing about the provider, and only the destination slows down',
  async (t) => {
    const apart = new Apart(() => 0);
    for (const one of ['a', 'b', 'c', 'd']) apart.judge(google, one, 'unreachable', 'site');
    const itself = { ...google, name: 'z' };
    t.strictSame(apart.judge(google, 'z', 'slower', 'another'), { verdict: 'nothing', apart: true, newSite: itself });
    t.strictSame(apart.judge(itself, 'z', 'slower', 'another'), { verdict: 'slower', apart: false, newSite: null });
    t.equal(
      apart.judge(google, 'e', 'unreachable', 'site').verdict,
      'unreachable',
      'nor that the provider was reached',
    );
  },
);

t.test('sites that are never reached do not use memory without limit', async (t) => {
  const apart = new Apart(() => 0);
  for (const one of ['a', 'b', 'c', 'd']) apart.judge(google, one, 'unreachable', 'site');
  for (let n = 0; n < 10_000; n++) apart.judge({ ...google, name: `site${n}` }, 'x', 'unreachable', 'site');
  t.equal(apart.judge(google, 'e', 'unreachable', 'site').verdict, 'nothing', 'they are counted from zero');
});

t.test('of too many destinations that are apart, only the first is forgotten', async (t) => {
  const apart = new Apart(() => 0);
  for (let n = 0; n <= 10_000; n++) apart.judge(google, `d${n}.test`, 'unreachable', 'site');
  t.equal(apart.siteOf('d0.test'), null);
  t.ok(apart.siteOf('d1.test'));
});

t.test('what is no failure, and what has its own site, is left as it is', async (t) => {
  const apart = new Apart(() => 0);
  for (const verdict of ['fine', 'slower', 'nothing'] as const)
    t.strictSame(apart.judge(google, 'a.test', verdict, 'site'), { verdict, apart: false, newSite: null });
  const own = { ...google, name: 'own.test' };
  t.strictSame(apart.judge(own, 'own.test', 'unreachable', 'site'), {
    verdict: 'unreachable',
    apart: false,
    newSite: null,
  });
  t.equal(apart.siteOf('own.test'), null);
});

t.test('a flush ends it, for one destination or all of a site', async (t) => {
  const apart = new Apart(() => 0);
  for (const one of ['a.test', 'b.test', 'c.test']) apart.judge(google, one, 'unreachable', 'site');
  apart.judge({ ...google, name: 'Other' }, 'd.test', 'unreachable', 'site');
  t.strictSame(apart.end('a.test'), ['a.test']);
  t.strictSame(apart.end('Google'), ['b.test', 'c.test']);
  t.equal(apart.siteOf('b.test'), null);
  t.strictSame(apart.sharedSiteOf('d.test'), 'Other');
});
