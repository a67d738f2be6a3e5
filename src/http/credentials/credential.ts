import type { Context } from 'koa';
import { sessionToken } from './session-cookie.ts';

/** Which credentials a call takes. */
export type Wanted = 'login' | 'key or login';

const wantedWords: Record<Wanted, string> = {
  login: 'a login token from POST /api/v1/auth/login, in Authorization: Bearer',
  'key or login': 'an API key in X-API-Key, or a login token in Authorization: Bearer',
};

/** What to do after a credential was refused. It depends on the request alone, so that it reveals nothing that is stored. */
export function aboutCredential(ctx: Context, wanted: Wanted): string {
  const [key, authorization] = [ctx.get('X-API-Key'), ctx.get('Authorization')];
  const isKeyAsToken = /^bearer +sk_/i.test(authorization);
  if (wanted === 'login' && (isKeyAsToken || (key !== '' && authorization === '')))
    return `this call does not accept API keys: send ${wantedWords.login}`;
  if (wanted === 'key or login' && /^bearer /i.test(key)) return 'X-API-Key must be the key alone, without Bearer';
  if (wanted === 'key or login' && key !== '')
    return key.startsWith('eyJ')
      ? 'send a login token in Authorization: Bearer, not in X-API-Key'
      : 'the API key is unknown, revoked or expired';
  if (isKeyAsToken) return 'send an API key in X-API-Key, not in Authorization';
  if (authorization !== '' && !/^bearer /i.test(authorization))
    return `Authorization must be Bearer and a token: send ${wantedWords[wanted]}`;
  if (authorization !== '' || sessionToken(ctx) !== null)
    return 'the login token is invalid or has expired: log in again with POST /api/v1/auth/login';
  return `the request has no credential: send ${wantedWords[wanted]}`;
}
