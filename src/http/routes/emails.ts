import type Router from '@koa/router';
import { z } from 'zod';
import * as log from '../../core/email-log.ts';
import { accept } from '../../core/emails.ts';
import type { KeyHolder } from '../../core/keys.ts';
import { demandKey } from '../auth.ts';
import { readJson } from '../body.ts';
import * as present from '../present.ts';
import { sendRequest } from '../send-request.ts';
import type { Services } from '../services.ts';
import { count, parse } from '../validation.ts';

/** 20 MB of attachments as base64, both bodies, and what JSON adds to them. */
const bodyLimit = 40 * 1024 * 1024;

const page = z.object({ limit: count(50, 100), offset: count(0, 2_147_483_647) });

/** `POST`, `GET`, `GET /:id` and `GET /:id/attempts` of `/emails`. */
export function emailRoutes(router: Router, { db, queue }: Services): void {
  router.post('/emails', demandKey(db, 'send'), async (ctx) => {
    const request = parse(sendRequest, await readJson(ctx, bodyLimit));
    const [accepted] = await accept(db, queue, ctx.state.holder as KeyHolder, [request]);
    if (!accepted) throw new Error('accept answered for no request');
    if ('refusal' in accepted) throw accepted.refusal;
    ctx.body = { email: present.email(accepted.email) };
  });

  router.get('/emails', demandKey(db, 'read'), async (ctx) => {
    const { accountId } = ctx.state.holder as KeyHolder;
    const { emails, count } = await log.list(db, accountId, parse(page, ctx.query));
    ctx.body = { emails: emails.map(present.email), count };
  });

  router.get('/emails/:id', demandKey(db, 'read'), async (ctx) => {
    const { accountId } = ctx.state.holder as KeyHolder;
    const { email, recipients } = await log.get(db, accountId, ctx.params.id ?? '');
    ctx.body = { email: { ...present.email(email), recipients: recipients.map(present.recipient) } };
  });

  router.get('/emails/:id/attempts', demandKey(db, 'read'), async (ctx) => {
    const { accountId } = ctx.state.holder as KeyHolder;
    const attempts = await log.attempts(db, accountId, ctx.params.id ?? '');
    ctx.body = { attempts: attempts.map(present.attempt) };
  });
}
