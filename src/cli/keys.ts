import * as keys from '../core/accounts/keys.ts';
import type { ApiKey } from '../generated/prisma/client.ts';
import * as present from '../http/present.ts';
import { newKey } from '../http/routes/keys.ts';
import type { Command } from './command.ts';
import { withDatabase } from './database.ts';
import { listOf, read, required, textOf } from './given.ts';
import { table } from './table.ts';
import { accountOf } from './whose.ts';

const shown = (key: ApiKey) => present.withAccount(present.apiKey(key), key);

const heads = ['ID', 'ACCOUNT', 'NAME', 'KEY', 'SCOPES', 'DOMAINS', 'STATE'];

function row(key: ApiKey): string[] {
  const over = key.expiresAt && key.expiresAt.getTime() <= Date.now();
  const active = key.expiresAt ? `active until ${key.expiresAt.toISOString()}` : 'active';
  const state = key.revokedAt ? 'revoked' : over ? 'expired' : active;
  const domains = key.domains.length === 0 ? 'any' : key.domains.join(',');
  return [key.id, key.accountId, key.name, `${key.keyPrefix}…`, key.scopes.join(','), domains, state];
}

const ofAccount =
  '  --account <account>  its id, or the email address of one of its users; the default is that of the first admin';

export const listKeys: Command = {
  help: ['Usage: sendwright keys list [--account <account>]', '', ofAccount].join('\n'),
  options: { account: { type: 'string' } },
  async run(env, say, given) {
    return withDatabase(env, say, async ({ db }) => {
      const { id } = await accountOf(db, textOf(given, 'account'));
      const found = await keys.list(db, id);
      return {
        json: { api_keys: found.map(shown) },
        text: table(heads, found.map(row), 'The account has no API keys.'),
      };
    });
  },
};

export const createKey: Command = {
  help: [
    'Usage: sendwright keys create --name <name> [options]',
    '',
    ofAccount,
    '  --scope <scope>      send (the default) or read; may be given more than once',
    '  --domain <domain>    the only sender domain that the key may use; may be given more than once',
    '  --expires-at <time>  when the key expires, such as 2027-12-31T00:00:00Z',
    '',
    'Only the key is written to standard output.',
  ].join('\n'),
  options: {
    account: { type: 'string' },
    name: { type: 'string' },
    scope: { type: 'string', multiple: true },
    domain: { type: 'string', multiple: true },
    'expires-at': { type: 'string' },
  },
  async run(env, say, given) {
    const [scopes, domains] = [listOf(given, 'scope'), listOf(given, 'domain')];
    const input = read(newKey, {
      name: required(given, 'name'),
      ...(scopes.length > 0 ? { scopes } : {}),
      ...(domains.length > 0 ? { domains } : {}),
      expires_at: textOf(given, 'expires-at'),
    });
    return withDatabase(env, say, async ({ db }) => {
      const { id } = await accountOf(db, textOf(given, 'account'));
      const { key, apiKey } = await keys.create(db, id, input);
      say('Store this key now: it is shown only once and cannot be read again.');
      return { json: { key, api_key: shown(apiKey) }, text: key };
    });
  },
};

export const revokeKey: Command = {
  help: [
    'Usage: sendwright keys revoke <id>',
    '',
    'The id is the one that keys list shows. You can give the key itself instead, for example if it has leaked.',
    'The key is refused from now on, and mail that it has scheduled fails when its time comes. Other mail that it has sent and that',
    'waits still goes out: sendwright emails stop --key <id> stops that. A key that is already revoked stays as it is.',
  ].join('\n'),
  operands: ['id'],
  async run(env, say, { operands: [named = ''] }) {
    return withDatabase(env, say, async ({ db }) => {
      const { id, accountId } = await keys.findNamed(db, named);
      const revoked = await keys.revoke(db, accountId, id);
      // Not counted: an account may have millions of emails, and the revocation must not look as if it had failed.
      say(
        `Mail that it sent and that waits still goes out, unless it was scheduled: sendwright emails stop --key ${id} stops that.`,
      );
      return { json: { api_key: shown(revoked) }, text: table(heads, [row(revoked)], '') };
    });
  },
};
