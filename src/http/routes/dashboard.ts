import { randomBytes } from 'node:crypto';
import type { Context, Middleware } from 'koa';
import type { DashboardFiles } from '../dashboard-files.ts';

const yearSeconds = 31_536_000;

/** The paths of the pages; the routing among them happens in the browser. */
const pages =
  /^\/(?:|start|overview|emails|sandbox|domains|keys|templates|suppressions|webhooks|destinations|accounts|doctor|settings)(?:(?<!\/)\/[\w-]{1,100})?$/;

/**
 * Serves the dashboard: one document for all pages, and the files that it loads. They hold no data, so they need no login; the
 * data comes from the API. A browser that asks for an unknown path gets the document too, which says that the page is missing.
 */
export function dashboard({ index, assets }: DashboardFiles): Middleware {
  const show = (ctx: Context) => {
    ctx.type = 'html';
    const nonce = randomBytes(16).toString('base64');
    setPolicy(ctx, nonce);
    ctx.body = index.replaceAll('__NONCE__', nonce);
  };
  return async function dashboard(ctx, next) {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next();
    const asset = assets.get(ctx.path);
    if (asset) {
      ctx.type = asset.type;
      // Their names change with their content.
      ctx.set('Cache-Control', `public, max-age=${yearSeconds}, immutable`);
      ctx.vary('Accept-Encoding');
      const zipped = asset.gzip !== null && ctx.acceptsEncodings('gzip', 'identity') === 'gzip';
      if (zipped) ctx.set('Content-Encoding', 'gzip');
      ctx.body = zipped ? asset.gzip : asset.plain;
      return;
    }
    if (pages.test(ctx.path)) return show(ctx);
    const meant = ctx.path.replace(/\/$/, '');
    if (meant === '/docs' || pages.test(meant)) {
      if (meant === ctx.path) return next();
      ctx.status = 301;
      return ctx.redirect(`${meant}${ctx.search}`);
    }
    await next();
    if (ctx.status !== 404 || ctx.body !== undefined || !isVisit(ctx)) return;
    show(ctx);
    ctx.status = 404;
  };
}

/** Whether a person opens an address in a browser, rather than a program calling the API. */
const isVisit = (ctx: Context) => !ctx.path.startsWith('/api/') && /\btext\/html\b/.test(ctx.get('Accept'));

/**
 * Allows only scripts from our own files, and only styles from those or from elements with the nonce. Style attributes are
 * allowed because previews of emails inherit this policy and depend on them: without scripts, and without images or fonts from
 * elsewhere, the worst they can do is look odd.
 */
function setPolicy(ctx: Context, nonce: string): void {
  const own = "'self'";
  const policy = {
    'default-src': "'none'",
    'script-src': own,
    'style-src': `${own} 'nonce-${nonce}'`,
    'style-src-attr': "'unsafe-inline'",
    'img-src': `${own} data:`,
    'connect-src': own,
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  };
  const directives = Object.entries(policy).map(([name, value]) => `${name} ${value}`);
  ctx.set('Content-Security-Policy', directives.join('; '));
}
