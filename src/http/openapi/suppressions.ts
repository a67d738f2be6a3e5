import { z } from 'zod';
import { mostImported, newSuppression, suppressionImport, suppressionQuery } from '../routes/suppressions.ts';
import { type Group, message } from './operation.ts';
import { tooManyExports } from './refusals.ts';
import { samples } from './samples.ts';
import { id, integer, list, oneOf, time, total, words } from './schema.ts';

const suppression = z
  .object({
    address: words('The address, in lower case.'),
    reason: oneOf(
      ['bounce', 'complaint', 'unsubscribe', 'manual'],
      'Why. `unsubscribe` stops marketing only, the others all mail.',
    ),
    email_id: id('The email that it came from; null when it was added by hand.').nullable(),
    created_at: time('Since when.'),
  })
  .meta({ id: 'Suppression', description: 'An address that is not sent to.' });

const example = { address: samples.to, reason: 'bounce', email_id: samples.email, created_at: samples.deliveredAt };

export const suppressionGroup: Group = {
  name: 'Suppressions',
  description:
    'Addresses that are not sent to. One whose server says that it does not exist, and one whose owner complains, come onto the list by themselves. One that is on it as an email is accepted stops the whole email; one that comes onto it while the email waits is left out alone.',
  operations: [
    {
      id: 'listSuppressions',
      method: 'get',
      path: '/api/v1/suppressions',
      summary: 'List suppressions',
      description: "The account's list, newest first.",
      access: 'login',
      query: suppressionQuery,
      answer: {
        description: 'One page.',
        schema: z.object({ suppressions: list(suppression, 'The page.'), count: total }),
        example: { suppressions: [example], count: 1 },
      },
    },
    {
      id: 'addSuppression',
      method: 'post',
      path: '/api/v1/suppressions',
      summary: 'Suppress an address',
      description: 'An address that is on the list stays as it is, unless it only unsubscribed.',
      access: 'login',
      body: { schema: newSuppression, example: { address: samples.to, reason: 'manual' } },
      answer: {
        description: 'It is on the list.',
        schema: z.object({ suppression }),
        example: { suppression: { ...example, reason: 'manual', email_id: null } },
      },
    },
    {
      id: 'importSuppressions',
      method: 'post',
      path: '/api/v1/suppressions/import',
      summary: 'Suppress many addresses',
      description: `Up to ${mostImported} at once, as for a single one. One that is malformed makes the whole call a 400 that names it, and none is added.`,
      access: 'login',
      body: {
        schema: suppressionImport,
        example: { suppressions: [{ address: samples.to, reason: 'complaint' }, { address: 'bob@example.net' }] },
      },
      answer: {
        description: 'They are on the list.',
        schema: message.extend({ count: integer('How many addresses were given, each once.') }),
        example: { message: '2 addresses are on the list', count: 2 },
      },
    },
    {
      id: 'exportSuppressions',
      method: 'get',
      path: '/api/v1/suppressions/export',
      summary: 'Get the whole list as CSV',
      description: 'Newest first, with the columns `address`, `reason`, `email_id` and `created_at` (RFC 4180).',
      access: 'login',
      refusals: [tooManyExports],
      answer: {
        description: 'The file.',
        schema: 'text/csv',
        example: `address,reason,email_id,created_at\r\n"${samples.to}",manual,,${samples.deliveredAt}\r\n`,
      },
    },
    {
      id: 'removeSuppression',
      method: 'delete',
      path: '/api/v1/suppressions/:address',
      summary: 'Take an address off the list',
      description: 'It is sent to again.',
      access: 'login',
      params: { address: 'The address, percent-encoded.' },
      answer: {
        description: 'It is not on the list any more.',
        schema: message,
        example: { message: 'ann@example.net is not suppressed any more' },
      },
    },
  ],
};
