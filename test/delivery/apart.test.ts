import t from 'tap';
import { Apart, type Whose } from '../../src/delivery/apart.ts';
import { type Site, wellKnown } from '../../src/delivery/providers.ts';

const google: Site = { name: 'Google', connections: 20, perMinute: 60, perConnection: null };

t.test('one that is not reached stands for itself for a while, and its provider is not blamed', async (t) => {
  t.ok(wellKnown.some(({ name }) => name === google.name));
  let now = 0;
  const apart = new Apart(() => now);
  const itself = { ...google, name: 'a.test' };
  const first = apart.judge(google, 'a.test', 'unreachable', 'site');
  t.strictSame(first, { verdict: 'nothing', apart: true, newSite: itself });
  const beside = apart.judge(google, 'a.test', 'unreachable', 'site');
  t.strictSame(beside, { verdict: 'nothing', apart: true, newSite: null }, 'one that was under way beside it');
  t.strictSame([apart.siteOf('a.test'), apart.sharedSiteOf('a.test')], [itself, 'Google']);
  t.equal(apart.siteOf('b.test'), null);
  t.strictSame(apart.judge(itself, 'a.test', 'unreachable', 'site'), {
    verdict: 'unreachable',
    apart: false,
    newSite: null,
  });
  now = 15 * 60_000;
  t.strictSame([apart.siteOf('a.test'), apart.sharedSiteOf('a.test')], [null, null], 'not for longer');
});

t.test('once it takes mail again it belongs with the others', async (t) => {
  const apart = new Apart(() => 0);
  apart.judge(google, 'a.test', 'unreachable', 'site');
  t.strictSame(apart.judge({ ...google, name: 'a.test' }, 'a.test', 'fine', 'site'), {
    verdict: 'fine',
    apart: false,
    newSite: null,
  });
  t.equal(apart.siteOf('a.test'), null);
});

t.test('many of a provider, and none that was reached meanwhile: then it is the provider', async (t) => {
  const apart = new Apart(() => 0);
  const fail = (destination: string, whose: Whose = 'site') =>
    apart.judge(google, destination, 'unreachable', whose).verdict;
  for (const one of ['a', 'b', 'c', 'd', 'a', 'b']) t.equal(fail(one), 'nothing', one);
  apart.judge(google, 'z', 'fine', 'site');
  for (const one of ['a', 'b', 'c', 'd']) t.equal(fail(one), 'nothing', `${one} after a success`);
  for (const one of ['e', 'f', 'g', 'h']) t.equal(fail(one, 'dns'), 'nothing', `${one} has no DNS`);
  t.equal(fail('e'), 'unreachable');
  t.equal(fail('f'), 'nothing', 'and they are counted anew');
});

t.test(
  "another's host that wants less says nothing of the provider, and the destination goes at that pace alone",
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

t.test('sites that are never reached take no memory without end', async (t) => {
  const apart = new Apart(() => 0);
  for (const one of ['a', 'b', 'c', 'd']) apart.judge(google, one, 'unreachable', 'site');
  for (let n = 0; n < 10_000; n++) apart.judge({ ...google, name: `site${n}` }, 'x', 'unreachable', 'site');
  t.equal(apart.judge(google, 'e', 'unreachable', 'site').verdict, 'nothing', 'they are counted anew');
});

t.test('what is no failure, and what is its own site, is left as it is', async (t) => {
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

t.test('a flush ends it, of one or of all of a site', async (t) => {
  const apart = new Apart(() => 0);
  for (const one of ['a.test', 'b.test', 'c.test']) apart.judge(google, one, 'unreachable', 'site');
  apart.judge({ ...google, name: 'Other' }, 'd.test', 'unreachable', 'site');
  t.strictSame(apart.end('a.test'), ['a.test']);
  t.strictSame(apart.end('Google'), ['b.test', 'c.test']);
  t.equal(apart.siteOf('b.test'), null);
  t.strictSame(apart.sharedSiteOf('d.test'), 'Other');
});
