import type { Context } from 'koa';
import { type ApiError, forbidden, unauthorized } from '../errors.ts';

/** Which credentials a call takes. */
export type Wanted = 'login' | 'key or login';

const wantedWords: Record<Wanted, string> = {
  login: 'the token of a login, from POST /api/v1/auth/login, as Authorization: Bearer',
  'key or login': 'an API key as X-API-Key, or the token of a login as Authorization: Bearer',
};

/** What somebody can do whose credential was refused. It follows from the request alone: nothing is told of what is stored. */
export function aboutCredential(ctx: Context, wanted: Wanted): string {
  const [key, authorization] = [ctx.get('X-API-Key'), ctx.get('Authorization')];
  const isKeyAsToken = /^bearer +sk_/i.test(authorization);
  if (wanted === 'login' && (isKeyAsToken || (key !== '' && authorization === '')))
    return `this call takes no API key but ${wantedWords.login}`;
  if (wanted === 'key or login' && key !== '')
    return key.startsWith('eyJ')
      ? 'a token is sent as Authorization: Bearer, not as X-API-Key'
      : 'the API key is none, was revoked, or has expired';
  if (isKeyAsToken) return 'an API key is sent as X-API-Key, not as Authorization';
  if (authorization !== '' && !/^bearer /i.test(authorization))
    return `Authorization must be Bearer: this call takes ${wantedWords[wanted]}`;
  if (authorization !== '' || ctx.get('Cookie') !== '')
    return 'the token is not valid, or its login has ended: POST /api/v1/auth/login gives another one';
  return `there is no credential: this call takes ${wantedWords[wanted]}`;
}

/** The error with words for a person, where it is a bare one of this status; any other as it is. */
export function explained<Thrown>(error: Thrown, status: 401 | 403, detail: string): Thrown | ApiError {
  const { status: own, detail: ownDetail } = (error ?? {}) as { status?: unknown; detail?: unknown };
  if (own !== status || ownDetail !== undefined) return error;
  // koa-jwt throws errors of its own, so it is made anew.
  return status === 403 ? forbidden(detail) : Object.assign(unauthorized(), { detail });
}

/** Does it, with words for a refusal of this status that has none. */
export async function explaining<Done>(status: 401 | 403, detail: string, act: () => Promise<Done>): Promise<Done> {
  try {
    return await act();
  } catch (error) {
    throw explained(error, status, detail);
  }
}

export const restrictedKey = 'the API key is restricted to other sender domains';
export const suspendedAccount = 'the account is suspended: an operator of the server can resume it';
