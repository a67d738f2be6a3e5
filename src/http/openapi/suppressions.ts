import { z } from 'zod';
import { grouped } from '../../numbers.ts';
import {
  mostImported,
  newSuppression,
  suppressionImport,
  suppressionQuery,
  suppressionReasons,
} from '../routes/suppressions.ts';
import { type Group, message } from './operation.ts';
import { tooManyExports } from './refusals.ts';
import { samples } from './samples.ts';
import { flag, id, integer, list, oneOf, time, total, words } from './schema.ts';

const suppression = z
  .object({
    address: words('The address, in lower case.'),
    reason: oneOf(
      suppressionReasons,
      'Why it is listed. `unsubscribe` stops only marketing mail, the others stop all mail.',
    ),
    unsubscribed: flag(
      'Whether its owner has unsubscribed, which a stronger reason may hide: removing the address leaves it on the list for that.',
    ),
    email_id: id('The email that caused it; null if it was added by hand.').nullable(),
    created_at: time('When it was added.'),
  })
  .meta({ id: 'Suppression', description: 'An address that you do not send to.' });

const example = {
  address: samples.to,
  reason: 'bounce',
  unsubscribed: false,
  email_id: samples.email,
  created_at: samples.deliveredAt,
};

export const suppressionGroup: Group = {
  name: 'Suppressions',
  description:
    'Addresses that you do not send to. An address is added automatically if its server says that it does not exist, or if its owner complains or unsubscribes. If an address is on the list when an email is accepted, the whole email is stopped; if it is added while the email waits, only that address is left out.',
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
        schema: z.object({
          suppressions: list(suppression, 'The page.'),
          count: total,
          count_exact: flag(
            'False if more match than `count` says, which is at most 100,000, or 10,000 with `address`. The `X-Total-Count` of an export is the exact number of the whole list.',
          ),
        }),
        example: { suppressions: [example], count: 1, count_exact: true },
      },
    },
    {
      id: 'addSuppression',
      method: 'post',
      path: '/api/v1/suppressions',
      summary: 'Suppress an address',
      description:
        'Adds an address. The reason of an address that is already on the list does not change, unless it is `unsubscribe`. That its owner has unsubscribed is kept in either case: see the removal.',
      access: 'login',
      body: { schema: newSuppression, example: { address: samples.to, reason: 'manual' } },
      answer: {
        description: 'The suppression.',
        schema: z.object({ suppression }),
        example: { suppression: { ...example, reason: 'manual', email_id: null } },
      },
    },
    {
      id: 'importSuppressions',
      method: 'post',
      path: '/api/v1/suppressions/import',
      summary: 'Suppress many addresses',
      description: `Adds up to ${grouped(mostImported)} addresses at once, each as in a single call. If one is malformed, the whole call is refused with a 400 that names it, and none is added.`,
      access: 'login',
      body: {
        schema: suppressionImport,
        example: { suppressions: [{ address: samples.to, reason: 'complaint' }, { address: 'bob@example.net' }] },
      },
      answer: {
        description: 'The addresses are on the list.',
        schema: message.extend({ count: integer('How many different addresses the request had.') }),
        example: { message: '2 addresses are on the list', count: 2 },
      },
    },
    {
      id: 'exportSuppressions',
      method: 'get',
      path: '/api/v1/suppressions/export',
      summary: 'Export the list as CSV',
      description:
        'Newest first, with the columns `address`, `reason`, `email_id` and `created_at` (RFC 4180). A list of up to 8 MB, some 80,000 addresses, comes with a `Content-Length`, so that no client takes a part of it for all.',
      access: 'login',
      refusals: [tooManyExports],
      answer: {
        description: 'The file.',
        schema: 'text/csv',
        headers: ['X-Total-Count'],
        example: `address,reason,email_id,created_at\r\n"${samples.to}",manual,,${samples.deliveredAt}\r\n`,
      },
    },
    {
      id: 'removeSuppression',
      method: 'delete',
      path: '/api/v1/suppressions/:address',
      summary: 'Remove an address from the list',
      description:
        'You can send to the address again. If it was listed for another reason, but its owner has also unsubscribed, it stays on the list with the reason `unsubscribe`, which stops marketing mail only, and `message` says so; a second call removes that too.',
      access: 'login',
      params: { address: 'The address, percent-encoded.' },
      answer: {
        description: 'The address is no longer on the list, or only because its owner has unsubscribed.',
        schema: message,
        example: { message: 'ann@example.net is no longer suppressed' },
      },
    },
  ],
};
