import type { Context } from 'koa';
import { sessionToken } from './session-cookie.ts';

/** Which credentials a call takes. */
export type Wanted = 'login' | 'key or login';

const wantedWords: Record<Wanted, string> = {
  login: 'the token of a login, from POST /api/v1/auth/login, as Authorization: Bearer',
  'key or login': 'an API key as X-API-Key, or the token of a login as Authorization: Bearer',
};

/** What to do after a credential was refused. It depends on the request alone, so that it reveals nothing that is stored. */
export function aboutCredential(ctx: Context, wanted: Wanted): string {
  const [key, authorization] = [ctx.get('X-API-Key'), ctx.get('Authorization')];
  const isKeyAsToken = /^bearer +sk_/i.test(authorization);
  if (wanted === 'login' && (isKeyAsToken || (key !== '' && authorization === '')))
    return `this call takes no API key but ${wantedWords.login}`;
  if (wanted === 'key or login' && /^bearer /i.test(key)) return 'X-API-Key is the key alone, without Bearer';
  if (wanted === 'key or login' && key !== '')
    return key.startsWith('eyJ')
      ? 'a token is sent as Authorization: Bearer, not as X-API-Key'
      : 'the API key is none, was revoked, or has expired';
  if (isKeyAsToken) return 'an API key is sent as X-API-Key, not as Authorization';
  if (authorization !== '' && !/^bearer /i.test(authorization))
    return `Authorization must be Bearer and a token: this call takes ${wantedWords[wanted]}`;
  if (authorization !== '' || sessionToken(ctx) !== null)
    return 'the token is not valid, or its login has ended: POST /api/v1/auth/login gives another one';
  return `there is no credential: this call takes ${wantedWords[wanted]}`;
}
