import type Router from '@koa/router';
import { html, type Markup, pagePolicy } from '../markup.ts';
import type { Services } from '../services.ts';

/** `GET /`: the page for a person who opens the service in a browser. */
export function welcomeRoutes(router: Router, { baseUrl, sandbox }: Services): void {
  router.get('/', (ctx) => {
    ctx.type = 'html';
    ctx.set('Content-Security-Policy', pagePolicy(style));
    ctx.body = page(baseUrl, sandbox).html;
  });
}

const style = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #222; background: #fff }
  pre { background: #f4f4f2; padding: 1rem; overflow-x: auto; border-radius: .4rem; font-size: 14px }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #262626 } a { color: #8ab4f8 } }
`;

function page(baseUrl: string, sandbox: boolean): Markup {
  const mode = sandbox
    ? html`<p>It runs in <b>sandbox</b> mode: every message goes through the real mail server to a mailbox on this machine, and no mail leaves it.</p>`
    : html`<p>It delivers mail to the internet.</p>`;
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sendwright</title>
<style>${{ html: style }}</style>
<h1>Sendwright is running</h1>
${mode}
<p>The terminal that started it printed the admin login and a command that sends a first email. To send one from your own code:</p>
<pre>curl ${baseUrl}/api/v1/emails \\
  -H 'X-API-Key: sk_live_…' -H 'Content-Type: application/json' \\
  -d '{"from": "you@your-verified-domain", "to": ["someone@example.com"],
       "subject": "Hello", "text": "It works."}'</pre>
<p>Keys and domains are managed with the admin login: <code>POST /api/v1/auth/login</code>, <code>/api/v1/keys</code>,
<code>/api/v1/domains</code>. <a href="/docs">The reference</a> describes each call, and <a href="/api/v1/openapi.json">openapi.json</a>
does so for programs.</p>
</html>
`;
}
