import { z } from 'zod';
import { planNames } from '../../core/plans.ts';
import { credentials } from '../routes/auth.ts';
import type { Group, Operation } from './operation.ts';
import { samples } from './samples.ts';
import { id, oneOf, time, words } from './schema.ts';

const login = z
  .object({
    token: words('For `Authorization: Bearer`.'),
    token_type: z.literal('Bearer').describe('How it is sent.'),
    expires_at: time('Until when it is good, unless the password changes.'),
    user: z
      .object({
        id: id('The user.'),
        email: words('What the user logs in with.'),
        role: oneOf(['admin', 'member'], 'An `admin` operates the server.'),
      })
      .describe('Who logged in.'),
    account: z
      .object({ id: id('The account.'), name: words('Its name.'), plan: oneOf(planNames, 'What it may send.') })
      .describe('Whose account it is.'),
  })
  .meta({ id: 'Login', description: 'A login with its token.' });

const status = (value: string) => z.object({ status: z.literal(value).describe('It is so.') });

/** What a person opens in a browser. */
const htmlPage = (path: `/${string}`, id: string, summary: string): Operation => ({
  id,
  method: 'get',
  path,
  summary,
  description: 'A page for people.',
  access: 'anyone',
  answer: { description: 'The page.', schema: 'text/html', example: '<!doctype html>…' },
});

const unsubscribing = { token: 'From the link, made for one recipient of one email.' };

export const serviceGroup: Group = {
  name: 'Login and service',
  description: 'The token for everything that is managed; whether the service works; this reference.',
  operations: [
    {
      id: 'logIn',
      method: 'post',
      path: '/api/v1/auth/login',
      summary: 'Log in',
      description: 'A token for 12 hours. A change of the password ends it.',
      access: 'anyone',
      body: { schema: credentials, example: { email: 'admin@localhost', password: 'correct horse battery staple' } },
      answer: {
        description: 'The token.',
        schema: login,
        example: {
          token: 'eyJhbGciOiJIUzI1NiJ9...',
          token_type: 'Bearer',
          expires_at: '2026-11-21T21:00:00.000Z',
          user: { id: samples.user, email: 'admin@localhost', role: 'admin' },
          account: { id: samples.account, name: 'Administration', plan: 'unlimited' },
        },
      },
      refusals: [
        { status: 401, error: 'unauthorized', when: 'There is no such user, or the password is another one.' },
        { status: 403, error: 'forbidden', when: 'The account is suspended.' },
        {
          status: 429,
          error: 'rate limited',
          when: 'Within 15 minutes ten logins failed for this email from this address, a hundred from this address, or 300 for this email; `Retry-After` says when to try again.',
          detail: 'too many failed logins for this email or from this address: try again in 15 min',
        },
      ],
    },
    {
      id: 'isAlive',
      method: 'get',
      path: '/healthz',
      summary: 'Is it alive?',
      description: 'The process answers.',
      access: 'anyone',
      answer: { description: 'It does.', schema: status('ok'), example: { status: 'ok' } },
    },
    {
      id: 'isReady',
      method: 'get',
      path: '/readyz',
      summary: 'Is it ready?',
      description: 'The database and the queue answer within three seconds.',
      access: 'anyone',
      answer: { description: 'They do.', schema: status('ready'), example: { status: 'ready' } },
      refusals: [{ status: 503, error: 'unavailable', when: 'They do not.' }],
    },
    {
      id: 'getOpenApi',
      method: 'get',
      path: '/api/v1/openapi.json',
      summary: 'This reference, for programs',
      description: 'An OpenAPI 3.1 document.',
      access: 'anyone',
      answer: {
        description: 'The document.',
        schema: z.looseObject({ openapi: words('The version of OpenAPI.') }),
        example: { openapi: '3.1.1' },
      },
    },
    htmlPage('/docs', 'showReference', 'This reference, for people'),
    htmlPage('/', 'showWelcome', 'Where to begin'),
    {
      ...htmlPage('/unsubscribe/:token', 'showUnsubscribe', 'Ask who wants no more marketing mail'),
      description: 'The page behind the link in marketing mail. Looking at it changes nothing.',
      params: unsubscribing,
    },
    {
      ...htmlPage('/unsubscribe/:token', 'unsubscribe', 'Unsubscribe'),
      method: 'post',
      description:
        'Puts the recipient onto the suppression list, for marketing mail: with one click in a mail program (RFC 8058), or from the page. What is in the body does not matter, and again is as good as once.',
      params: unsubscribing,
    },
  ],
};
