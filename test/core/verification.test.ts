import t, { type Test } from 'tap';
import * as dkimKeys from '../../src/core/domains/dkim-keys.ts';
import * as domains from '../../src/core/domains/domains.ts';
import { check, type Surroundings } from '../../src/core/domains/record-checks.ts';
import { recheckDue, verify } from '../../src/core/domains/verification.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import type { Database } from '../../src/db/client.ts';
import { resolveWith } from '../../src/smtp/dns/resolver.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { untilOneWaits } from '../support/locks.ts';
import { startZone } from '../support/zone.ts';

const mailHostname = 'mail.test';

async function prepare(t: Test) {
  const db = await openDatabase(t);
  const zone = await startZone();
  t.teardown(() => zone.close());
  const surroundings: Surroundings = {
    resolve: resolveWith(zone.resolver),
    mailHostname,
    ehloNames: new Map(),
    sendingIps: [],
    keyring: new Keyring(testKey(5)),
  };
  const publish = async (id: string) => {
    const records = domains.dnsRecords(await read(db, id), mailHostname, surroundings.sendingIps);
    for (const { name, value } of Object.values(records)) zone.set(name, { TXT: [value] });
  };
  return { db, zone, surroundings, publish };
}

/** Two accounts have added shop.test: the holder has verified it, and the other one now publishes what it needs to take it over. */
async function prepareContest(t: Test) {
  const { db, surroundings, publish } = await prepare(t);
  const holder = await buildVerifiedDomain(db, (await buildAccount(db)).id, testKey(5), 'shop.test');
  const { id: accountId } = await buildAccount(db);
  const { id } = await domains.add(db, accountId, { domain: 'shop.test' }, surroundings.keyring);
  await publish(id);
  return { db, surroundings, holder, accountId, id };
}

const read = (db: Database, id: string) => db.prisma.domain.findUniqueOrThrow({ where: { id } });

t.test('a domain whose key cannot be opened does not keep others from being checked', async (t) => {
  const { db, surroundings, publish } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const broken = await buildVerifiedDomain(db, accountId, testKey(6));
  const fading = await buildVerifiedDomain(db, accountId, testKey(5));
  await publish(broken.id);
  await db.query({
    text: `UPDATE domains SET next_check_at = now() - make_interval(secs => CASE WHEN id = $1 THEN 2 ELSE 1 END)`,
    values: [broken.id],
  });
  await t.rejects(recheckDue(db, surroundings), { message: new RegExp(`^${broken.domain}: `) }, 'it is reported');
  t.match(await read(db, fading.id), { dnsWarning: /^verification: there is no TXT record/ });
});

t.test('a domain removed during its verification takes the name from nobody', async (t) => {
  const { db, surroundings, holder, accountId, id } = await prepareContest(t);
  let looks = 0;
  const resolve: Surroundings['resolve'] = async (name, type) => {
    if (name === '_sendwright.shop.test') looks += 1;
    // The second look-up checks whether the holder still publishes its own record.
    if (looks === 2) await db.prisma.domain.deleteMany({ where: { id } });
    return surroundings.resolve(name, type);
  };
  await t.rejects(verify(db, accountId, id, { ...surroundings, resolve }), { status: 404, message: 'not found' });
  t.match(await read(db, holder.id), { status: 'verified', dnsWarning: null });
});

t.test('a domain that is being removed when it is verified takes the name from nobody', async (t) => {
  const { db, surroundings, holder, accountId, id } = await prepareContest(t);
  let verifying: Promise<unknown> | undefined;
  await db.transaction(async (tx) => {
    await tx.query({ text: 'DELETE FROM domains WHERE id = $1', values: [id] });
    verifying = verify(db, accountId, id, surroundings);
    verifying.catch(() => undefined);
    await untilOneWaits(db, '%domains%');
  });
  await t.rejects(async () => verifying, { status: 404, message: 'not found' });
  t.match(await read(db, holder.id), { status: 'verified', dnsWarning: null });
});

