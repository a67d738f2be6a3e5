import t from 'tap';
import { recheckDue } from '../../src/core/domains/verification.ts';
import { buildKey } from '../support/build.ts';
import { mailHostname, startDirectNode } from '../support/direct.ts';
import { startSink } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { manageDomains } from './scene.ts';

type Records = Record<'verification' | 'dkim' | 'spf', { name: string; value: string }>;

t.test('what others can do about a domain', async (t) => {
  const sink = await startSink();
  t.teardown(() => sink.close());
  const zone = { [mailHostname]: { TXT: ['v=spf1 ip4:127.0.0.1 -all'] }, 'receiver.test': { A: ['127.0.0.1'] } };
  const node = await startDirectNode(t, { zone, mxPort: sink.port });

  t.test(
    'SSRF-13: only its own token at its own name proves a domain, and nothing that others can publish',
    async (t) => {
      const account = await manageDomains(node);
      const other = await manageDomains(node);
      const register = async ({ call }: typeof account, domain: string) => {
        const { body } = await call('POST', '', { domain });
        const verify = () => call('POST', `/${body.domain.id}/verify`);
        return { id: body.domain.id as string, records: body.dns_records as Records, verify };
      };
      const txt = (name: string, ...values: string[]) => node.zone.set(name, { TXT: values });
      const missing = async (verify: () => ReturnType<typeof account.call>) => {
        const { status, body } = await verify();
        return status === 200 ? [] : body.missing;
      };

      const victim = await register(account, 'victim.test');
      const { verification, dkim, spf } = victim.records;
      const publishRest = () => {
        txt(dkim.name, dkim.value);
        txt(spf.name, spf.value);
      };
      publishRest();
      const token = verification.value;
      t.match(token, /^sendwright-verification=[0-9a-f]{40}$/, '160 bits');
      const theirs = await register(other, 'victim.test');
      t.not(theirs.records.verification.value, token, 'each account has its own');
      const second = await register(account, 'second.test');

      const wrong: Record<string, string[]> = {
        'the token of another account': [theirs.records.verification.value],
        'the token of another domain': [second.records.verification.value],
        'a part of the token': [token.slice(0, -1)],
        'more than the token': [`${token}0`],
        'the token in capitals': [token.toUpperCase()],
        'the token among words': [`x ${token} x`],
        'all tokens in one record': [`${theirs.records.verification.value} ${token}`],
        'twenty of others': Array.from(
          { length: 20 },
          (_, n) => `sendwright-verification=${String(n).padStart(40, '0')}`,
        ),
      };
      for (const [what, values] of Object.entries(wrong)) {
        txt(verification.name, ...values);
        t.strictSame(await missing(victim.verify), ['verification'], what);
      }
      node.zone.set(verification.name, undefined);
      for (const name of [
        'victim.test',
        'www.victim.test',
        '_sendwright.www.victim.test',
        '_sendwright.test',
        '_sendwright._sendwright.victim.test',
      ]) {
        txt(name, token, spf.value);
        t.strictSame(await missing(victim.verify), ['verification'], `at ${name}`);
        if (name !== 'victim.test') node.zone.set(name, undefined);
      }
      publishRest();

      // Whoever controls the target of a wildcard record has every name below the domain, but not the domain itself.
      for (const name of [theirs.records.verification.name, theirs.records.dkim.name])
        node.zone.set(name, { CNAME: 'attacker.test' });
      txt('attacker.test', theirs.records.verification.value, theirs.records.dkim.value, 'v=spf1 +all');
      txt('victim.test', 'v=spf1 -all');
      t.ok((await missing(theirs.verify)).includes('spf'));
      const send = await node.call('POST', '/api/v1/emails', {
        key: node.key,
        body: { from: 'a@victim.test', to: 'a@b.test', subject: 's', text: 't' },
      });
      t.equal(send.body.error, 'from domain not verified');

      publishRest();
      node.zone.set(theirs.records.dkim.name, undefined);
      txt(verification.name, 'v=other', token, 'google-site-verification=x');
      t.strictSame(await missing(victim.verify), [], 'it is found among other records');
      const child = await register(account, 'child.victim.test');
      t.strictSame(await missing(child.verify), ['verification', 'dkim', 'spf'], 'a subdomain is a domain of its own');

      // Removed and added again it gets another token: the old record proves nothing.
      await account.call('DELETE', `/${victim.id}`);
      const again = await register(account, 'victim.test');
      t.not(again.records.verification.value, token);
      t.ok((await missing(again.verify)).includes('verification'), 'the old token');
    },
  );

  t.test('a domain whose records vanish gets a warning the next day, and still sends: SSRF-13', async (t) => {
    const { id: accountId, call } = await manageDomains(node);
    const { body } = await call('POST', '', { domain: 'fading.test' });
    const path = `/${body.domain.id}`;
    const records = Object.values(body.dns_records as Records);
    const key = await buildKey(node.db, accountId);
    const publish = () => {
      for (const { name, value } of records) node.zone.set(name, { TXT: [value] });
    };
    /** What the look-up of the next day finds, whichever node makes it. */
    const nextDay = async (isRight: (warning: string | null) => boolean) => {
      await node.db.query({
        text: 'UPDATE domains SET next_check_at = now() - make_interval(secs => 1) WHERE id = $1',
        values: [body.domain.id],
      });
      await recheckDue(node.db, node.surroundings);
      return eventually(async () => {
        const { domain } = (await call('GET', path)).body;
        return isRight(domain.dns_warning) && domain;
      });
    };
    const arrives = async (subject: string) => {
      const fields = { from: 'a@fading.test', to: 'a@receiver.test', subject, text: 't' };
      t.equal((await node.call('POST', '/api/v1/emails', { key, body: fields })).status, 200, subject);
      const raw = await eventually(
        async () => sink.messages.find((one) => one.raw.includes(`Subject: ${subject}`))?.raw,
      );
      t.match(raw.toString('latin1'), /^DKIM-Signature: [^:]* d=fading\.test;/, 'and is signed');
    };

    publish();
    t.match((await call('POST', `${path}/verify`)).body.domain, { status: 'verified', dns_warning: null });
    for (const { name } of records) node.zone.set(name, undefined);
    const warned = await nextDay((warning) => warning !== null);
    t.equal(warned.status, 'verified', 'taking a name server away does not stop the mail');
    t.match(warned.dns_warning, /^verification: there is no TXT record at .*; dkim: there is no .*; spf: there is no /);
    await arrives('without records');
    const again = { text: `SELECT FROM domains WHERE id = $1 AND next_check_at > now() + interval '23 hours'` };
    t.equal((await node.db.query({ ...again, values: [body.domain.id] })).length, 1, 'it is checked once a day');
    publish();
    t.equal((await nextDay((warning) => warning === null)).status, 'verified', 'the warning goes once they are back');
    await arrives('with records');
  });

  t.test('SSRF-14: what DNS says is shown in plain words, and shortened', async (t) => {
    const { call } = await manageDomains(node);
    const { body } = await call('POST', '', { domain: 'odd.test' });
    const odd = [
      '<script>alert(1)</script>',
      '\x1b[31m\r\nX-Evil: 1',
      '\0\x85\u2028',
      '"}],"error":"',
      'x'.repeat(4_000),
    ];
    for (const { name } of Object.values(body.dns_records as Records)) node.zone.set(name, { TXT: odd });
    const { status, body: said } = await call('POST', `/${body.domain.id}/verify`);
    t.equal(status, 400);
    t.match(said.detail, /^[ -~]{1,2000}$/);
    t.notMatch(said.detail, /script|Evil|xxxx/, 'the detail contains none of it');
    const found = Object.values(said.checks as Record<string, { found: string[] }>).flatMap((check) => check.found);
    t.ok(found.length > 0);
    for (const text of found) t.match(text, /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{0,500}$/);
  });
});
