import t from 'tap';
import { Apart } from '../../src/delivery/apart.ts';
import { type Site, wellKnown } from '../../src/delivery/providers.ts';

const google: Site = { name: 'Google', connections: 20, perMinute: 60, perConnection: null };

t.test('one that is not reached stands for itself for a while, and its provider is not blamed', async (t) => {
  t.ok(wellKnown.some(({ name }) => name === google.name));
  let now = 0;
  const apart = new Apart(() => now);
  t.strictSame(apart.judge(google, 'a.test', 'unreachable', true), { verdict: 'nothing', apart: true });
  const itself = { ...google, name: 'a.test' };
  t.strictSame([apart.siteOf('a.test'), apart.wouldBeOf('a.test')], [itself, 'Google']);
  t.equal(apart.siteOf('b.test'), null);
  t.strictSame(apart.judge(itself, 'a.test', 'unreachable', true), { verdict: 'unreachable', apart: false });
  now = 15 * 60_000;
  t.strictSame([apart.siteOf('a.test'), apart.wouldBeOf('a.test')], [null, null], 'not for longer');
});

t.test('once it takes mail again it belongs with the others', async (t) => {
  const apart = new Apart(() => 0);
  apart.judge(google, 'a.test', 'unreachable', true);
  t.strictSame(apart.judge({ ...google, name: 'a.test' }, 'a.test', 'fine', true), { verdict: 'fine', apart: false });
  t.equal(apart.siteOf('a.test'), null);
});

t.test('many of a provider, and none that was reached meanwhile: then it is the provider', async (t) => {
  const apart = new Apart(() => 0);
  const fail = (destination: string, resolved = true) =>
    apart.judge(google, destination, 'unreachable', resolved).verdict;
  for (const one of ['a', 'b', 'c', 'd', 'a', 'b']) t.equal(fail(one), 'nothing', one);
  apart.judge(google, 'z', 'fine', true);
  for (const one of ['a', 'b', 'c', 'd']) t.equal(fail(one), 'nothing', `${one} after a success`);
  for (const one of ['e', 'f', 'g', 'h']) t.equal(fail(one, false), 'nothing', `${one} has no DNS`);
  t.equal(fail('e'), 'unreachable');
  t.equal(fail('f'), 'nothing', 'and they are counted anew');
});

t.test('what is no failure, and what is its own site, is left as it is', async (t) => {
  const apart = new Apart(() => 0);
  for (const verdict of ['fine', 'slower', 'nothing'] as const)
    t.strictSame(apart.judge(google, 'a.test', verdict, true), { verdict, apart: false });
  const own = { ...google, name: 'own.test' };
  t.strictSame(apart.judge(own, 'own.test', 'unreachable', true), { verdict: 'unreachable', apart: false });
  t.equal(apart.siteOf('own.test'), null);
});

t.test('a flush ends it, of one or of all of a site', async (t) => {
  const apart = new Apart(() => 0);
  for (const one of ['a.test', 'b.test', 'c.test']) apart.judge(google, one, 'unreachable', true);
  apart.judge({ ...google, name: 'Other' }, 'd.test', 'unreachable', true);
  t.strictSame(apart.end('a.test'), ['a.test']);
  t.strictSame(apart.end('Google'), ['b.test', 'c.test']);
  t.equal(apart.siteOf('b.test'), null);
  t.strictSame(apart.wouldBeOf('d.test'), 'Other');
});