t.test('while our addresses are unknown, any spelling of our name counts in an SPF policy', async (t) => {
  const { db, zone, surroundings, publish } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const { id } = await domains.add(db, accountId, { domain: 'shop.test' }, surroundings.keyring);
  await publish(id);
  for (const name of [mailHostname, mailHostname.toUpperCase(), `${mailHostname}.`]) {
    zone.set('shop.test', { TXT: [`v=spf1 include:${name} -all`] });
    t.match((await verify(db, accountId, id, surroundings)).checks.spf, { ok: true, problem: null }, name);
  }
});

t.test('the record for our own host name names our addresses, and does not include itself', async (t) => {
  const { db, zone, surroundings, publish } = await prepare(t);
  surroundings.sendingIps.push('198.51.100.1', '2001:db8::1');
  const { id: accountId } = await buildAccount(db);
  const added = (domain: string) => domains.add(db, accountId, { domain }, surroundings.keyring);
  const own = await added(mailHostname);
  const shop = await added('shop.test');
  const spfOf = async ({ id }: { id: string }) => (await verify(db, accountId, id, surroundings)).checks.spf;
  await publish(own.id);
  await publish(shop.id);
  t.match(await spfOf(own), { ok: true, found: ['v=spf1 ip4:198.51.100.1 ip6:2001:db8::1 -all'] });
  t.match(await spfOf(shop), { ok: true, found: [`v=spf1 include:${mailHostname} ~all`] });
  const add = 'add ip6:2001:db8::1 to';
  zone.set(mailHostname, { TXT: ['v=spf1 ip4:198.51.100.1 -all'] });
  const answers = await domains.get(db, accountId, own.id).then((row) => check(row, surroundings));
  t.equal(answers.spf.problem, `the policy answers fail for 2001:db8::1: ${add} it, before its "all"`);
  const { spf } = await check(await domains.get(db, accountId, shop.id), surroundings);
  t.match(spf.problem, `although it includes ${mailHostname}: the operator of this server has to ${add} the policy of`);
  zone.set('shop.test', { TXT: [`v=spf1 ~all include:${mailHostname}`] });
  const late = await check(await domains.get(db, accountId, shop.id), surroundings);
  t.match(late.spf.problem, `add include:${mailHostname} to it, before its "all"`);
  t.equal(domains.dnsRecords(await read(db, own.id), mailHostname, []).spf.value, 'v=spf1 a -all');
});

t.test('a process that ends during a recheck has skipped only the domain it was checking', async (t) => {
  const { db, surroundings } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const names = ['one.test', 'two.test', 'three.test'];
  for (const name of names) await buildVerifiedDomain(db, accountId, testKey(5), name);
  await db.query({ text: `UPDATE domains SET next_check_at = now() - interval '1 minute'` });
  const due = async () => (await db.query({ text: 'SELECT FROM domains WHERE next_check_at <= now()' })).length;
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const resolve: Surroundings['resolve'] = async (name, type) => {
    reached.resolve();
    await released.promise;
    return surroundings.resolve(name, type);
  };
  const rechecking = recheckDue(db, { ...surroundings, resolve });
  await reached.promise;
  t.equal(await due(), 2, 'as if it ended now');
  released.resolve();
  await rechecking;
  t.equal(await due(), 0);
});

t.test('silent name servers delay only the checks of their own account', async (t) => {
  const { db, surroundings } = await prepare(t);
  const { id: silent } = await buildAccount(db);
  for (let n = 0; n < 3; n++) await buildVerifiedDomain(db, silent, testKey(5), `silent-${n}.test`);
  const other = await buildVerifiedDomain(db, (await buildAccount(db)).id, testKey(5), 'other.test');
  await db.query({
    text: `UPDATE domains SET next_check_at = now() - make_interval(secs => CASE WHEN id = $1 THEN 1 ELSE 60 END)`,
    values: [other.id],
  });
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const asked = new Set<string>();
  const resolve: Surroundings['resolve'] = async (name, type) => {
    asked.add(name.split('.').slice(-2).join('.'));
    if (name.endsWith('other.test')) reached.resolve();
    else await released.promise;
    return surroundings.resolve(name, type);
  };
  const stop = new AbortController();
  const rechecking = recheckDue(db, { ...surroundings, resolve }, stop.signal);
  await reached.promise;
  stop.abort();
  released.resolve();
  await rechecking;
  t.match(await read(db, other.id), { dnsWarning: /^verification: there is no TXT record/ });
  t.equal(asked.size, 2, 'one silent domain was asked for, and none after the stop');
});

