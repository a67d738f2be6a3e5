import { z } from 'zod';
import { dkimAlgorithms } from '../../mail/dkim.ts';
import { tlsLevels } from '../../smtp/tls-names.ts';
import { domainChange, newDkimKey, newDomain } from '../routes/domains.ts';
import { part } from '../validation.ts';
import { type Group, message } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, list, oneOf, time, words } from './schema.ts';

const domain = z
  .object({
    id: id('Its id.'),
    domain: words('The name, in lower case and as A-labels.'),
    status: oneOf(['pending', 'verified'], 'Emails can be sent from a `verified` one.'),
    dkim_selector: words('Where its DKIM key is published.'),
    verified_at: time('When it was verified; null before.').nullable(),
    dns_warning: words('What the last daily check found missing; null when nothing was.').nullable(),
    tls: oneOf(tlsLevels, 'What all of its mail asks of the connection, at least.'),
    pool: words(
      'The pool of sending addresses that its mail leaves from; null: the one for that kind of mail.',
    ).nullable(),
    created_at: time('When it was added.'),
  })
  .meta({ id: 'Domain', description: 'A sending domain.' });

const recordFields = {
  name: words('The fully qualified name, without a dot at its end.'),
  type: words('Such as `TXT`.'),
  value: words('What goes between the quotes.'),
};

const record = z.object(recordFields).meta({ id: 'DNSRecord', description: 'A DNS record to publish.' });

const recommended = z
  .object({ ...recordFields, purpose: words('What it is good for.') })
  .meta({ id: 'RecommendedRecord', description: 'A DNS record that helps, and that verification does not ask for.' });

const check = z
  .object({
    ok: flag('It is right.'),
    name: words('The name that was looked up.'),
    type: words('Such as `TXT`.'),
    expected: words('The value to publish.'),
    found: list(z.string(), 'What is published there now.'),
    problem: words('What is wrong and what to do; null when nothing is.').nullable(),
  })
  .meta({ id: 'Check', description: 'What a look-up of one record came to.' });

const records = z.object({ verification: record, dkim: record, spf: record }).meta({
  id: 'DNSRecords',
  description: 'The records that must be published: proof of ownership, DKIM key, SPF policy.',
});

const checks = z
  .object({ verification: check, dkim: check, spf: check })
  .meta({ id: 'Checks', description: 'The look-up of each of the three records.' });

const dkimKey = z
  .object({
    id: id('Its id.'),
    selector: words('Its place in DNS.'),
    algorithm: oneOf(dkimAlgorithms, 'What it signs with.'),
    status: oneOf(
      ['pending', 'active', 'retired'],
      '`pending`: signs as soon as its record is seen; `active`: signs beside the domain’s own; `retired`: signs no more, and its record should stay until `remove_after`.',
    ),
    record,
    problem: words(
      'What the last look-up of its record found wrong; null when nothing was, or before the first.',
    ).nullable(),
    created_at: time('When it was made or imported.'),
    activated_at: time('Since when it signs beside the domain’s own.').nullable(),
    retired_at: time('When another took its place.').nullable(),
    remove_after: time('When its record may be removed from DNS.').nullable(),
  })
  .meta({ id: 'DKIMKey', description: 'A DKIM key beside the one that signs for the domain.' });

const domainWithRecords = {
  domain,
  dns_records: records,
  dkim_keys: list(dkimKey, 'Keys that are to sign, sign as well, or signed before, newest first.'),
  recommended_records: list(recommended, 'More records, for better delivery.'),
};

const verificationFailed = z
  .object({
    error: z.literal('dns verification failed').describe('The error.'),
    detail: words('What is missing, and what to do about it.'),
    missing: list(z.enum(['verification', 'dkim', 'spf']), 'Which of the three records are not right.'),
    checks,
  })
  .meta({ id: 'VerificationError', description: 'An error that reports each of the three records.' });

const example = {
  id: samples.domain,
  domain: 'shop.example.com',
  status: 'pending',
  dkim_selector: 'sw1f2e3d4c',
  verified_at: null,
  dns_warning: null,
  tls: 'opportunistic',
  pool: null,
  created_at: samples.createdAt,
};

const verifiedExample = { ...example, status: 'verified', verified_at: '2026-11-21T09:30:00.000Z' };

const recordExamples = {
  verification: {
    name: '_sendwright.shop.example.com',
    type: 'TXT',
    value: 'sendwright-verification=5f0c2b7e9a1d4836c7e2b5f0a9d3c1e8b6f47a20',
  },
  dkim: {
    name: 'sw1f2e3d4c._domainkey.shop.example.com',
    type: 'TXT',
    value: 'v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A...',
  },
  spf: { name: 'shop.example.com', type: 'TXT', value: 'v=spf1 include:mail.example.org ~all' },
};

const pendingKey = {
  id: samples.dkimKey,
  selector: 'sw9a8b7c6d',
  algorithm: 'rsa',
  status: 'pending',
  record: {
    name: 'sw9a8b7c6d._domainkey.shop.example.com',
    type: 'TXT',
    value: 'v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8B...',
  },
  problem: null,
  created_at: samples.createdAt,
  activated_at: null,
  retired_at: null,
  remove_after: null,
};

const recordsExample = {
  dns_records: recordExamples,
  dkim_keys: [],
  recommended_records: [
    {
      name: '_dmarc.shop.example.com',
      type: 'TXT',
      value: 'v=DMARC1; p=none',
      purpose: 'DMARC: large mailbox providers want a policy, if only this one, from whoever sends in bulk',
    },
  ],
};

