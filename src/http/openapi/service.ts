import { z } from 'zod';
import { planNames } from '../../core/accounts/plans.ts';
import { credentials } from '../login.ts';
import { passwordChange } from '../routes/auth.ts';
import { usage } from './admin.ts';
import { type Group, message, type Operation } from './operation.ts';
import type { Refusal } from './refusals.ts';
import { samples } from './samples.ts';
import { flag, id, integer, oneOf, time, words } from './schema.ts';

const login = z
  .object({
    token: words('The token for `Authorization: Bearer`.'),
    token_type: z.literal('Bearer').describe('The scheme to send it with.'),
    expires_at: time('When it expires, unless the password is changed earlier.'),
    user: z
      .object({
        id: id('The user.'),
        email: words('The email address that the user logs in with.'),
        role: oneOf(['admin', 'member'], 'An `admin` operates the server.'),
      })
      .describe('The user who logged in.'),
    account: z
      .object({ id: id('The account.'), name: words('Its name.'), plan: oneOf(planNames, 'Its plan.') })
      .describe('The account of the user.'),
  })
  .meta({ id: 'Login', description: 'A login with its token.' });

const session = login
  .omit({ token: true, token_type: true })
  .extend({
    expires_at: time('When it expires, unless it is ended or the password is changed earlier.'),
    account: login.shape.account
      .extend({
        usage: usage.describe('What counts towards the plan, by days and months in UTC.'),
        left: z
          .object({
            day: integer('Today; null: the plan has no limit for a day.').nullable(),
            month: integer('This month, with the credit; null: the plan has no limit for a month.').nullable(),
          })
          .describe('How many more emails the plan allows.'),
      })
      .describe('The account of the user, and what its plan still allows.'),
    service: z
      .object({
        base_url: words('The base URL that clients use.'),
        submission: z
          .object({
            host: words('The host.'),
            starttls_port: integer('The port for STARTTLS; null: it is not open.').nullable(),
            tls_port: integer('The port for TLS from the start; null: it is not open.').nullable(),
            self_signed: flag('Its certificate is one that programs do not trust by themselves.'),
          })
          .nullable()
          .describe(
            'Where programs hand in mail by SMTP, with an API key as the password; null: the node that answers takes none.',
          ),
        sandbox: z.boolean().describe('No mail leaves the machine.'),
        on_hold_since: time(
          'When the service was put on hold: mail is accepted but not sent until an operator releases it; null: it is not on hold.',
        ).nullable(),
        delivers: z.boolean().describe('A process that delivers mail is running.'),
      })
      .describe('The service.'),
  })
  .meta({ id: 'Session', description: 'A login that a browser keeps.' });

const sessionExample = {
  expires_at: '2026-11-21T21:00:00.000Z',
  user: { id: samples.user, email: 'admin@localhost', role: 'admin' },
  account: {
    id: samples.account,
    name: 'Administration',
    plan: 'unlimited',
    usage: { day: null, month: null },
    left: { day: null, month: null },
  },
  service: {
    base_url: 'http://localhost:3000',
    submission: { host: 'localhost', starttls_port: 2587, tls_port: 2465, self_signed: true },
    sandbox: true,
    on_hold_since: null,
    delivers: true,
  },
};

const loginRefusals: Refusal[] = [
  { status: 401, error: 'unauthorized', when: 'There is no such user, or the password is wrong.' },
  {
    status: 429,
    error: 'rate limited',
    when: 'Within 15 minutes ten logins failed for this email from this address, a hundred from this address, or 300 for this email; `Retry-After` says when to try again.',
    detail: 'too many failed logins for this email or from this address: try again in 15 min',
  },
];

const status = (value: string) => z.object({ status: z.literal(value).describe('The status.') });

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

const unsubscribing: Pick<Operation, 'params' | 'refusals'> = {
  params: { token: 'The token in the link, made for one recipient of one email.' },
  refusals: [
    {
      status: 404,
      error: 'not found',
      when: 'The link is not valid. A browser that asks for `text/html` gets a page that says so.',
      orPage: true,
    },
  ],
};

