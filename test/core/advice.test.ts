import t from 'tap';
import { adviceOf } from '../../src/core/log/advice.ts';
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
  },
);