t.test('accounts take turns with the checks of their domains', async (t) => {
  const { db, surroundings } = await prepare(t);
  for (let account = 0; account < 12; account++) {
    const { id } = await buildAccount(db);
    for (const name of ['a', 'b']) await buildVerifiedDomain(db, id, testKey(5), `${name}-${account}.test`);
    // Both domains of an earlier account have waited longer than those of a later one.
    await db.query({
      text: 'UPDATE domains SET next_check_at = now() - make_interval(mins => $2) WHERE account_id = $1',
      values: [id, 60 - account],
    });
  }
  await recheckDue(db, surroundings);
  // One day after each check began.
  const taken = await db.query<{ first: Date; second: Date }>({
    text: 'SELECT min(next_check_at) AS first, max(next_check_at) AS second FROM domains GROUP BY account_id',
  });
  const times = (which: 'first' | 'second') => taken.map((row) => row[which].getTime());
  t.equal(taken.length, 12);
  t.ok(Math.min(...times('first')) > Date.now(), 'all were checked');
  t.ok(Math.max(...times('first')) <= Math.min(...times('second')), 'no account had a second check before all had one');
});

t.test('a policy is looked up once, however many addresses it is evaluated for', async (t) => {
  const { db, surroundings, publish, zone } = await prepare(t);
  const sendingIps = Array.from({ length: 40 }, (_, n) => `198.51.100.${n + 1}`);
  const { id: accountId } = await buildAccount(db);
  const { id } = await domains.add(db, accountId, { domain: 'many.test' }, surroundings.keyring);
  await publish(id);
  zone.set(mailHostname, { TXT: ['v=spf1 include:pool.mail.test -all'] });
  zone.set('pool.mail.test', { TXT: ['v=spf1 ip4:198.51.100.0/24 -all'] });
  const asked: string[] = [];
  const resolve: Surroundings['resolve'] = (name, type) => {
    asked.push(name);
    return surroundings.resolve(name, type);
  };
  await verify(db, accountId, id, { ...surroundings, sendingIps, resolve });
  t.equal(asked.filter((name) => name === 'pool.mail.test').length, 1);
});

t.test('a domain that is verified by hand is still checked for its new DKIM key as often as before', async (t) => {
  const { db, surroundings, publish } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, testKey(5));
  await publish(id);
  await dkimKeys.rotate(db, accountId, id, {}, surroundings.keyring);
  const { nextCheckAt } = await read(db, id);
  await verify(db, accountId, id, surroundings);
  t.same((await read(db, id)).nextCheckAt, nextCheckAt);
  const inHours = async (one: string) =>
    ((await read(db, one)).nextCheckAt?.getTime() ?? 0) - Date.now() > 20 * 3_600_000;
  const other = await buildVerifiedDomain(db, (await buildAccount(db)).id, testKey(5));
  await publish(other.id);
  await verify(db, (await read(db, other.id)).accountId, other.id, surroundings);
  t.ok(await inHours(other.id), 'one that has no new key is looked at daily');
  await db.query({ text: `UPDATE dkim_keys SET created_at = now() - interval '3 days'` });
  await verify(db, accountId, id, surroundings);
  t.ok(await inHours(id), 'after two days nothing looks for it');
  const soon = `UPDATE domains SET next_check_at = now() + interval '1 minute'`;
  await db.query({ text: soon });
  await db.query({ text: `UPDATE dkim_keys SET created_at = now(), status = 'retired', private_key = NULL` });
  await verify(db, accountId, id, surroundings);
  t.ok(await inHours(id), 'nor for one that is retired');
});

