import { z } from 'zod';
import { checkNames, healths } from '../../core/operations/finding.ts';
import { doctorQuery } from '../routes/doctor.ts';
import type { Operation } from './operation.ts';
import { samples } from './samples.ts';
import { flag, list, oneOf, time, words } from './schema.ts';

const finding = z
  .object({
    check: oneOf(checkNames, 'The check.'),
    subject: words('The address, domain or host that was checked.'),
    health: oneOf(
      healths,
      '`problem`: you need to act; `unknown`: the check could not be made; `note`: something is unfinished, but mail goes out without it.',
    ),
    found: words('What was found.'),
    advice: words('What to do about it; null if there is nothing to do.').nullable(),
  })
  .meta({ id: 'Finding', description: 'The result of one check of the installation.' });

export const doctorOperation: Operation = {
  id: 'examine',
  method: 'get',
  path: '/api/v1/admin/doctor',
  summary: 'Check everything that mail depends on',
  description:
    'Checks outbound port 25, the PTR names of the sending addresses, DNS blocklists, the resolver for DANE, the DNS records of each domain that can send, the domains that are not verified yet, the clock, the disk, the database, the addresses of the service and the certificate of its SMTP ports. It takes up to 25 seconds, and connects to no host but the one MX host.',
  access: 'admin',
  query: doctorQuery,
  answer: {
    description: 'The findings.',
    schema: z.object({
      well: flag('No finding is a `problem` or `unknown`.'),
      checked_at: time('When the checks were made.'),
      findings: list(finding, 'Each with what to do about it.'),
    }),
    example: {
      well: false,
      checked_at: samples.createdAt,
      findings: [
        {
          check: 'reverse_dns',
          subject: '203.0.113.6',
          health: 'problem',
          found: 'The address has no name (PTR record).',
          advice: 'Ask the provider of the address to set its PTR record to mail.example.com.',
        },
      ],
    },
  },
};
