import { z } from 'zod';
import { scopes } from '../../core/accounts/keys.ts';
import { part } from '../input/validation.ts';
import { newKey } from '../routes/keys.ts';
import type { Group } from './operation.ts';
import { samples } from './samples.ts';
import { id, list, time, words } from './schema.ts';

const apiKey = z
  .object({
    id: id('Its id.'),
    name: words('Its name.'),
    key_prefix: words('The first characters of the key.'),
    scopes: list(z.enum(scopes), 'What it allows.'),
    domains: list(z.string(), 'The domains that it may send from; empty: all domains of the account.'),
    expires_at: time('When it expires; null: never. What it scheduled before is still sent.').nullable(),
    created_at: time('When it was created.'),
    revoked_at: time('When it was revoked; null: it is not revoked.').nullable(),
  })
  .meta({ id: 'ApiKey', description: 'An API key, without the key itself.' });

const example = {
  id: samples.key,
  name: 'shop',
  key_prefix: 'sk_live_Xy7a',
  scopes: ['send'],
  domains: [],
  expires_at: null,
  created_at: samples.createdAt,
  revoked_at: null,
};

export const keyGroup: Group = {
  name: 'API keys',
  description: 'The credentials that your programs send with.',
  operations: [
    {
      id: 'createKey',
      method: 'post',
      path: '/api/v1/keys',
      summary: 'Create an API key',
      description: 'Returns the whole key, which is shown only once.',
      access: 'login',
      body: { schema: newKey, example: { name: 'shop', scopes: ['send'] } },
      answer: {
        description: 'The key.',
        schema: z.object({
          key: words('The whole key. It cannot be shown again, because only its hash is stored.'),
          api_key: apiKey,
          warning: words('A reminder to store it.'),
        }),
        example: {
          key: 'sk_live_Xy7a...',
          api_key: example,
          warning: 'Store this key now: it is shown only once and cannot be read again.',
        },
      },
    },
    {
      id: 'listKeys',
      method: 'get',
      path: '/api/v1/keys',
      summary: 'List API keys',
      description: 'All keys of the account, newest first, including revoked ones.',
      access: 'login',
      query: z.object(part),
      answer: {
        description: 'The keys.',
        schema: z.object({ api_keys: list(apiKey, 'Newest first.') }),
        example: { api_keys: [example] },
      },
    },
    {
      id: 'revokeKey',
      method: 'delete',
      path: '/api/v1/keys/:id',
      summary: 'Revoke an API key',
      description:
        'The key is refused from this moment on, and emails that it scheduled are not sent. Revoking it again changes nothing.',
      access: 'login',
      params: { id: "The key's id." },
      answer: {
        description: 'The revoked key.',
        schema: z.object({ api_key: apiKey }),
        example: { api_key: { ...example, revoked_at: '2026-11-21T10:00:00.000Z' } },
      },
    },
  ],
};
