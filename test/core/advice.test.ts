import t from 'tap';
import { adviceOf } from '../../src/core/log/advice.ts';
import { tlsSetting } from '../../src/core/outgoing/outgoing.ts';
import { stoppedNote } from '../../src/core/recipients/settlement.ts';
import { pauseOf, warmUpOf } from '../../src/core/recipients/waiting-for.ts';
import type { Attempt, Recipient } from '../../src/generated/prisma/client.ts';

const recipient = { lastResponse: 'no', waitingFor: null } as Recipient;

t.test(
  'what this server could not find out about TLS is not said to be what the receiving domain demands',
  async (t) => {
    const forbidden = { phase: 'dns', verification: 'dane', classification: 'protocol', uncertain: false } as Attempt;
    const told = (reason: string) => adviceOf(recipient, 'retrying', { ...forbidden, reason });
    const late = 'the name server did not answer in time';
    for (const [what, source] of [
      ['MX records', 'DNSSEC for a.test'],
      ['addresses', 'DNSSEC for mx.a.test'],
      ['TLSA records', 'DANE for mx.a.test'],
    ])
      t.match(
        told(`mx.a.test cannot be used (its ${what}: ${late}): refused by ${source}.`),
        /\(DANE_RESOLVER\)/,
        `the ${what}`,
      );
    const stored = 'mx.a.test cannot be used (stored policies cannot be read now)';
    t.match(told(`${stored}: refused by the MTA-STS policy of a.test.`), /check the database/);
    const demanded =
      'mx.a.test cannot be used (the signed MX records do not name this host): refused by DNSSEC for a.test.';
    t.match(told(demanded), /^The receiving domain demands this itself/);
    t.match(
      told(`mx.a.test offers no STARTTLS: refused by ${tlsSetting} a.test.`),
      /^The sending side demands this: with a lower `tls` level/,
    );
  },
);

t.test('what helps depends on what happened', (t) => {
  const attempt = { phase: 'dns', verification: 'none', classification: 'other', reason: '' } as Attempt;
  const retried = (more: Partial<Attempt>) => adviceOf(recipient, 'retrying', { ...attempt, ...more });
  t.match(retried({ uncertain: true }), /^The server may have taken the message although its answer never came\./);
  const inside = { reason: 'it has only addresses that ALLOW_PRIVATE_NETWORKS does not allow' };
  t.match(
    retried(inside),
    /its operator can allow it with ALLOW_PRIVATE_NETWORKS\. It is tried again automatically\.$/,
  );
  t.match(retried({ ...inside, phase: 'data' }), /^The server gave no reason that we recognize\./, 'a server said so');
  const held = (waitingFor: string) => adviceOf({ ...recipient, waitingFor }, 'held_back', null);
  t.match(held(`${warmUpOf('bulk')}: 192.0.2.1 has sent 50 today`), /\(WARM_UP_PLAN\)/);
  t.match(held(pauseOf('a.test')), /^An operator sees the destination, and can resume or flush it/);
  const failed = (lastResponse: string) => adviceOf({ ...recipient, lastResponse }, 'given_up', attempt);
  t.equal(failed(stoppedNote), null, 'an operator stopped it');
  t.match(failed('no'), /send it again once that is fixed\.$/);
  t.end();
});
