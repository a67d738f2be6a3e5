import type Router from '@koa/router';
import type { Context } from 'koa';
import { lookUp, type Subscription, unsubscribe } from '../../core/returns/unsubscribe.ts';
import { notFound } from '../../errors.ts';
import { parseUnsubscribeLink } from '../../mail/links/unsubscribe-link.ts';
import { html, type Markup, pagePolicy } from '../markup.ts';
import type { Services } from '../services.ts';

/**
 * `GET /unsubscribe/:token`: a page with a button. It changes nothing, because programs follow every link in a message.
 * `POST`: unsubscribes, from that button or from a mail program (RFC 8058), which has no login and ignores the answer.
 */
export function unsubscribeRoutes(router: Router, { db, queue, tokenKeys }: Services): void {
  const named = (ctx: Context & { params: Record<string, string> }) =>
    parseUnsubscribeLink(tokenKeys.unsubscribe, ctx.params.token ?? '');

  router.get('/unsubscribe/:token', async (ctx) => {
    const link = named(ctx);
    const subscription = link && (await lookUp(db, link));
    if (subscription) show(ctx, 'Unsubscribe', question(subscription));
    else showNone(ctx);
  });

  router.post('/unsubscribe/:token', async (ctx) => {
    const link = named(ctx);
    const subscription = link && (await unsubscribe(db, queue, link));
    if (subscription) show(ctx, 'Unsubscribed', answer(subscription));
    else showNone(ctx);
  });
}

/** @throws ApiError 404 if the client does not prefer HTML, such as a mail program */
function showNone(ctx: Context): void {
  if (ctx.accepts('json', 'html') !== 'html') throw notFound();
  ctx.status = 404;
  show(ctx, 'This link does not work', nowhere);
}

const style = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 3rem auto; padding: 0 1rem; color: #222; background: #fff }
  button { font: inherit; padding: .5rem 1.25rem; cursor: pointer }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } }
`;

function show(ctx: Context, title: string, content: Markup): void {
  ctx.type = 'html';
  ctx.set('Content-Security-Policy', pagePolicy(style, "'self'"));
  ctx.body = html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${{ html: style }}</style>
<h1>${title}</h1>
${content}
</html>
`.html;
}

const question = ({
  address,
  from,
}: Subscription) => html`<p>Stop newsletters from ${sender(from)} to <b>${masked(address)}</b>?</p>
<form method="post"><button name="List-Unsubscribe" value="One-Click">Unsubscribe</button></form>`;

const nowhere = html`<p>The link is incomplete, or this server no longer has the message that it belongs to.</p>
<p>Please open it from the message again, or reply to the message and ask to be unsubscribed.</p>`;

const answer = ({
  address,
  from,
}: Subscription) => html`<p><b>${masked(address)}</b> will get no more newsletters from ${sender(from)}.
Messages about orders and accounts are still sent.</p>`;

const sender = (from: string | null) => (from === null ? html`the sender of that message` : html`<b>${from}</b>`);

/** The owner recognizes the start of the address; somebody who got the message forwarded need not see all of it. */
const masked = (address: string) => address.replace(/^(.[^@]?)[^@]*/su, '$1…');
