import { z } from 'zod';
import { checkNames, healths } from '../../core/finding.ts';
import { doctorQuery } from '../routes/doctor.ts';
import type { Operation } from './operation.ts';
import { samples } from './samples.ts';
import { flag, list, oneOf, time, words } from './schema.ts';

const finding = z
  .object({
    check: oneOf(checkNames, 'What was looked at.'),
    subject: words('Of what: an address, a domain, a host.'),
    health: oneOf(healths, '`problem`: there is something to do; `unknown`: nobody could say.'),
    found: words('What was found.'),
    advice: words('What to do about it; null where there is nothing to do.').nullable(),
  })
  .meta({ id: 'Finding', description: 'What one look at the installation came to.' });

export const doctorOperation: Operation = {
  id: 'examine',
  method: 'get',
  path: '/api/v1/admin/doctor',
  summary: 'Look at all that mail depends on',
  description:
    'Whether port 25 is open to the outside, the names of the sending addresses, DNS blocklists, the records of each domain that can send, the clock, the disk, the database and the addresses of the service. It takes up to 25 seconds. Nobody is connected to but the one MX host.',
  access: 'admin',
  query: doctorQuery,
  answer: {
    description: 'What was found.',
    schema: z.object({
      well: flag('Every finding is `ok`.'),
      checked_at: time('When this was so.'),
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
          advice: 'Ask whoever gave you the address to set its PTR record to mail.example.com.',
        },
      ],
    },
  },
};
