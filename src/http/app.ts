import Router from '@koa/router';
import Koa from 'koa';
import { releaseBody } from './body/body.ts';
import { accessLog, demandHost, demandUrl, errors, requestId, securityHeaders } from './middleware.ts';
import { openApiDocument, operationsOf } from './openapi/document.ts';
import { referenceRoutes } from './openapi/reference.ts';
import { refuseUnknownParameters } from './query-names.ts';
import { adminRoutes } from './routes/admin.ts';
import { authRoutes } from './routes/auth.ts';
import { dashboard } from './routes/dashboard.ts';
import { destinationRoutes } from './routes/destinations.ts';
import { doctorRoutes } from './routes/doctor.ts';
import { domainRoutes } from './routes/domains.ts';
import { emailRoutes } from './routes/emails.ts';
import { healthRoutes } from './routes/health.ts';
import { keyRoutes } from './routes/keys.ts';
import { liveRoutes } from './routes/live.ts';
import { privacyRoutes } from './routes/privacy.ts';
import { sandboxRoutes } from './routes/sandbox.ts';
import { sendingRoutes } from './routes/sending.ts';
import { sessionRoutes } from './routes/session.ts';
import { statsRoutes } from './routes/stats.ts';
import { suppressionRoutes } from './routes/suppressions.ts';
import { templateRoutes } from './routes/templates.ts';
import { unsubscribeRoutes } from './routes/unsubscribe.ts';
import { webhookRoutes } from './routes/webhooks.ts';
import { welcomeRoutes } from './routes/welcome.ts';
import type { Services } from './services.ts';

/** The whole HTTP application: its middleware, in the order in which a request passes through it, and then its routes. */
export function createApp(services: Services): Koa {
  const app = new Koa({ proxy: services.proxies > 0, maxIpsCount: services.proxies });
  app.silent = true;
  app.use(releaseBody);
  app.use(requestId(services.log));
  app.use(accessLog(services.metrics));
  app.use(errors(services.log));
  app.use(securityHeaders(services.baseUrl.startsWith('https:')));
  app.use(demandUrl);
  app.use(demandHost);
  if (services.dashboard) app.use(dashboard(services.dashboard));
  for (const router of [rootRouter(services), apiRouter(app, services)]) {
    app.use(router.routes());
    app.use(router.allowedMethods());
  }
  return app;
}

/** Health, the reference, and the pages for people. */
function rootRouter(services: Services): Router {
  const root = new Router({ sensitive: true, strict: true });
  healthRoutes(root, services);
  welcomeRoutes(root, services);
  referenceRoutes(root, () => openApiDocument(services));
  unsubscribeRoutes(root, services);
  return root;
}

function apiRouter(app: Koa, services: Services): Router {
  const api = new Router({ prefix: '/api/v1', sensitive: true, strict: true });
  api.use(refuseUnknownParameters(operationsOf(services)));
  // Clients may write it in capitals, but it is compared, and used for sealing, as it is stored.
  api.param('id', (id, ctx, next) => {
    ctx.params.id = id.toLowerCase();
    return next();
  });
  authRoutes(api, services);
  sessionRoutes(api, app, services);
  keyRoutes(api, services);
  domainRoutes(api, services);
  sendingRoutes(api, services);
  emailRoutes(api, services);
  templateRoutes(api, services);
  suppressionRoutes(api, services);
  privacyRoutes(api, services);
  statsRoutes(api, services);
  liveRoutes(api, app, services);
  webhookRoutes(api, services);
  adminRoutes(api, services);
  destinationRoutes(api, services);
  doctorRoutes(api, services);
  if (services.sandbox) sandboxRoutes(api, services);
  return api;
}
