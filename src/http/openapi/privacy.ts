import { z } from 'zod';
import { countedKinds } from '../../core/privacy/erasures.ts';
import { erasureQuery, erasureRequest, exportQuery } from '../routes/privacy.ts';
import type { Group } from './operation.ts';
import { tooManyExports } from './refusals.ts';
import { samples } from './samples.ts';
import { id, integer, list, oneOf, time, total, words } from './schema.ts';

const kinds: Record<(typeof countedKinds)[number], string> = {
  emails: 'Emails to the recipient: each keeps its id, times, status and figures.',
  contents: 'Contents that were for the recipient alone, with their subjects.',
  attachments: 'Files that no other email uses.',
  recipients: 'Entries in lists of recipients, which are now `erased-1` and the like.',
  canceled: 'How many of these were canceled before they were sent to.',
  attempts: 'Attempts, with their conversations.',
  returns: 'Bounces, complaints and the like, with their text.',
  webhook_deliveries: 'Webhook deliveries: their payloads, and the responses of endpoints.',
  idempotency_keys: 'Responses stored for an `Idempotency-Key`.',
  sandbox_messages: "Messages in the sandbox's mailbox.",
  suppressions: 'Suppressions, if the request asked for it.',
};

const erasure = z
  .object({
    id: id('The id of the receipt.'),
    status: oneOf(['pending', 'done'], '`done`: nothing is left, and the server no longer knows whose data it was.'),
    address_hash: words('A keyed hash of the address, the same for each of its erasures in this account.'),
    suppression: oneOf(['keep', 'remove'], 'Whether to keep a suppression of the address.'),
    counts: z
      .object(Object.fromEntries(countedKinds.map((kind) => [kind, integer(kinds[kind])])) as Record<string, z.ZodInt>)
      .describe('How much has been erased so far.'),
    asked_at: time('When it was last requested. It covers the emails accepted until then.'),
    done_at: time('When it was done; null until then.').nullable(),
  })
  .meta({ id: 'Erasure', description: "The receipt for the erasure of one recipient's data." });

const example = {
  id: samples.erasure,
  status: 'done',
  address_hash: '8f14e45fceea167a5a36dedd4bea2543c9f0f895fb98ab9159f51fd0297e236d',
  suppression: 'keep',
  counts: {
    emails: 12,
    contents: 11,
    attachments: 2,
    recipients: 12,
    canceled: 1,
    attempts: 13,
    returns: 0,
    webhook_deliveries: 24,
    idempotency_keys: 1,
    sandbox_messages: 0,
    suppressions: 0,
  },
  asked_at: samples.createdAt,
  done_at: samples.deliveredAt,
};

export const privacyGroup: Group = {
  name: 'Privacy',
  description: 'Erase what is stored about one recipient, and export all data of an account.',
  operations: [
    {
      id: 'eraseRecipient',
      method: 'post',
      path: '/api/v1/recipients/erase',
      summary: "Erase a recipient's data",
      description:
        'Erases the address, and everything that was sent to it alone, from all data of the account: emails with their content, subject and files, attempts, bounces, webhook deliveries and stored responses. Emails that also went to others keep their content, without the address. Mail that still waits for the address is canceled. Statistics stay. The erasure begins within a second; how long it takes depends on the amount of data. It waits for mail that is being sent at this moment, and may leave mail that is accepted after the request. A second request meanwhile answers with the same erasure, which then also covers mail accepted until that request. An erasure cannot be undone. A key that is restricted to domains cannot do this.',
      access: { key: 'send', orLogin: true },
      body: { schema: erasureRequest, example: { address: samples.to, suppression: 'keep' } },
      answer: {
        description: 'The erasure, which is pending.',
        schema: z.object({ erasure }),
        example: { erasure: { ...example, status: 'pending', done_at: null } },
      },
    },
    {
      id: 'listErasures',
      method: 'get',
      path: '/api/v1/recipients/erasures',
      summary: 'List erasures',
      description: 'The receipts, newest first.',
      access: { key: 'read', orLogin: true },
      query: erasureQuery,
      answer: {
        description: 'One page.',
        schema: z.object({ erasures: list(erasure, 'The page.'), count: total }),
        example: { erasures: [example], count: 1 },
      },
    },
    {
      id: 'getErasure',
      method: 'get',
      path: '/api/v1/recipients/erasures/:id',
      summary: 'Get an erasure',
      description: 'Its progress and, once it is done, the receipt.',
      access: { key: 'read', orLogin: true },
      params: { id: "The erasure's id." },
      answer: { description: 'The erasure.', schema: z.object({ erasure }), example: { erasure: example } },
    },
    {
      id: 'exportAccount',
      method: 'get',
      path: '/api/v1/account/export',
      summary: 'Export all data of the account',
      description:
        'One JSON object a line, each with a `type`: `account`, `user`, `domain`, `api_key`, `template`, `suppression`, `webhook`, `erasure`, `attachment`, `email` (with all of `to`, its recipients and what came back; its own type is `email_type`), `attempt`, `content` and `webhook_delivery`, oldest first within each type. Fields have the same names as in this reference. `content` refers to its files by `sha256`. The export has no secrets: no keys, no hashes of keys, no private keys. The last line has the type `end`, with `counts`; if it is missing, the export is incomplete.',
      access: 'login',
      query: exportQuery,
      refusals: [tooManyExports],
      answer: {
        description: 'The lines, streamed as they are read.',
        schema: 'application/x-ndjson',
        example: '{"type":"account","name":"Shop"}\n{"type":"end","complete":true,"counts":{"account":1}}\n',
      },
    },
  ],
};
