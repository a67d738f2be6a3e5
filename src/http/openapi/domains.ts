import { z } from 'zod';
import { dkimAlgorithms } from '../../mail/compose/dkim-key.ts';
import { tlsLevels } from '../../smtp/replies/tls-names.ts';
import { part } from '../input/validation.ts';
import { domainChange, domainQuery, newDkimKey, newDomain } from '../routes/domains.ts';
import { type Group, message } from './operation.ts';
import { samples } from './samples.ts';
import { flag, id, list, oneOf, time, words } from './schema.ts';

const domain = z
  .object({
    id: id('Its id.'),
    domain: words('The domain, in lower case and as A-labels (`xn--`).'),
    status: oneOf(['pending', 'verified'], 'You can send from a `verified` domain.'),
    dkim_selector: words('The selector of its DKIM key.'),
    verified_at: time('When it was verified; null until then.').nullable(),
    dns_warning: words('What the last daily check found missing; null if nothing.').nullable(),
    tls: oneOf(tlsLevels, 'The TLS that all of its mail requires, at least.'),
    pool: words('The pool of sending addresses for its mail; null: the pool for the type of the email.').nullable(),
    created_at: time('When it was added.'),
  })
  .meta({ id: 'Domain', description: 'A sending domain.' });

const recordFields = {
  name: words('The fully qualified name, without a dot at its end.'),
  type: words('Such as `TXT`.'),
  value: words('The value, without quotes.'),
};

const record = z.object(recordFields).meta({ id: 'DNSRecord', description: 'A DNS record to publish.' });

const recommended = z.object({ ...recordFields, purpose: words('What it is for.') }).meta({
  id: 'RecommendedRecord',
  description: 'A DNS record that improves delivery, and that verification does not require.',
});

const check = z
  .object({
    ok: flag('The record is correct.'),
    name: words('The name that was looked up.'),
    type: words('Such as `TXT`.'),
    expected: words('The value to publish.'),
    found: list(z.string(), 'What is published there now.'),
    problem: words('What is wrong and what to do; null if nothing.').nullable(),
  })
  .meta({ id: 'Check', description: 'The result of looking up one record.' });

const records = z.object({ verification: record, dkim: record, spf: record }).meta({
  id: 'DNSRecords',
  description: 'The records that must be published: proof of ownership, DKIM key, SPF policy.',
});

const checks = z
  .object({ verification: check, dkim: check, spf: check })
  .meta({ id: 'Checks', description: 'The result for each of the three records.' });

const dkimKey = z
  .object({
    id: id('Its id.'),
    selector: words('Its selector in DNS.'),
    algorithm: oneOf(dkimAlgorithms, 'The algorithm that it signs with.'),
    status: oneOf(
      ['pending', 'active', 'retired'],
      '`pending`: signs as soon as its record is found; `active`: signs in addition to the domain’s own key; `retired`: no longer signs, but its record should stay until `remove_after`.',
    ),
    record,
    problem: words('What the last look-up of its record found wrong; null if nothing, or before the first.').nullable(),
    created_at: time('When it was created or imported.'),
    activated_at: time('When it began to sign in addition to the domain’s own key.').nullable(),
    retired_at: time('When another key replaced it.').nullable(),
    remove_after: time('When you may remove its record from DNS.').nullable(),
  })
  .meta({ id: 'DKIMKey', description: 'A DKIM key in addition to the domain’s own.' });

const domainWithRecords = {
  domain,
  dns_records: records,
  dkim_keys: list(dkimKey, 'Pending, additional and retired keys, newest first.'),
  recommended_records: list(
    recommended,
    'Optional records, for better delivery: DMARC, the return path, and an Ed25519 DKIM key if there is one.',
  ),
};

const verificationFailed = z
  .object({
    error: z.literal('dns verification failed').describe('The error.'),
    detail: words('What is missing, and what to do.'),
    missing: list(z.enum(['verification', 'dkim', 'spf']), 'Which of the three records are missing or wrong.'),
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
      purpose: 'DMARC: large mailbox providers require a policy from bulk senders; this one is enough',
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
  'there is no TXT record at sw1f2e3d4c._domainkey.shop.example.com; a new record can take up to 48 hours to become visible';

const params = { id: "The domain's id." };

export const domainGroup: Group = {
  name: 'Domains',
  description: 'The domains that you send from, and the DNS records that prove they are yours.',
  operations: [
    {
      id: 'addDomain',
      method: 'post',
      path: '/api/v1/domains',
      summary: 'Add a domain',
      description:
        'Creates its DKIM key, and returns the three records to publish. DNS can take up to 48 hours; until then the domain is also checked automatically.',
      access: 'login',
      body: { schema: newDomain, example: { domain: 'shop.example.com' } },
      answer: {
        description: 'The domain, which is pending.',
        schema: z.object(domainWithRecords),
        example: { domain: example, ...recordsExample },
      },
      refusals: [
        {
          status: 400,
          error: 'domain already exists',
          when: 'The account already has the domain.',
          detail: 'domain: this account already has shop.example.com',
        },
        { status: 403, error: 'forbidden', when: 'The plan allows no more domains.' },
      ],
    },
    {
      id: 'listDomains',
      method: 'get',
      path: '/api/v1/domains',
      summary: 'List domains',
      description: 'All domains of the account, newest first, without their records.',
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
      query: domainQuery,
      answer: {
        description: 'The domain; with `checks` if they were asked for.',
        schema: z.object({ ...domainWithRecords, checks: checks.optional() }),
        example: { domain: verifiedExample, ...recordsExample },
      },
    },
    {
      id: 'changeDomain',
      method: 'patch',
      path: '/api/v1/domains/:id',
      summary: 'Change a domain',
      description:
        'Sets the TLS that all of its mail requires, and the pool of sending addresses that it uses. Fields that you omit do not change. The change applies from the next attempt of each email, including queued ones; an email that requires stricter TLS keeps it. A pool that is not configured is refused; if it is removed from the configuration later, the mail uses the usual pool.',
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
        'Looks up the three records now. If all are correct, you can send from the domain. Otherwise nothing changes, and the response reports what was found for each.',
      access: 'login',
      params,
      answer: {
        description: 'The verified domain.',
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
        'Returns the record to publish, under `dkim_keys`. The new key signs as soon as the record is found, at the next `verify` or at one of the automatic checks of the next 48 hours; until then the old key signs. A pending key of the same algorithm is replaced. Leave the old record in DNS for a week, because receivers may still verify mail that the old key signed.',
      access: 'login',
      params,
      body: { schema: newDkimKey, example: { algorithm: 'rsa' }, optional: true },
      answer: {
        description: 'The domain, with the pending key.',
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
        'Removes a key other than the domain’s own: one from a rotation that you no longer want, an Ed25519 key that should stop signing, or a retired key.',
      access: 'login',
      params: { id: "The key's id." },
      answer: {
        description: 'The key is removed.',
        schema: message,
        example: { message: 'the key sw9a8b7c6d was removed' },
      },
    },
    {
      id: 'removeDomain',
      method: 'delete',
      path: '/api/v1/domains/:id',
      summary: 'Remove a domain',
      description: 'Nothing more is sent from it, including queued emails.',
      access: 'login',
      params,
      answer: {
        description: 'The domain is removed.',
        schema: message,
        example: { message: 'domain shop.example.com was removed' },
      },
    },
  ],
};