t.test('a domain whose name server did not answer is checked again after an hour, not after a day', async (t) => {
  const { db, surroundings, publish } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const { id } = await buildVerifiedDomain(db, accountId, testKey(5));
  await publish(id);
  const recheck = async (resolve: Surroundings['resolve']) => {
    await db.query({ text: `UPDATE domains SET next_check_at = now() - interval '1 second'` });
    await recheckDue(db, { ...surroundings, resolve });
    const [row] = await db.query({
      text: `SELECT dns_warning AS warning, next_check_at <= now() + interval '1 hour' AS soon FROM domains`,
    });
    return row;
  };
  const silent = async () => {
    throw Object.assign(new Error('no answer'), { code: 'ETIMEOUT' });
  };
  t.match(await recheck(silent), { warning: /^verification: the lookup of .* failed temporarily/, soon: true });
  t.match(await recheck(surroundings.resolve), { warning: null, soon: false });
});

t.test('what is found about the new key of one domain says nothing about that of another', async (t) => {
  const { db, zone, surroundings, publish } = await prepare(t);
  const build = async (selector: string) => {
    const { id: accountId } = await buildAccount(db);
    const { id, domain } = await buildVerifiedDomain(db, accountId, testKey(5));
    await publish(id);
    await dkimKeys.rotate(db, accountId, id, { algorithm: 'ed25519', selector }, surroundings.keyring);
    const find = async () => {
      const [key] = await dkimKeys.list(db, accountId, id);
      if (!key) throw new Error('the key is gone');
      return key;
    };
    return { accountId, id, domain, find };
  };
  const [own, other] = [await build('own'), await build('other')];
  // The record of the other's key, at our name.
  const { name, value } = domains.keyRecord(await other.find(), own.domain);
  zone.set(name, { TXT: [value] });
  await verify(db, own.accountId, own.id, surroundings);
  t.match(await own.find(), { status: 'pending', problem: /^there is no TXT record/ });
  t.match(await other.find(), { status: 'pending', problem: null });
});

t.test('a second key whose record disappears is in the warning of its domain, and in its own problem', async (t) => {
  const { db, zone, surroundings, publish } = await prepare(t);
  const { id: accountId } = await buildAccount(db);
  const { id, domain } = await buildVerifiedDomain(db, accountId, testKey(5));
  await publish(id);
  await dkimKeys.rotate(db, accountId, id, { algorithm: 'ed25519', selector: 'second' }, surroundings.keyring);
  const find = async () => (await dkimKeys.list(db, accountId, id))[0];
  const [key] = await dkimKeys.list(db, accountId, id);
  if (!key) throw new Error('there is no key');
  const { name, value } = domains.keyRecord(key, domain);
  const recheck = async () => {
    await db.query({ text: `UPDATE domains SET next_check_at = now() - interval '1 second'` });
    await recheckDue(db, surroundings);
  };
  const missing = `there is no TXT record at ${name}`;

  zone.set(name, { TXT: [value] });
  await verify(db, accountId, id, surroundings);
  t.match(await find(), { status: 'active', problem: null });
  zone.set(name, undefined);
  await recheck();
  t.match(await read(db, id), { status: 'verified', dnsWarning: `dkim of the selector second: ${missing}` });
  t.match(await find(), { status: 'active', problem: missing });
  zone.set(domain, undefined);
  await recheck();
  t.match(await read(db, id), { dnsWarning: /^spf: there is no .*; dkim of the selector second: there is no / });
  await publish(id);
  t.match(await verify(db, accountId, id, surroundings), { domain: { status: 'verified', dnsWarning: missing } });
  zone.set(name, 'SERVFAIL');
  await recheck();
  const [{ soon } = {}] = await db.query<{ soon: boolean }>({
    text: `SELECT next_check_at <= now() + interval '1 hour' AS soon FROM domains`,
  });
  t.equal(soon, true, 'a server that did not answer is asked again soon');
  zone.set(name, { TXT: [value] });
  await recheck();
  t.match(await read(db, id), { dnsWarning: null });
  t.match(await find(), { status: 'active', problem: null });
});
