import { z } from 'zod';
import { countedKinds } from '../../core/erasures.ts';
import { erasureQuery, erasureRequest, exportQuery } from '../routes/privacy.ts';
import type { Group } from './operation.ts';
import { tooManyExports } from './refusals.ts';
import { samples } from './samples.ts';
import { id, integer, list, oneOf, time, total, words } from './schema.ts';

const kinds: Record<(typeof countedKinds)[number], string> = {
  emails: 'Emails that they were a recipient of: each keeps its id, times, status and figures.',
  contents: 'Contents that were for them alone, with their subjects.',
  attachments: 'Files that no other email has.',
  recipients: 'Places among recipients, where `erased-1` and its like stand now.',
  canceled: 'Of these, those that mail was still to be sent to.',
  attempts: 'Attempts, with what was said in them.',
  returns: 'Bounces, complaints and the like, with their words.',
  webhook_deliveries: 'Webhook deliveries: their payloads, and what endpoints answered.',
  idempotency_keys: 'Answers that were kept for an `Idempotency-Key`.',
  sandbox_messages: "Messages in the sandbox's mailbox.",
  suppressions: 'Suppressions, where that was asked for.',
};

const erasure = z
  .object({
    id: id('Of the receipt.'),
    status: oneOf(['pending', 'done'], '`done`: nothing is left, and nobody here knows any more whose it was.'),
    address_hash: words('A keyed hash of the address, the same for each erasure of it in this account.'),
    suppression: oneOf(['keep', 'remove'], 'Whether a suppression of the address stays.'),
    counts: z
      .object(Object.fromEntries(countedKinds.map((kind) => [kind, integer(kinds[kind])])) as Record<string, z.ZodInt>)
      .describe('How much was erased so far.'),
    asked_at: time('When it was asked for.'),
    done_at: time('When it was done; null: it is not.').nullable(),
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
  description: 'Erasing what is stored about one recipient, and getting all that an account has.',
  operations: [
    {
      id: 'eraseRecipient',
      method: 'post',
      path: '/api/v1/recipients/erase',
      summary: "Erase a recipient's data",
      description:
        'Erases the address, and what was written to it alone, from all that the account has: emails with their content, subject and files, attempts, bounces, webhook deliveries and kept answers. Emails to others as well keep their content, without the address. Mail that still waits for it is canceled. Figures stay. It begins within a second, and takes as long as there is much; what is being sent at this moment is waited for, and what is accepted before it is done goes too. Asking again meanwhile answers with the same one. It cannot be taken back. A key that is restricted to domains may not.',
      access: { key: 'send', orLogin: true },
      body: { schema: erasureRequest, example: { address: samples.to, suppression: 'keep' } },
      answer: {
        description: 'It is asked for.',
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
      description: 'How far it is, and afterwards the receipt.',
      access: { key: 'read', orLogin: true },
      params: { id: "The erasure's id." },
      answer: { description: 'It.', schema: z.object({ erasure }), example: { erasure: example } },
    },
    {
      id: 'exportAccount',
      method: 'get',
      path: '/api/v1/account/export',
      summary: 'Get all that the account has',
      description:
        'One JSON object a line, each with a `type`: `account`, `user`, `domain`, `api_key`, `template`, `suppression`, `webhook`, `erasure`, `attachment`, `email` (with all of `to`, its recipients and what came back; its own type is `email_type`), `attempt`, `content` and `webhook_delivery`, oldest first within each, and fields as everywhere here. `content` names its files by `sha256`. No secret is in it: no key, no hash of one, no private key. The last line is of the type `end`, with `counts`; where it is missing, something else is too.',
      access: 'login',
      query: exportQuery,
      refusals: [tooManyExports],
      answer: {
        description: 'The lines, as they are read.',
        schema: 'application/x-ndjson',
        example: '{"type":"account","name":"Shop"}\n{"type":"end","complete":true,"counts":{"account":1}}\n',
      },
    },
  ],
};