const passed = ({ name, type, value }: z.infer<typeof record>) => ({
  ok: true,
  name,
  type,
  expected: value,
  found: [value],
  problem: null as string | null,
});

const checksExample = {
  verification: passed(recordExamples.verification),
  dkim: passed(recordExamples.dkim),
  spf: passed(recordExamples.spf),
};

const noDkim =
  'there is no TXT record at sw1f2e3d4c._domainkey.shop.example.com; a new one can take up to 48 hours to be seen';

const params = { id: "The domain's id." };

export const domainGroup: Group = {
  name: 'Domains',
  description: 'The domains that you send from, and the DNS records that make them yours.',
  operations: [
    {
      id: 'addDomain',
      method: 'post',
      path: '/api/v1/domains',
      summary: 'Add a domain',
      description:
        'Makes its keys, and answers with the three records to publish. DNS can take up to 48 hours; until then the domain is also checked by itself.',
      access: 'login',
      body: { schema: newDomain, example: { domain: 'shop.example.com' } },
      answer: {
        description: 'It is pending.',
        schema: z.object(domainWithRecords),
        example: { domain: example, ...recordsExample },
      },
      refusals: [
        { status: 400, error: 'domain already exists', when: 'It is on this account already.' },
        { status: 403, error: 'forbidden', when: 'The plan allows no more domains.' },
      ],
    },
    {
      id: 'listDomains',
      method: 'get',
      path: '/api/v1/domains',
      summary: 'List domains',
      description: 'All of the account, newest first, without their records.',
      access: 'login',
      query: z.object(part),
      answer: {
        description: 'The domains.',
        schema: z.object({ domains: list(domain, 'Newest first.') }),
        example: { domains: [verifiedExample] },
      },
    },
    {
      id: 'getDomain',
      method: 'get',
      path: '/api/v1/domains/:id',
      summary: 'Get a domain',
      description: 'One domain, with its records.',
      access: 'login',
      params,
      answer: {
        description: 'The domain.',
        schema: z.object(domainWithRecords),
        example: { domain: verifiedExample, ...recordsExample },
      },
    },
    {
      id: 'changeDomain',
      method: 'patch',
      path: '/api/v1/domains/:id',
      summary: 'Change a domain',
      description:
        'What all of its mail asks of TLS, and which pool of sending addresses it leaves from; what is omitted stays. It holds from the next attempt of each email, for what is queued too; an email that asks for more of TLS gets more. A pool that is not configured is refused; where one is taken out of the configuration later, its mail leaves from the usual one.',
      access: 'login',
      params,
      body: { schema: domainChange, example: { tls: 'required' } },
      answer: {
        description: 'The domain as it is now.',
        schema: z.object(domainWithRecords),
        example: { domain: { ...verifiedExample, tls: 'required' }, ...recordsExample },
      },
    },
    {
      id: 'verifyDomain',
      method: 'post',
      path: '/api/v1/domains/:id/verify',
      summary: 'Verify a domain',
      description:
        'Looks the three records up, now. When all are right, emails can be sent from the domain; otherwise nothing changes, and each of the three is reported with what was found.',
      access: 'login',
      params,
      answer: {
        description: 'It is verified.',
        schema: z.object({ ...domainWithRecords, checks }),
        example: { domain: verifiedExample, ...recordsExample, checks: checksExample },
      },
      refusals: [
        {
          status: 400,
          error: 'dns verification failed',
          when: 'At least one record is missing or wrong.',
          body: {
            schema: verificationFailed,
            example: {
              detail: `dkim: ${noDkim}`,
              missing: ['dkim'],
              checks: { ...checksExample, dkim: { ...checksExample.dkim, ok: false, found: [], problem: noDkim } },
            },
          },
        },
      ],
    },
    {
      id: 'rotateDkim',
      method: 'post',
      path: '/api/v1/domains/:id/rotate-dkim',
      summary: 'Change the DKIM key, or add an Ed25519 one',
      description:
        'Answers with the record to publish, under `dkim_keys`. The new key signs as soon as that is seen, at the next `verify` or by itself within minutes; until then the old one does. It replaces one of its algorithm that still waits. Leave the old record in DNS for a week: mail that it signed may still be verified.',
      access: 'login',
      params,
      body: { schema: newDkimKey, example: { algorithm: 'rsa' }, optional: true },
      answer: {
        description: 'The key waits for its record.',
        schema: z.object(domainWithRecords),
        example: { domain: verifiedExample, ...recordsExample, dkim_keys: [pendingKey] },
      },
    },
    {
      id: 'removeDkimKey',
      method: 'delete',
      path: '/api/v1/dkim-keys/:id',
      summary: 'Remove a DKIM key',
      description:
        'One beside the domain’s own: a rotation that is not wanted any more, an Ed25519 key that shall not sign any more, or one that signed before.',
      access: 'login',
      params: { id: "The key's id." },
      answer: {
        description: 'It is removed.',
        schema: message,
        example: { message: 'the key sw9a8b7c6d was removed' },
      },
    },
    {
      id: 'removeDomain',
      method: 'delete',
      path: '/api/v1/domains/:id',
      summary: 'Remove a domain',
      description: 'Nothing is sent from it any more, what is queued neither.',
      access: 'login',
      params,
      answer: {
        description: 'It is removed.',
        schema: message,
        example: { message: 'domain shop.example.com was removed' },
      },
    },
  ],
};