export const serviceGroup: Group = {
  name: 'Login and service',
  description: 'Log in to manage the account, check whether the service works, and read this reference.',
  operations: [
    {
      id: 'logIn',
      method: 'post',
      path: '/api/v1/auth/login',
      summary: 'Log in',
      description: 'Returns a token that is valid for 12 hours, or until the password changes.',
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
      refusals: [...loginRefusals, { status: 403, error: 'forbidden', when: 'The account is suspended.' }],
    },
    {
      id: 'changePassword',
      method: 'post',
      path: '/api/v1/auth/password',
      summary: 'Change the password',
      description:
        'Ends all earlier tokens and sessions of the user, including this one: the response has a new token, or sets a new cookie if you called with a cookie.',
      access: 'login',
      body: {
        schema: passwordChange,
        example: { current_password: 'correct horse battery staple', new_password: 'a staple of another horse' },
      },
      answer: {
        description: 'The new login.',
        schema: login
          .pick({ token_type: true, expires_at: true })
          .extend({ token: words('The new token; null if it is in a cookie.').nullable() }),
        example: { token: 'eyJhbGciOiJIUzI1NiJ9...', token_type: 'Bearer', expires_at: '2026-11-21T21:00:00.000Z' },
      },
      refusals: [
        {
          status: 403,
          error: 'forbidden',
          when: 'The current password is wrong.',
        },
        {
          status: 429,
          error: 'rate limited',
          when: 'The current password was wrong ten times within 15 minutes; `Retry-After` says when to try again.',
          detail: 'too many failed logins for this email or from this address: try again in 15 min',
        },
      ],
    },
    {
      id: 'createSession',
      method: 'post',
      path: '/api/v1/session',
      summary: 'Log in with a browser',
      description:
        'Sets a cookie that is accepted wherever a token is. Scripts cannot read it. A request with the cookie that changes something needs the header `X-Sendwright-Page`, which pages of other sites cannot send. One that says in `X-Sendwright-User` for which user it was made is refused if the cookie is that of another one by then.',
      access: 'anyone',
      body: { schema: credentials, example: { email: 'admin@localhost', password: 'correct horse battery staple' } },
      answer: { description: 'The cookie is set.', schema: session, example: sessionExample },
      refusals: [
        ...loginRefusals,
        {
          status: 403,
          error: 'forbidden',
          when: 'The account is suspended, or the call comes from a page of another site.',
        },
      ],
    },
    {
      id: 'getSession',
      method: 'get',
      path: '/api/v1/session',
      summary: 'Who is logged in?',
      description: 'Returns the user and account of the token or cookie.',
      access: 'login',
      answer: { description: 'The login.', schema: session, example: sessionExample },
    },
    {
      id: 'endSession',
      method: 'delete',
      path: '/api/v1/session',
      summary: 'Log out',
      description: 'Ends this login on all nodes; its token is no longer accepted.',
      access: 'login',
      answer: { description: 'The login is over.', schema: message, example: { message: 'logged out' } },
    },
    {
      id: 'watchEmails',
      method: 'get',
      path: '/api/v1/live',
      summary: 'Watch emails change',
      description:
        'Server-sent events for as long as the login is valid. An event `emails` is sent at once, and within two seconds after an email of the account is accepted or changes its status. Its data counts the emails of the last four days by status. An event `alive` comes about every ten seconds: a stream without one for much longer is dead. A user can have 20 streams, and a node 500.',
      access: 'login',
      answer: {
        description: 'A stream that does not end.',
        schema: 'text/event-stream',
        example: 'event: emails\ndata: {"queued":2,"sent":40}\n\n',
      },
    },
    {
      id: 'isAlive',
      method: 'get',
      path: '/healthz',
      summary: 'Is it alive?',
      description: 'Checks that the process answers.',
      access: 'anyone',
      answer: { description: 'It answers.', schema: status('ok'), example: { status: 'ok' } },
    },
    {
      id: 'isReady',
      method: 'get',
      path: '/readyz',
      summary: 'Is it ready?',
      description:
        'Checks that the database and the queue answer within three seconds, that the database is not read-only, as a standby is, that no write failed within the last ten seconds because its disk is full, and that the node is not stopping.',
      access: 'anyone',
      answer: { description: 'They answer.', schema: status('ready'), example: { status: 'ready' } },
      refusals: [
        {
          status: 503,
          error: 'unavailable',
          when: 'They do not answer, the database cannot be written to, or the node is stopping.',
        },
      ],
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
    {
      ...htmlPage('/', 'showWelcome', 'The dashboard'),
      description: 'The dashboard; if it was not built, a page with first steps.',
    },
    {
      ...htmlPage('/unsubscribe/:token', 'showUnsubscribe', 'Show the unsubscribe page'),
      description: 'The page behind the link in marketing mail. Opening it changes nothing.',
      ...unsubscribing,
    },
    {
      ...htmlPage('/unsubscribe/:token', 'unsubscribe', 'Unsubscribe'),
      method: 'post',
      description:
        'Puts the recipient on the suppression list for marketing mail: with one click in a mail program (RFC 8058), or from the page. The body is ignored, and a second call changes nothing.',
      ...unsubscribing,
    },
  ],
};
