import type Router from '@koa/router';
import { z } from 'zod';
import * as messages from '../../core/operations/sandbox-messages.ts';
import { partAsStored } from '../../mail/address/address.ts';
import { demandLogin, sessionOf } from '../credentials/auth.ts';
import { idOf, line, page, parse } from '../input/validation.ts';
import * as present from '../present.ts';
import type { Services } from '../services.ts';

/** The list cuts a source after this many bytes; the single message has all of it. */
const listedRawBytes = 256 * 1024;

export const sandboxQuery = z.object({
  ...page,
  q: line(998)
    .optional()
    .describe('Only messages with this text in a recipient or in the subject; case does not matter.'),
});

/** `GET /sandbox/messages` and `GET /sandbox/messages/:id`: what arrived in the sandbox's mailbox. */
export function sandboxRoutes(router: Router, services: Services): void {
  const { db } = services;
  const loggedIn = demandLogin(services);

  router.get('/sandbox/messages', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    const { q, ...rest } = parse(sandboxQuery, ctx.query);
    // What looks like a domain may also be part of a local part or of the subject, which are stored as they were written.
    const parts = q === undefined ? [] : [q, partAsStored(q)];
    const found = await messages.list(db, accountId, { ...rest, parts, rawLimit: listedRawBytes });
    ctx.body = { messages: found.messages.map(present.sandboxMessage), count: found.count };
  });

  router.get('/sandbox/messages/:id', loggedIn, async (ctx) => {
    const { accountId } = sessionOf(ctx);
    ctx.body = { message: present.sandboxMessage(await messages.get(db, accountId, idOf(ctx))) };
  });
}
